"""Expert parallelism as in Megatron: megatron/core/transformer/moe/token_dispatcher.py, dispatcher "alltoall".

Tokens travel to the ranks of their experts and back, in the backward pass again. The number of tokens of each expert
differs between layers and steps, and so does the computation of each rank.
"""

import numpy as np
from numpy.typing import NDArray

from busbw.traces.format import Function
from busbw.traces.models.buckets import append_gathers, append_reductions, make_buckets
from busbw.traces.models.shapes import Model
from busbw.traces.models.timeline import Timeline

WORLD, EXPERT, EXPERT_DATA = 0, 1, 2
"""Communicators of a rank, as numbers that the caller maps to indices."""


def draw_routes(model: Model, group: int, seed: tuple[int, ...]) -> NDArray[np.int64]:
    """Returns the number of tokens from each rank to each rank of an expert-parallel group: [layers, group, group]."""
    transformer = model.transformer
    generator = np.random.default_rng(seed)
    concentration = np.full(transformer.experts, model.layout.share_concentration)
    shares = generator.dirichlet(concentration, size=(transformer.layers, 1))
    sent = model.batch.tokens * transformer.experts_per_token
    tokens = generator.multinomial(sent, shares, size=(transformer.layers, group))
    routes: NDArray[np.int64] = tokens.reshape(transformer.layers, group, group, -1).sum(axis=3)
    return routes


def append_expert_step(
    timeline: Timeline, model: Model, ranks: int, group: int, own: int, routes: NDArray[np.int64]
) -> None:
    """Appends one step of the rank `own` of an expert-parallel group with these routes, see `draw_routes`."""
    transformer = model.transformer
    layers, hidden = transformer.layers, transformer.hidden
    attention = (
        model.matrix_flops(transformer.qkv + transformer.projection + transformer.router) + model.attention_flops
    )
    head = model.matrix_flops(transformer.embedding)
    norm = [hidden]
    dense_layers = [[*norm, transformer.qkv, transformer.projection, *norm, transformer.router] for _ in range(layers)]
    dense_layers[0].insert(0, transformer.embedding)
    dense_layers[-1] += [*norm, transformer.embedding]
    expert = [2 * transformer.expert // 3, transformer.expert // 3] * (transformer.experts // group)
    families = (
        (WORLD, make_buckets(dense_layers, ranks)),
        (EXPERT_DATA, make_buckets([expert] * layers, ranks // group)),
    )

    def dispatch(layer: int, width: int, datatype: str = "bfloat16") -> None:
        timeline.exchange(EXPERT, routes[layer, own] * width, routes[layer, :, own] * width, own, datatype)

    def combine(layer: int, width: int, datatype: str = "bfloat16") -> None:
        timeline.exchange(EXPERT, routes[layer, :, own] * width, routes[layer, own] * width, own, datatype)

    received_flops = [2.0 * transformer.expert * int(routes[layer, :, own].sum()) for layer in range(layers)]
    for layer in range(layers):
        for communicator, buckets in families:
            append_gathers(timeline, buckets, communicator, layer)
        timeline.compute(attention)
        timeline.call(Function.ALL_GATHER, EXPERT, transformer.experts, "int64")  # tokens of each expert
        dispatch(layer, hidden)
        dispatch(layer, 1, "float")  # probabilities of the router
        timeline.compute(received_flops[layer])
        combine(layer, hidden)
    timeline.compute(3 * head)
    for layer in reversed(range(layers)):
        dispatch(layer, hidden)
        timeline.compute(2 * received_flops[layer])
        combine(layer, hidden)
        combine(layer, 1, "float")
        timeline.compute(2 * attention)
        for communicator, buckets in families:
            append_reductions(timeline, buckets, communicator, layer)
    for _ in range(model.layout.scalar_all_reduces):
        timeline.call(Function.ALL_REDUCE, WORLD, 1, "float", "sum")
