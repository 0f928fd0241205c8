"""ADD A MODEL HERE: traces from the published shapes of models, one TOML file per model.

`load_model` computes the trace of a model for a number of ranks. The parallelism selects the sequence of operations.
"""

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
_NAMES = {
    "fsdp": fully_sharded.COMMUNICATORS,
    "tensor": tensor_parallel.COMMUNICATORS,
    "expert": expert_parallel.COMMUNICATORS,
}
"""Names of the communicators of a rank: of all ranks, of its group, and of the ranks with its place in their groups."""
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
        timelines.append(Timeline(rank))
    for role, name in enumerate(_NAMES[model.parallelism]):
        for position, members in enumerate(families[role]):
            if len(members) > 1:
                index = builder.communicator(f"{name} {position}", len(members), name=name, members=members)
                if index is None:
                    raise UsageError(f"{model.name} cannot run on {ranks:,} ranks", remedy="use fewer ranks")
                for member in members:
                    timelines[member].communicators[role] = index
    for number, timeline in enumerate(timelines):
        for step in range(STEPS):
            _append_step(timeline, model, ranks, group, number, step)
    for limitation in _limitations(model, ranks, group):
        builder.add_problem(limitation)
    return builder.build()


def _append_step(timeline: Timeline, model: Model, ranks: int, group: int, rank: int, step: int) -> None:
    if model.parallelism == "fsdp":
        fully_sharded.append_step(timeline, model, ranks)
    elif model.parallelism == "tensor":
        tensor_parallel.append_step(timeline, model, ranks, group)
    else:
        routes = expert_parallel.draw_routes(model, group, (step, rank // group))
        expert_parallel.append_step(timeline, model, ranks, rank % group, routes)


def _limitations(model: Model, ranks: int, group: int) -> tuple[str, ...]:
    name = _NAMES[model.parallelism][-2:][0]
    facts = [f"{group} ranks instead of {model.group}"] if group < model.group else []
    facts += ["no replica to exchange with"] if 1 < group == ranks else []
    return (
        f"This trace is computed from published shapes, not recorded. Its times are those of computation at "
        f"{COMPUTE_FLOPS / 1e12:g} TFLOP/s, a mean of Llama 3 405B on H100; norms, optimizer and input take no time.",
        *model.notes,
        *([f"Each {name} group has {' and '.join(facts)}."] if facts else []),
    )
