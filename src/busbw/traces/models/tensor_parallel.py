"""Tensor parallelism with sequence parallelism as in Megatron: megatron/core/tensor_parallel/layers.py.

In the backward pass, the saved input is gathered again while the gradient of the input is computed. That gradient is
reduced while the gradient of the weights is computed.
"""

from busbw.traces.format import Function
from busbw.traces.models.buckets import append_gathers, append_reductions, make_buckets
from busbw.traces.models.shapes import Model
from busbw.traces.models.timeline import Timeline

WORLD, TENSOR, DATA = 0, 1, 2
"""Communicators of a rank, as numbers that the caller maps to indices."""


def append_tensor_step(timeline: Timeline, model: Model, ranks: int, group: int) -> None:
    """Appends one step of `ranks` ranks in tensor-parallel groups of `group` ranks."""
    transformer = model.transformer
    shard = model.batch.tokens * transformer.hidden // group
    qkv, projection, up, down, head = (
        model.matrix_flops(parameters) / group
        for parameters in (
            transformer.qkv,
            transformer.projection,
            2 * transformer.expert // 3,
            transformer.expert // 3,
            transformer.embedding,
        )
    )
    attention = model.attention_flops / group
    layers = transformer.layers
    buckets = make_buckets(_parameters(model, group), ranks // group)

    def gather(*, overlapped: bool = False) -> None:
        timeline.call(Function.ALL_GATHER, TENSOR, shard, overlapped=overlapped)

    def reduce(*, overlapped: bool = False) -> None:
        timeline.call(Function.REDUCE_SCATTER, TENSOR, shard, redop="sum", overlapped=overlapped)

    def backward(rest: float, column: float) -> None:
        """Appends a matrix that is split by columns, after the computation of what follows it in the layer."""
        timeline.compute(rest)
        gather()
        timeline.compute(column)
        reduce(overlapped=True)
        timeline.compute(column)

    reduce()  # input embedding
    for layer in range(layers):
        append_gathers(timeline, buckets, DATA, layer)
        for flops in (qkv + attention + projection, up + down):
            gather()
            timeline.compute(flops)
            reduce()
    gather()
    timeline.compute(head)
    for redop in ("max", "sum", "sum"):  # maximum, logit of the target and sum of the cross entropy
        timeline.call(Function.ALL_REDUCE, TENSOR, model.batch.tokens, "float", redop)
    backward(0, head)
    for layer in reversed(range(layers)):
        for rest, column in ((2 * down, up), (2 * (projection + attention), qkv)):
            gather(overlapped=True)
            backward(rest, column)
        append_reductions(timeline, buckets, DATA, layer)
    gather(overlapped=True)  # input embedding
    norms = (2 * layers + 1) * transformer.hidden
    timeline.call(Function.ALL_REDUCE, TENSOR, norms, "float", "sum")
    for _ in range(model.layout.scalar_all_reduces):
        timeline.call(Function.ALL_REDUCE, WORLD, 1, "float", "sum")


def _parameters(model: Model, group: int) -> list[list[int]]:
    """Returns the sizes of the parameters of one rank for each layer, in the order of the forward pass."""
    transformer = model.transformer
    norm, embedding = transformer.hidden, transformer.embedding // group
    up, down = 2 * transformer.expert // 3 // group, transformer.expert // 3 // group
    layer = [norm, transformer.qkv // group, transformer.projection // group, norm, up, down]
    layers = [list(layer) for _ in range(transformer.layers)]
    layers[0].insert(0, embedding)
    layers[-1] += [norm, embedding]
    return layers
