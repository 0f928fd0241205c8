"""ADD A MODEL HERE: traces from the published shapes of models, one TOML file per model.

`load_model` computes the trace of a model for a number of ranks. The parallelism selects the sequence of operations.
"""

import msgspec

from busbw.catalog import Catalog
from busbw.errors import UsageError
from busbw.traces.model import Communicator, Operations, RankTrace, Trace
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
    communicators: list[Communicator] = []
    indices: list[dict[int, int]] = [{} for _ in range(ranks)]
    """Index of the communicator of each rank and number, if it has more than one rank."""
    for number, name in enumerate(_NAMES[model.parallelism]):
        for position, members in enumerate(families[number]):
            if len(members) > 1:
                for rank in members:
                    indices[rank][number] = len(communicators)
                identity = f"{name} {position}"
                communicators.append(
                    Communicator(identity=identity, name=name, size=len(members), members=tuple(members))
                )
    return Trace(
        name=model.name,
        ranks=tuple(
            RankTrace(
                rank=rank,
                source=model.name,
                producer="busbw model",
                operations=_make_operations(model, ranks, group, rank, indices[rank]),
                own_ranks={index: communicators[index].members.index(rank) for index in indices[rank].values()},
            )
            for rank in range(ranks)
        ),
        communicators=tuple(communicators),
        is_modelled=True,
        problems=_limitations(model, ranks, group),
    )


def _make_operations(model: Model, ranks: int, group: int, rank: int, indices: dict[int, int]) -> Operations:
    timeline = Timeline()
    for step in range(STEPS):
        if model.parallelism == "fsdp":
            fully_sharded.append_step(timeline, model, ranks)
        elif model.parallelism == "tensor":
            tensor_parallel.append_step(timeline, model, ranks, group)
        else:
            routes = expert_parallel.draw_routes(model, group, (step, rank // group))
            expert_parallel.append_step(timeline, model, ranks, rank % group, routes)
    operations = timeline.operations()
    operations["communicator"] = [indices[number] for number in operations["communicator"].tolist()]
    return operations


def _limitations(model: Model, ranks: int, group: int) -> tuple[str, ...]:
    name = _NAMES[model.parallelism][-2:][0]
    return (
        f"This trace is computed from published shapes, not recorded. Computation is assumed to run at"
        f" {COMPUTE_FLOPS / 1e12:g} TFLOP/s; norms, optimizer and input take no time.",
        *model.notes,
        *([f"The {name} groups have {group} ranks instead of {model.group}."] if group < model.group else []),
        *([f"The only {name} group has no replica to exchange with."] if 1 < group == ranks else []),
    )
