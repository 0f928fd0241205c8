"""Pairs the rows of two sides by point: collective, type, operator, root, ranks, group, placement and size.

Rows of different configurations are not paired. A property that one side does not state is taken from the other side
if all its rows agree on it, and a note says so.
"""

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
    """One figure of one side. Run and cycle (pass of -N) are numbers from 0 within the side."""

    figure: Figure
    row: Row
    run: int
    cycle: int
    launch_mode: LaunchMode | None = None
    """How operations were launched. None if unknown, or if launching has no visible effect."""


Observations: TypeAlias = dict[PointKey, list[Observation]]
"""All observations of one side by point."""

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

    If consecutive rows of one cycle have the same point, the first counts: sizes may be rounded down to 0 bytes.
    """
    by_point: Observations = defaultdict(list)
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
                previous = by_point[point][-1] if by_point[point] else None
                is_duplicate = previous is not None and (previous.run, previous.cycle) == (run, row.cycle)
                if not is_duplicate:
                    by_point[point].append(Observation(figure, row, run, row.cycle, launch_mode))
    return dict(by_point)


def _visible_launch_mode(table: Table) -> LaunchMode | None:
    """Returns the launch mode. None if the log does not state it, or if a CUDA graph hides launching."""
    launch_mode = launch_mode_of(table)
    is_visible = launch_mode == "host" or (table.gpus_per_thread and launch_mode != "graph")
    return launch_mode if is_visible else None


def align(a: Observations, b: Observations) -> tuple[Observations, Observations, list[str]]:
    """Fills in a field that one side does not state if the other side has only one value. Notes each assumption.

    Raises:
        UsageError: A side does not state a field, and the other side has several values for it.
    """
    a, b, notes = _align_field(a, b, "collective", "A", "B")
    for collective in sorted(_field_values(a, "collective") & _field_values(b, "collective"), key=str):
        aligned_a = {point: figures for point, figures in a.items() if point.collective == collective}
        aligned_b = {point: figures for point, figures in b.items() if point.collective == collective}
        others_a = {point: figures for point, figures in a.items() if point not in aligned_a}
        others_b = {point: figures for point, figures in b.items() if point not in aligned_b}
        scope = f" for {collective}" if others_a or others_b else ""
        for field in ("dtype", "redop", "root", "ranks", "placement"):
            aligned_a, aligned_b, new_notes = _align_field(aligned_a, aligned_b, field, f"A{scope}", f"B{scope}")
            notes += new_notes
        a, b = {**others_a, **aligned_a}, {**others_b, **aligned_b}
    return a, b, notes


def _align_field(
    a: Observations, b: Observations, field: str, name_a: str, name_b: str
) -> tuple[Observations, Observations, list[str]]:
    """Aligns one field of both sides; see `align`. Returns both sides and at most one note."""
    stated_a, stated_b, name = _field_values(a, field), _field_values(b, field), _FIELD_NAMES[field]
    unstated = {"unstated" if field == "placement" else None}
    if stated_a == stated_b or not a or not b:
        return a, b, []
    if stated_a == unstated:
        return (
            _fill_field(a, field, _require_single_value(stated_b, name, name_a, name_b, field)),
            b,
            [_assumption_note(name_a, name, stated_b)],
        )
    if stated_b == unstated:
        return (
            a,
            _fill_field(b, field, _require_single_value(stated_a, name, name_b, name_a, field)),
            [_assumption_note(name_b, name, stated_a)],
        )
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
    differences = [
        f"{name} {_values_text(_field_values(a, field))} against {_values_text(_field_values(b, field))}"
        for field, name in _FIELD_NAMES.items()
        if not _field_values(a, field) & _field_values(b, field)
    ]
    if not {point.size_bytes for point in a} & {point.size_bytes for point in b}:
        differences.append(f"sizes {_sizes_text(a)} against {_sizes_text(b)}")
    reason = "; ".join(differences) or "both sides have each value, but no common combination of values"
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
    return [(smaller, larger) for sweep in sweeps.values() for (_, smaller), (_, larger) in pairwise(sorted(sweep))]


def both_placements(points: Sequence[PointKey]) -> list[tuple[int, int]]:
    """Returns pairs of points that differ only in their placement."""
    sizes: dict[PointKey, list[int]] = defaultdict(list)
    for index, point in enumerate(points):
        sizes[msgspec.structs.replace(point, placement="unstated")].append(index)
    return [pair for placements in sizes.values() for pair in pairwise(placements)]


def _field_values(side: Observations, field: str) -> set[object]:
    return {getattr(point, field) for point in side}


def _fill_field(side: Observations, field: str, value: object) -> Observations:
    filled: Observations = defaultdict(list)
    for point, figures in side.items():
        filled[msgspec.structs.replace(point, **{field: value})] += figures
    return dict(filled)


def _require_single_value(values: set[object], name: str, unstated_side: str, stated_side: str, field: str) -> object:
    """Returns the single value. Raises UsageError if there are several."""
    if len(values) == 1:
        return next(iter(values))
    remedy = "choose one with --placement" if field == "placement" else f"compare with a log of one {name}"
    raise UsageError(
        f"{unstated_side} does not state its {name}, and {stated_side} has {_values_text(values)}", remedy=remedy
    )


def _assumption_note(side: str, name: str, values: set[object]) -> str:
    return f"{side} does not state its {name}; the other side's is assumed: {_values_text(values)}."


def _values_text(values: set[object]) -> str:
    return ", ".join("unstated" if value is None else str(value) for value in sorted(values, key=str))


def _sizes_text(side: Observations) -> str:
    sizes = sorted({point.size_bytes for point in side})
    return size_text(sizes[0]) if len(sizes) == 1 else f"{size_text(sizes[0])} to {size_text(sizes[-1])}"
