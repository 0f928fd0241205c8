"""Fully sharded data parallelism as in PyTorch's FSDP2: torch/distributed/fsdp/_fully_shard.

The parameters of each layer form a group, and the other parameters form one group. While a layer computes, the next
layer is gathered. The last layer stays gathered between the forward and the backward pass. Gradients are reduced in
float. Shards are padded to equal sizes.
"""

from busbw.traces.format import Flag, Function
from busbw.traces.models.shape import Model
from busbw.traces.models.timeline import Timeline

COMMUNICATORS = ("world",)
WORLD = 0


def append_step(timeline: Timeline, model: Model, _step: int) -> None:
    """Appends one step. All steps are equal."""
    root_shard, block_shard = (
        -(-count // timeline.ranks)  # rounded up
        for count in (model.root_parameters, model.block_parameters)
    )
    dense = model.dense_parameters
    matrices = dense["qkv"] + dense["projection"] + sum(model.feed_forward_parameters)
    forward_flops = model.score_flops + model.matrix_flops(matrices)
    prefetch = Flag.IN_PLACE | Flag.GAP_OVERLAPPED  # the computation before the call runs during the previous operation
    timeline.call(Function.ALL_GATHER, WORLD, root_shard, flags=Flag.IN_PLACE)
    timeline.call(Function.ALL_GATHER, WORLD, block_shard, flags=Flag.IN_PLACE)  # the first layer
    for layer in range(model.layers - 1):
        # Gathers the next layer and computes this one. Before the first layer, no computation overlaps.
        timeline.call(Function.ALL_GATHER, WORLD, block_shard, flags=prefetch if layer > 0 else Flag.IN_PLACE)
        timeline.compute(forward_flops)
    # The last layer, and the output embedding in both passes. A backward pass computes twice as much as a forward pass.
    timeline.compute(forward_flops + (1 + 2) * model.matrix_flops(model.embedding_parameters))
    for layer in reversed(range(model.layers)):
        if layer > 0:
            timeline.call(Function.ALL_GATHER, WORLD, block_shard, flags=prefetch)  # the layer before
        timeline.compute(2 * forward_flops)
        timeline.call(Function.REDUCE_SCATTER, WORLD, block_shard, "float", "avg", flags=Flag.GAP_OVERLAPPED)
    timeline.call(Function.REDUCE_SCATTER, WORLD, root_shard, "float", "avg")
    for _ in range(model.scalar_all_reduces):
        timeline.all_reduce(WORLD, 1)
