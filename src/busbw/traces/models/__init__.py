"""ADD A MODEL HERE: traces from the published shapes of models, one TOML file per model.

`load_model` computes the trace of a model for a number of ranks. The parallelism selects the sequence of operations.
"""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from busbw.catalog import Catalog
from busbw.errors import UsageError
from busbw.traces.building import TraceBuilder
from busbw.traces.model import Trace
from busbw.traces.models import expert_parallel, fully_sharded, tensor_parallel
from busbw.traces.models.shape import Model
from busbw.traces.models.timeline import COMPUTE_FLOPS, Timeline

__all__ = ["Model", "list_models", "load_model"]

STEPS = 3
"""Steps of a trace: enough to detect the period."""


class _Parallelism(NamedTuple):
    """A way to distribute the training of a model."""

    communicators: tuple[str, ...]
    """Names of the communicators of a rank: of all ranks, its group, and the ranks with its place in their groups."""
    append_step: Callable[[Timeline, Model, int], None]
    """Appends the step of this number, from 0, to the timeline of a rank."""


_PARALLELISMS = {
    "fsdp": _Parallelism(fully_sharded.COMMUNICATORS, fully_sharded.append_step),
    "tensor": _Parallelism(tensor_parallel.COMMUNICATORS, tensor_parallel.append_step),
    "expert": _Parallelism(expert_parallel.COMMUNICATORS, expert_parallel.append_step),
}
_CATALOG = Catalog(
    __name__,
    Model,
    kind="model",
    remedy_malformed="compare its fields with those of the shipped models",
    remedy_unknown=lambda names: ", ".join(names),
    finish=lambda model, name: msgspec.structs.replace(model, name=name),
)


def list_models() -> tuple[Model, ...]:
    """Returns the shipped models, ordered by name."""
    return tuple(_CATALOG.all.values())


def load_model(name: str | Model, ranks: int | None = None) -> Trace:
    """Returns the trace of a shipped or other model on that many ranks. None: those of its description.

    Raises:
        UsageError: The name is unknown, or the model cannot be distributed over that many ranks.
    """
    model = _CATALOG.find(name) if isinstance(name, str) else name
    ranks = model.ranks if ranks is None else ranks
    group = min(ranks, model.group)
    if ranks < 2 or ranks % group or model.group % group:
        sizes = f" that are a multiple or a divisor of {model.group}" if model.group > 1 else ""
        raise UsageError(f"{model.name} cannot run on {ranks} ranks", remedy=f"use 2 or more ranks{sizes}")
    families = [
        [range(ranks)],
        [range(first, first + group) for first in range(0, ranks, group)],
        [range(first, ranks, group) for first in range(group)],
    ]
    builder = TraceBuilder(model.name, "busbw model", is_modelled=True)
    timelines = []
    for number in range(ranks):
        rank = builder.rank(number, model.name)
        rank.rank = number
        timelines.append(Timeline(rank, number, ranks, group))
    parallelism = _PARALLELISMS[model.parallelism]
    for role, name in enumerate(parallelism.communicators):
        for position, members in enumerate(families[role]):
            if len(members) > 1:
                index = builder.communicator(f"{name} {position}", len(members), name=name, members=members)
                if index is None:
                    raise UsageError(f"{model.name} cannot run on {ranks:,} ranks", remedy="use fewer ranks")
                for member in members:
                    timelines[member].communicators[role] = index
    for timeline in timelines:
        for step in range(STEPS):
            parallelism.append_step(timeline, model, step)
    for limitation in _limitations(model, ranks, group):
        builder.add_problem(limitation)
    return builder.build()


def _limitations(model: Model, ranks: int, group: int) -> tuple[str, ...]:
    name = _PARALLELISMS[model.parallelism].communicators[-2:][0]
    facts = [f"{group} ranks instead of {model.group}"] if group < model.group else []
    facts += ["no replica to exchange with"] if 1 < group == ranks else []
    return (
        f"This trace is computed from published shapes, not recorded. Its times are those of computation at "
        f"{COMPUTE_FLOPS / 1e12:g} TFLOP/s, a mean of Llama 3 405B on H100; norms, optimizer and input take no time.",
        *model.notes,
        *([f"Each {name} group has {' and '.join(facts)}."] if facts else []),
    )
