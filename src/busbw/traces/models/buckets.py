"""Data-parallel traffic of Megatron's distributed optimizer, in buckets of parameters.

Source: distributed_data_parallel.py and param_and_grad_buffer.py in megatron/core/distributed/. A bucket ends with the
parameter that fills it. Gradients are reduced in float during the backward pass, and parameters are gathered during the
next forward pass.
"""

from dataclasses import dataclass
from math import lcm

from busbw.traces.format import Function
from busbw.traces.models.timeline import Timeline

MIN_BUCKET = 40_000_000
"""Parameters of a bucket on few ranks; more than 40 ranks have a million per rank."""
ALIGNMENT = 128
"""Parameters that the length of a bucket is a multiple of."""


@dataclass(frozen=True)
class Bucket:
    """Parameters that are reduced together."""

    layer: int
    """First layer in it. Its gradients are complete after the backward pass of this layer."""
    shard: int
    """Parameters of one rank."""


def make_buckets(parameters: list[list[int]], ranks: int) -> tuple[Bucket, ...]:
    """Returns the buckets in the order of the backward pass. Empty on one rank.

    Args:
        parameters: Sizes of the parameters of each layer, in the order of the forward pass.
        ranks: Ranks of the data-parallel group.
    """
    if ranks == 1:
        return ()
    buckets: list[Bucket] = []
    size = 0
    unit = lcm(ranks, ALIGNMENT)
    for layer, count in [(layer, count) for layer, counts in enumerate(parameters) for count in counts][::-1]:
        size += count
        if size >= max(MIN_BUCKET, 1_000_000 * ranks):
            buckets.append(Bucket(layer, -(-size // unit) * unit // ranks))
            size = 0
    return (*buckets, Bucket(0, -(-size // unit) * unit // ranks)) if size else tuple(buckets)


def append_gathers(timeline: Timeline, buckets: tuple[Bucket, ...], communicator: int, layer: int) -> None:
    """Appends the all-gathers at the start of a layer's forward pass: each one bucket before its use."""
    order = buckets[::-1]
    for index, bucket in enumerate(order):
        if (0 if index == 0 else order[index - 1].layer) == layer:
            timeline.call(Function.ALL_GATHER, communicator, bucket.shard, overlapped=index > 0)


def append_reductions(timeline: Timeline, buckets: tuple[Bucket, ...], communicator: int, layer: int) -> None:
    """Appends the reduce-scatters at the end of a layer's backward pass."""
    for bucket in buckets:
        if bucket.layer == layer:
            timeline.call(Function.REDUCE_SCATTER, communicator, bucket.shard, "float", "sum", overlapped=True)
