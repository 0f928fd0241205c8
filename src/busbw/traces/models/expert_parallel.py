"""Expert parallelism as in Megatron: megatron/core/transformer/moe/token_dispatcher.py, dispatcher "alltoall".

In both passes, forward and backward, tokens travel to the ranks of their experts and back. The number of tokens of each
expert differs between layers and steps. So the computation of each rank differs, too.
"""

import numpy as np
from numpy.typing import NDArray

from busbw.traces.format import Function
from busbw.traces.models.distributed_optimizer import DistributedOptimizer
from busbw.traces.models.shape import Model
from busbw.traces.models.timeline import Timeline

COMMUNICATORS = ("world", "expert parallel", "expert data parallel")
WORLD, EXPERT, EXPERT_DATA = range(3)


def draw_routes(model: Model, group: int, seed: tuple[int, ...]) -> NDArray[np.int64]:
    """Returns the number of tokens from each rank to each rank of an expert-parallel group: [layers, group, group]."""
    generator = np.random.default_rng(seed)
    shares = generator.dirichlet(np.full(model.experts, model.share_concentration), size=(model.layers, 1))
    tokens = generator.multinomial(model.sequence * model.experts_per_token, shares, size=(model.layers, group))
    # `tokens` is [layers, group, experts]. Consecutive experts are on one rank, so their tokens are added.
    routes: NDArray[np.int64] = tokens.reshape(model.layers, group, group, -1).sum(axis=3)
    return routes


def append_step(timeline: Timeline, model: Model, step: int) -> None:
    """Appends one step. `draw_routes` decides which rank each token travels to."""
    ranks, group = timeline.ranks, timeline.group_size
    group_number, group_rank = divmod(timeline.rank, group)
    routes = draw_routes(model, group, (step, group_number))
    parameters = model.dense_parameters
    norm, qkv, projection, router = (parameters[name] for name in ("norm", "qkv", "projection", "router"))
    dense = [[norm, qkv, projection, norm, router] for _ in range(model.layers)]
    dense[0].insert(0, model.embedding_parameters)
    dense[-1] += [norm, model.embedding_parameters]
    experts = [[*model.feed_forward_parameters] * (model.experts // group)] * model.layers
    optimizers = (
        DistributedOptimizer(WORLD, dense, ranks),
        DistributedOptimizer(EXPERT_DATA, experts, ranks // group),
    )
    attention = model.matrix_flops(qkv + projection + router) + model.score_flops
    expert_flops = 2.0 * sum(model.feed_forward_parameters) * routes[:, :, group_rank].sum(axis=1)
    for layer in range(model.layers):
        for optimizer in optimizers:
            optimizer.gather(timeline, layer)
        timeline.compute(attention)
        timeline.call(Function.ALL_GATHER, EXPERT, model.experts, "int64")  # tokens of each expert
        timeline.exchange(EXPERT, routes[layer] * model.hidden, group_rank)
        timeline.exchange(EXPERT, routes[layer], group_rank, "float")  # probabilities of the router
        timeline.compute(expert_flops[layer])
        timeline.exchange(EXPERT, routes[layer].T * model.hidden, group_rank)
    # The output embedding in both passes. A backward pass computes twice as much as a forward pass.
    timeline.compute((1 + 2) * model.matrix_flops(model.embedding_parameters))
    # The gradients of the outputs travel to the experts, as the tokens did. The gradients of the inputs travel back.
    for layer in reversed(range(model.layers)):
        timeline.exchange(EXPERT, routes[layer] * model.hidden, group_rank)
        timeline.compute(2 * expert_flops[layer])
        timeline.exchange(EXPERT, routes[layer].T * model.hidden, group_rank)
        timeline.exchange(EXPERT, routes[layer].T, group_rank, "float")  # gradients of the probabilities
        timeline.compute(2 * attention)
        for optimizer in optimizers:
            optimizer.reduce(timeline, layer)
    for _ in range(model.scalar_all_reduces):
        timeline.all_reduce(WORLD, 1)
