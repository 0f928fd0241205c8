"""Fully sharded data parallelism as in PyTorch's FSDP2: torch/distributed/fsdp/_fully_shard.

The parameters of a layer form a group, the rest another. The next layer is gathered while one computes, the last stays
gathered between forward and backward pass. Gradients are reduced in float. Shards are padded to equal sizes.
"""

from busbw.traces.format import Function
from busbw.traces.models.shape import Model
from busbw.traces.models.timeline import Timeline

COMMUNICATORS = ("world",)
(WORLD,) = range(1)


def append_step(timeline: Timeline, model: Model, ranks: int) -> None:
    """Appends one step."""
    root, block = -(-model.root_parameters // ranks), -(-model.block_parameters // ranks)
    dense = model.dense_parameters
    forward = model.score_flops + model.matrix_flops(dense["qkv"] + dense["projection"] + sum(model.expert_parameters))
    timeline.call(Function.ALL_GATHER, WORLD, root)
    timeline.call(Function.ALL_GATHER, WORLD, block)
    for layer in range(model.layers - 1):
        timeline.call(Function.ALL_GATHER, WORLD, block, overlapped=layer > 0)  # computation waits for the first layer
        timeline.compute(forward)
    timeline.compute(forward + 3 * model.matrix_flops(model.embedding_parameters))
    for layer in reversed(range(model.layers)):
        if layer > 0:
            timeline.call(Function.ALL_GATHER, WORLD, block, overlapped=True)
        timeline.compute(2 * forward)
        timeline.call(Function.REDUCE_SCATTER, WORLD, block, "float", "avg", overlapped=True)
    timeline.call(Function.REDUCE_SCATTER, WORLD, root, "float", "avg")
    for _ in range(model.scalar_all_reduces):
        timeline.call(Function.ALL_REDUCE, WORLD, 1, "float", "sum")
