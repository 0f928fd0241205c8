"""Tensor parallelism with sequence parallelism as in Megatron: megatron/core/tensor_parallel/layers.py.

In the backward pass, the saved input is gathered again while the gradient of the input is computed. That gradient is
reduced while the gradient of the weights is computed. `Flag.GAP_OVERLAPPED` marks the operation that follows such a
computation, because the computation runs during the operation before it.
"""

from busbw.traces.format import Flag, Function
from busbw.traces.models.distributed_optimizer import DistributedOptimizer
from busbw.traces.models.shape import Model
from busbw.traces.models.timeline import Timeline

COMMUNICATORS = ("world", "tensor parallel", "data parallel")
WORLD, TENSOR, DATA = range(3)


def append_step(timeline: Timeline, model: Model, _step: int) -> None:
    """Appends one step. All steps are equal."""
    group = timeline.group_size
    norm = model.dense_parameters["norm"]  # each rank has the complete norms, and a part of each matrix
    qkv, projection = (model.dense_parameters[name] // group for name in ("qkv", "projection"))
    up, down = (count // group for count in model.feed_forward_parameters)
    embedding = model.embedding_parameters // group
    layers = [[norm, qkv, projection, norm, up, down] for _ in range(model.layers)]
    layers[0].insert(0, embedding)
    layers[-1] += [norm, embedding]
    optimizer = DistributedOptimizer(DATA, layers, timeline.ranks // group)
    tokens = model.sequence * model.hidden // group
    scores = model.score_flops / group

    def gather(flags: int = 0) -> None:
        timeline.call(Function.ALL_GATHER, TENSOR, tokens, flags=flags)

    def reduce(flags: int = 0) -> None:
        timeline.call(Function.REDUCE_SCATTER, TENSOR, tokens, redop="sum", flags=flags)

    def backward(later_flops: float, parameters: int) -> None:
        """Appends the backward pass of a matrix that is split by columns: `qkv`, `up` or the output embedding.

        `later_flops`: backward computation of the operations that follow the matrix in the forward pass.
        """
        timeline.compute(later_flops)
        gather()  # the saved input
        timeline.compute(model.matrix_flops(parameters))  # gradient of the input
        reduce(Flag.GAP_OVERLAPPED)
        timeline.compute(model.matrix_flops(parameters))  # gradient of the weights

    def gather_gradient() -> None:
        """Appends the backward pass of a `reduce`, after the overlapped gradient of the weights in `backward`."""
        gather(Flag.GAP_OVERLAPPED)

    reduce()  # input embedding
    for layer in range(model.layers):
        optimizer.gather(timeline, layer)
        for flops in (model.matrix_flops(qkv + projection) + scores, model.matrix_flops(up + down)):
            gather()
            timeline.compute(flops)
            reduce()
    gather()
    timeline.compute(model.matrix_flops(embedding))
    for redop in ("max", "sum", "sum"):  # cross entropy: maximum, logit of the target, sum
        timeline.all_reduce(TENSOR, model.sequence, redop)
    backward(0, embedding)
    for layer in reversed(range(model.layers)):
        gather_gradient()
        backward(2 * model.matrix_flops(down), up)
        gather_gradient()
        backward(2 * (model.matrix_flops(projection) + scores), qkv)
        optimizer.reduce(timeline, layer)
    gather_gradient()  # input embedding
    timeline.all_reduce(TENSOR, (2 * model.layers + 1) * model.hidden)  # norms
    for _ in range(model.scalar_all_reduces):
        timeline.all_reduce(WORLD, 1)
