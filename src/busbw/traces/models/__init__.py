"""ADD A MODEL HERE: traces from the published shapes of models, one TOML file per model.

`load_model` computes the trace of a model for a number of ranks. The parallelism selects the sequence of operations:
fsdp.py, tensor_parallel.py or expert_parallel.py.
"""

import msgspec

from busbw.catalog import Catalog
from busbw.errors import UsageError
from busbw.traces.model import Communicator, Operations, RankTrace, Trace
from busbw.traces.models.expert_parallel import append_expert_step, draw_routes
from busbw.traces.models.fsdp import append_fsdp_step
from busbw.traces.models.shapes import COMPUTE_FLOPS, Model
from busbw.traces.models.tensor_parallel import append_tensor_step
from busbw.traces.models.timeline import Timeline

__all__ = ["Model", "list_models", "load_model", "make_trace"]

STEPS = 3
"""Steps of a trace: enough to detect the period."""
_NAMES = {
    "fsdp": ("world",),
    "tensor": ("world", "tensor parallel", "data parallel"),
    "expert": ("world", "expert parallel", "expert data parallel"),
}
"""Names of a rank's communicators, in the order of their numbers in the modules."""
_CATALOG = Catalog(
    __name__,
    Model,
    kind="model",
    remedy_malformed="see src/busbw/traces/models/shapes.py for the fields",
    remedy_unknown=lambda names: ", ".join(names),
    finish=lambda model, name: msgspec.structs.replace(model, name=name),
)


def list_models() -> tuple[Model, ...]:
    """Returns the shipped models, ordered by name."""
    return tuple(_CATALOG.all.values())


def load_model(name: str, ranks: int | None = None) -> Trace:
    """Returns the trace of a shipped model.

    Args:
        name: Name of the model.
        ranks: Ranks of the job. None: those of the model's description.

    Raises:
        UsageError: The name is unknown, or the model cannot be distributed over that many ranks.
    """
    model = _CATALOG.find(name)
    return make_trace(model, model.layout.ranks if ranks is None else ranks)


def make_trace(model: Model, ranks: int) -> Trace:
    """Returns the trace of a model on `ranks` ranks.

    Raises:
        UsageError: The model cannot be distributed over that many ranks.
    """
    group = min(ranks, model.layout.group)
    is_possible = ranks >= 2 and ranks % group == 0 and model.layout.group % group == 0
    if not is_possible:
        size = model.layout.group
        allowed = f"a multiple or divisor of {size}, at least 2" if size > 1 else "at least 2"
        raise UsageError(f"{model.name} cannot run on {ranks} ranks", remedy=f"use {allowed}")
    communicators, indices = _make_communicators(model, ranks, group)
    timelines = [_make_operations(model, ranks, group, rank) for rank in range(1 if group == 1 else ranks)]
    return Trace(
        name=model.name,
        ranks=tuple(
            RankTrace(
                rank=rank,
                source=model.name,
                producer="busbw model",
                operations=_with_communicators(timelines[rank % len(timelines)], indices[rank]),
                own_ranks={index: communicators[index].members.index(rank) for index in indices[rank] if index >= 0},
            )
            for rank in range(ranks)
        ),
        communicators=communicators,
        is_modelled=True,
        problems=_limitations(model, ranks, group),
    )


def _make_communicators(model: Model, ranks: int, group: int) -> tuple[tuple[Communicator, ...], list[list[int]]]:
    """Returns the communicators, and for each rank their indices by number. -1: the rank has no other rank in it."""
    families = [
        [list(range(ranks))],
        [list(range(first, first + group)) for first in range(0, ranks, group)],
        [list(range(first, ranks, group)) for first in range(group)],
    ]
    communicators: list[Communicator] = []
    indices = [[-1] * len(_NAMES[model.parallelism]) for _ in range(ranks)]
    for number, name in enumerate(_NAMES[model.parallelism]):
        for position, members in enumerate(families[number]):
            if len(members) > 1:
                for rank in members:
                    indices[rank][number] = len(communicators)
                identity = f"{name} {position}"
                communicators.append(
                    Communicator(identity=identity, name=name, size=len(members), members=tuple(members))
                )
    return tuple(communicators), indices


def _make_operations(model: Model, ranks: int, group: int, rank: int) -> Operations:
    timeline = Timeline()
    for step in range(STEPS):
        if model.parallelism == "fsdp":
            append_fsdp_step(timeline, model, ranks)
        elif model.parallelism == "tensor":
            append_tensor_step(timeline, model, ranks, group)
        else:
            routes = draw_routes(model, group, (step, rank // group))
            append_expert_step(timeline, model, ranks, group, rank % group, routes)
    return timeline.operations()


def _with_communicators(operations: Operations, indices: list[int]) -> Operations:
    """Returns a copy with the indices of a rank's communicators in place of their numbers."""
    copy: Operations = operations.copy()
    for number, index in enumerate(indices):
        copy["communicator"][operations["communicator"] == number] = max(index, 0)
    return copy


def _limitations(model: Model, ranks: int, group: int) -> tuple[str, ...]:
    sentences = [
        f"This trace is computed from published shapes, not recorded: computation at {COMPUTE_FLOPS / 1e12:g} TFLOP/s,"
        " without norms, optimizer and input.",
        *model.notes,
    ]
    if group < model.layout.group:
        sentences.append(
            f"The {_NAMES[model.parallelism][1]} groups have {group} ranks instead of {model.layout.group}."
        )
    if model.layout.group > 1 and ranks == group:
        sentences.append(
            f"With {ranks} ranks there is one {_NAMES[model.parallelism][1]} group, so replicas exchange nothing."
        )
    return tuple(sentences)
