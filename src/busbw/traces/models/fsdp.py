"""Fully sharded data parallelism as in PyTorch's FSDP2: torch/distributed/fsdp/_fully_shard.

One group of parameters per layer and one for the rest. The next group is gathered while a layer computes; gradients are
reduced in float. The last layer stays gathered between forward and backward pass.
"""

from busbw.traces.format import Function
from busbw.traces.models.shapes import Model
from busbw.traces.models.timeline import Timeline

WORLD = 0
"""Index of the only communicator."""


def append_fsdp_step(timeline: Timeline, model: Model, ranks: int) -> None:
    """Appends one step. Shards are padded to equal sizes for each group of parameters."""
    transformer = model.transformer
    root, block = -(-transformer.root // ranks), -(-transformer.block // ranks)
    forward = model.matrix_flops(transformer.qkv + transformer.projection + transformer.expert) + model.attention_flops
    head = model.matrix_flops(transformer.embedding)

    timeline.call(Function.ALL_GATHER, WORLD, root)
    timeline.call(Function.ALL_GATHER, WORLD, block)
    for _ in range(transformer.layers - 1):
        timeline.call(Function.ALL_GATHER, WORLD, block, overlapped=True)
        timeline.compute(forward)
    timeline.compute(forward + 3 * head)
    for layer in reversed(range(transformer.layers)):
        if layer > 0:
            timeline.call(Function.ALL_GATHER, WORLD, block, overlapped=True)
        timeline.compute(2 * forward)
        timeline.call(Function.REDUCE_SCATTER, WORLD, block, "float", "avg", overlapped=True)
    timeline.call(Function.REDUCE_SCATTER, WORLD, root, "float", "avg")
    for _ in range(model.layout.scalar_all_reduces):
        timeline.call(Function.ALL_REDUCE, WORLD, 1, "float", "sum")
