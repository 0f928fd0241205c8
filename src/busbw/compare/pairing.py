"""Pairing of two sides' rows. Only rows of the same configuration are paired, and missing facts are never guessed."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import msgspec

from busbw.compare.result import PointKey
from busbw.errors import UsageError
from busbw.logs import Figure, Row, Table
from busbw.statistics.run_variation import LaunchMode, launch_mode_of
from busbw.units import size_text


@dataclass(frozen=True)
class Observation:
    """One figure of one side, with its run and cycle."""

    figure: Figure
    row: Row
    run: int
    cycle: int
    launch_mode: LaunchMode | None = None
    """How operations were launched. None if unknown, or if launching has no visible effect."""


Observations: TypeAlias = dict[PointKey, list[Observation]]

# Fields of PointKey with their names in messages, the most important first.
_FIELD_NAMES = {
    "collective": "collective",
    "dtype": "data type",
    "redop": "operator",
    "root": "root",
    "ranks": "number of ranks",
    "group": "group",
    "placement": "placement",
}


def observations(tables: Iterable[Table]) -> Observations:
    """Groups all figures by point. Each table counts as a run.

    If rows of one cycle have the same key, only the first counts. Example: sizes that were rounded down to 0 bytes.
    """
    found: Observations = defaultdict(list)
    for run, table in enumerate(tables):
        launch_mode = _visible_launch_mode(table)
        for row in table.rows:
            for placement, figure in row.figures.items():
                point = PointKey(
                    collective=table.collective_of(row),
                    dtype=row.dtype,
                    redop=row.redop,
                    root=row.root,
                    ranks=table.ranks_of(row),
                    group=row.group,
                    placement=placement,
                    size_bytes=row.size_bytes,
                )
                if not any((each.run, each.cycle) == (run, row.cycle) for each in found[point][-1:]):
                    found[point].append(Observation(figure, row, run, row.cycle, launch_mode))
    return dict(found)


def _visible_launch_mode(table: Table) -> LaunchMode | None:
    launch_mode = launch_mode_of(table)
    return launch_mode if launch_mode == "host" or (table.gpus_per_thread and launch_mode != "graph") else None


def align(a: Observations, b: Observations) -> tuple[Observations, Observations, list[str]]:
    """Fills in a field that one side does not state if the other side has only one value. Notes each assumption.

    Raises:
        UsageError: A side does not state a field, and the other side has several values for it.
    """
    a, b, notes = _align_field(a, b, "collective", "A", "B")
    for collective in sorted(_values(a, "collective") & _values(b, "collective"), key=str):
        mine = {point: found for point, found in a.items() if point.collective == collective}
        theirs = {point: found for point, found in b.items() if point.collective == collective}
        rest_a = {point: found for point, found in a.items() if point not in mine}
        rest_b = {point: found for point, found in b.items() if point not in theirs}
        scope = f" for {collective}" if rest_a or rest_b else ""
        for field in ("dtype", "redop", "root", "ranks", "placement"):
            mine, theirs, more = _align_field(mine, theirs, field, f"A{scope}", f"B{scope}")
            notes += more
        a, b = {**rest_a, **mine}, {**rest_b, **theirs}
    return a, b, notes


def _align_field(
    a: Observations, b: Observations, field: str, name_a: str, name_b: str
) -> tuple[Observations, Observations, list[str]]:
    stated_a, stated_b, name = _values(a, field), _values(b, field), _FIELD_NAMES[field]
    unstated = {"unstated" if field == "placement" else None}
    if stated_a == stated_b or not a or not b:
        return a, b, []
    if stated_a == unstated:
        return _fill(a, field, _only(stated_b, name, name_a, name_b, field)), b, [_assumed_note(name_a, name, stated_b)]
    if stated_b == unstated:
        return a, _fill(b, field, _only(stated_a, name, name_b, name_a, field)), [_assumed_note(name_b, name, stated_a)]
    return a, b, []


def require_common(a: Observations, b: Observations) -> list[PointKey]:
    """Returns the points that both sides have, ordered by configuration and size.

    Raises:
        UsageError: The sides have no point in common. The message lists the differences.
    """
    for side, points in (("A", a), ("B", b)):
        if not points:
            raise UsageError(f"{side} has no rows", remedy="give a log with a table, or check it with `busbw import`")
    if common := a.keys() & b.keys():
        return sorted(common, key=by_configuration)
    different = [
        f"{name} {_list(_values(a, field))} against {_list(_values(b, field))}"
        for field, name in _FIELD_NAMES.items()
        if not _values(a, field) & _values(b, field)
    ]
    if not {point.size_bytes for point in a} & {point.size_bytes for point in b}:
        different.append(f"sizes {_span(a)} against {_span(b)}")
    reason = "; ".join(different) or "both sides have each value, but no common combination of values"
    raise UsageError(
        f"A and B have no row in common: {reason}", remedy="compare runs of the same configuration and sizes"
    )


def by_configuration(point: PointKey) -> tuple[object, ...]:
    """Sort key of a comparison: the sizes of one configuration and placement are adjacent."""
    texts = (str(value) for value in (point.collective, point.dtype, point.redop, point.root, point.ranks))
    return (*texts, point.group, point.placement != "out_of_place", point.size_bytes)


def adjacent_sizes(points: Sequence[PointKey]) -> list[tuple[int, int]]:
    """Returns pairs of points that differ only in their size, with no other size between."""
    sweeps: dict[PointKey, list[tuple[int, int]]] = defaultdict(list)
    for index, point in enumerate(points):
        sweeps[msgspec.structs.replace(point, size_bytes=0)].append((point.size_bytes, index))
    return [(one, other) for sweep in sweeps.values() for (_, one), (_, other) in pairwise(sorted(sweep))]


def both_placements(points: Sequence[PointKey]) -> list[tuple[int, int]]:
    """Returns pairs of points that differ only in their placement."""
    sizes: dict[PointKey, list[int]] = defaultdict(list)
    for index, point in enumerate(points):
        sizes[msgspec.structs.replace(point, placement="unstated")].append(index)
    return [pair for placements in sizes.values() for pair in pairwise(placements)]


def _values(side: Observations, field: str) -> set[object]:
    return {getattr(point, field) for point in side}


def _fill(side: Observations, field: str, value: object) -> Observations:
    filled: Observations = defaultdict(list)
    for point, found in side.items():
        filled[msgspec.structs.replace(point, **{field: value})] += found
    return dict(filled)


def _only(values: set[object], name: str, unstated_side: str, other: str, field: str) -> object:
    if len(values) == 1:
        return next(iter(values))
    remedy = "choose one with --placement" if field == "placement" else f"compare with a log of one {name}"
    raise UsageError(f"{unstated_side} does not state its {name}, and {other} has {_list(values)}", remedy=remedy)


def _assumed_note(side: str, name: str, values: set[object]) -> str:
    return f"{side} does not state its {name}; the other side's is assumed: {_list(values)}."


def _list(values: set[object]) -> str:
    return ", ".join("unstated" if value is None else str(value) for value in sorted(values, key=str))


def _span(side: Observations) -> str:
    sizes = sorted({point.size_bytes for point in side})
    return size_text(sizes[0]) if len(sizes) == 1 else f"{size_text(sizes[0])} to {size_text(sizes[-1])}"
