"""ADD A MODEL HERE: traces from the published shapes of models, one TOML file per model.

`load_model` computes the trace of a model for a number of ranks. The parallelism selects the sequence of operations.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from busbw.errors import UsageError
from busbw.support.catalog import Catalog
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
    """Names of the communicators of a rank, in the order of `_partitions`. There may be fewer than partitions."""
    append_step: Callable[[Timeline, Model, int], None]
    """Appends the step with this number, from 0, to the timeline of a rank."""


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
    """Returns the trace of a model, named or described, on `ranks` ranks. None: the number in its description.

    Raises:
        UsageError: The name is unknown, or the model cannot be distributed over this number of ranks.
    """
    model = _CATALOG.find(name) if isinstance(name, str) else name
    ranks = model.ranks if ranks is None else ranks
    group = min(ranks, model.group)
    # The ranks form complete groups, or one smaller group that divides a group of the model.
    can_split = ranks % group == 0 and model.group % group == 0
    if ranks < 2 or not can_split:
        sizes = f" that are a multiple or a divisor of {model.group}" if model.group > 1 else ""
        raise UsageError(f"{model.name} cannot run on {ranks} ranks", remedy=f"use 2 or more ranks{sizes}")
    builder = TraceBuilder(model.name, "busbw model", is_modelled=True)
    timelines = []
    for number in range(ranks):
        rank = builder.find_or_add_rank(number, model.name)
        rank.rank = number
        timelines.append(Timeline(rank, number, ranks, group))
    parallelism = _PARALLELISMS[model.parallelism]
    partitions = zip(parallelism.communicators, _partitions(ranks, group), strict=False)
    for number, (name, partition) in enumerate(partitions):
        for position, members in enumerate(partition):
            if len(members) > 1:
                index = builder.find_or_add_communicator(f"{name} {position}", len(members), name=name, members=members)
                if index is None:
                    raise UsageError(f"{model.name} cannot run on {ranks:,} ranks", remedy="use fewer ranks")
                for member in members:
                    timelines[member].communicators[number] = index
    for timeline in timelines:
        for step in range(STEPS):
            parallelism.append_step(timeline, model, step)
    for limitation in _limitations(model, ranks, group):
        builder.add_problem(limitation)
    return builder.build()


def _partitions(ranks: int, group: int) -> tuple[list[range], list[range], list[range]]:
    """Returns three partitions of the ranks into communicators. Each rank has one communicator of each partition.

    The partitions are the world, the groups, and the replicas. Replicas are ranks at the same position of their groups.
    """
    groups = [range(first, first + group) for first in range(0, ranks, group)]
    replicas = [range(position, ranks, group) for position in range(group)]
    return [range(ranks)], groups, replicas


def _limitations(model: Model, ranks: int, group: int) -> Iterator[str]:
    """Yields sentences on the facts that the trace cannot show."""
    yield (
        f"This trace is computed from published shapes, not recorded. Its times are those of computation at "
        f"{COMPUTE_FLOPS / 1e12:g} TFLOP/s, a mean of Llama 3 405B on H100; norms, optimizer and input take no time."
    )
    yield from model.notes
    facts = []
    if group < model.group:
        facts.append(f"{group} ranks instead of {model.group}")
    is_only_group = group == ranks
    if is_only_group and group > 1:
        facts.append("no replica to exchange with")
    if facts:
        world, *others = _PARALLELISMS[model.parallelism].communicators
        group_name = others[0] if others else world
        yield f"Each {group_name} group has {' and '.join(facts)}."
