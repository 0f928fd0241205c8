"""Data-parallel operations of Megatron's distributed optimizer, in buckets of parameters.

Source: distributed_data_parallel.py and param_and_grad_buffer.py in megatron/core/distributed/. A bucket ends with the
parameter that fills it. Gradients are reduced in float during the backward pass, and parameters are gathered one bucket
before their use in the next forward pass.
"""

from math import lcm

from busbw.traces.format import Flag, Function
from busbw.traces.models.timeline import Timeline


class DistributedOptimizer:
    """The buckets of one rank in one communicator."""

    def __init__(self, communicator: int, parameters: list[list[int]], ranks: int) -> None:
        """Forms the buckets. One rank exchanges nothing.

        Args:
            communicator: Number of the data-parallel communicator.
            parameters: Sizes of the parameters of each layer, in the order of the forward pass.
            ranks: Ranks of the communicator.
        """
        self._communicator = communicator
        self._buckets: list[tuple[int, int]] = []
        """First layer, and parameters of one rank, in the order of the backward pass."""
        if ranks == 1:
            return
        backward = [(layer, count) for layer, counts in enumerate(parameters) for count in counts][::-1]
        min_size = max(40_000_000, 1_000_000 * ranks)
        unit = lcm(ranks, 128)
        size = 0
        for index, (layer, count) in enumerate(backward, start=1):
            size += count
            if size >= min_size or index == len(backward):
                padded = -(-size // unit) * unit
                self._buckets.append((layer, padded // ranks))
                size = 0

    def gather(self, timeline: Timeline, layer: int) -> None:
        """Appends the all-gathers at the beginning of a layer's forward pass."""
        forward = self._buckets[::-1]
        for index, (_, shard) in enumerate(forward):
            layer_before, _ = forward[max(0, index - 1)]  # a bucket is gathered one bucket before its use
            if layer_before == layer:
                flags = Flag.IN_PLACE | (Flag.OVERLAPPED if index > 1 else 0)  # computation waits for the first bucket
                timeline.call(Function.ALL_GATHER, self._communicator, shard, flags=flags)

    def reduce(self, timeline: Timeline, layer: int) -> None:
        """Appends the reduce-scatters at the end of a layer's backward pass."""
        flags = Flag.IN_PLACE | Flag.OVERLAPPED
        for first, shard in self._buckets:
            if first == layer:
                timeline.call(Function.REDUCE_SCATTER, self._communicator, shard, "float", "sum", flags=flags)
