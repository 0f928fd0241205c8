"""Data-parallel operations of Megatron's distributed optimizer, in buckets of parameters.

Source: distributed_data_parallel.py and param_and_grad_buffer.py in megatron/core/distributed/. A bucket ends with the
parameter that reaches its minimum size. Gradients are reduced in float during the backward pass. In the next forward
pass, the parameters of a bucket are gathered while the bucket before it is in use.
"""

from math import lcm

from busbw.traces.format import Flag, Function
from busbw.traces.models.timeline import Timeline

_MIN_BUCKET, _MIN_BUCKET_SHARD = 40_000_000, 1_000_000
"""Minimum number of parameters of a bucket, in total and per rank: Megatron's defaults. The last one may be smaller."""
_BUCKET_UNIT = 128
"""The size of a bucket is a multiple of this number, and of the number of ranks."""


class DistributedOptimizer:
    """The buckets of one rank in one communicator."""

    def __init__(self, communicator: int, parameters: list[list[int]], ranks: int) -> None:
        """Forms the buckets. One rank exchanges nothing.

        `parameters`: sizes of the parameters of each layer, in the order of the forward pass.
        """
        self._communicator = communicator
        self._buckets: list[tuple[int, int]] = []
        """(first layer of the bucket, its parameters on one rank), in the order of the backward pass."""
        if ranks == 1:
            return
        forward = [(layer, count) for layer, counts in enumerate(parameters) for count in counts]
        min_size = max(_MIN_BUCKET, _MIN_BUCKET_SHARD * ranks)
        unit = lcm(ranks, _BUCKET_UNIT)
        size = 0
        for index, (layer, count) in reversed(list(enumerate(forward))):
            size += count
            if size >= min_size or index == 0:
                padded = -(-size // unit) * unit  # rounded up
                self._buckets.append((layer, padded // ranks))
                size = 0

    def gather(self, timeline: Timeline, layer: int) -> None:
        """Appends the all-gathers at the beginning of a layer's forward pass."""
        forward = self._buckets[::-1]
        for index, (_, shard) in enumerate(forward):
            gather_layer, _ = forward[max(0, index - 1)]  # a bucket is gathered one bucket before its use
            if gather_layer == layer:
                is_overlapped = index > 1  # the first two buckets are gathered before any computation
                flags = Flag.IN_PLACE | (Flag.GAP_OVERLAPPED if is_overlapped else 0)
                timeline.call(Function.ALL_GATHER, self._communicator, shard, flags=flags)

    def reduce(self, timeline: Timeline, layer: int) -> None:
        """Appends the reduce-scatters at the end of a layer's backward pass."""
        flags = Flag.IN_PLACE | Flag.GAP_OVERLAPPED
        for first, shard in self._buckets:
            if first == layer:
                timeline.call(Function.REDUCE_SCATTER, self._communicator, shard, "float", "sum", flags=flags)
