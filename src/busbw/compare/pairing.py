"""Which rows of two sides belong together: only like with like, and what a side does not say is never guessed at."""

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
    """One figure of one side, and the run and cycle that it was measured in."""

    figure: Figure
    row: Row
    run: int
    cycle: int
    launch_mode: LaunchMode | None = None
    """How its operations were launched; None: nothing is said of it, or launching does not show."""


Observations: TypeAlias = dict[PointKey, list[Observation]]

# In the order in which a person asks; the last is what a size is compared at.
_KINDS = {
    "collective": "collective",
    "dtype": "data type",
    "redop": "operator",
    "root": "root",
    "ranks": "number of ranks",
    "group": "group",
    "placement": "placement",
}


def observations(tables: Iterable[Table]) -> Observations:
    """All figures by what makes them comparable; tables count as runs.

    Of rows that are alike within one cycle, such as the sizes that were rounded down to 0 bytes, the first counts.
    """
    found: Observations = defaultdict(list)
    for run, table in enumerate(tables):
        way = _way(table)
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
                    found[point].append(Observation(figure, row, run, row.cycle, way))
    return dict(found)


def _way(table: Table) -> LaunchMode | None:
    way = launch_mode_of(table)
    return way if way == "host" or (table.gpus_per_thread and way != "graph") else None


def align(a: Observations, b: Observations) -> tuple[Observations, Observations, list[str]]:
    """Fills in what one side leaves unsaid, where the other leaves no choice, and says so.

    Raises:
        UsageError: A side does not say what a row is, and the other has several it may be.
    """
    a, b, notes = _align_field(a, b, "collective", "A", "B")
    for collective in sorted(_values(a, "collective") & _values(b, "collective"), key=str):
        mine = {point: found for point, found in a.items() if point.collective == collective}
        theirs = {point: found for point, found in b.items() if point.collective == collective}
        rest_a = {point: found for point, found in a.items() if point not in mine}
        rest_b = {point: found for point, found in b.items() if point not in theirs}
        where = f" for {collective}" if rest_a or rest_b else ""
        for field in ("dtype", "redop", "root", "ranks", "placement"):
            mine, theirs, more = _align_field(mine, theirs, field, f"A{where}", f"B{where}")
            notes += more
        a, b = {**rest_a, **mine}, {**rest_b, **theirs}
    return a, b, notes


def _align_field(
    a: Observations, b: Observations, field: str, name_a: str, name_b: str
) -> tuple[Observations, Observations, list[str]]:
    said_a, said_b, words = _values(a, field), _values(b, field), _KINDS[field]
    unsaid = {"unstated" if field == "placement" else None}
    if said_a == said_b or not a or not b:
        return a, b, []
    if said_a == unsaid:
        return _fill(a, field, _only(said_b, words, name_a, name_b, field)), b, [_assumed_note(name_a, words, said_b)]
    if said_b == unsaid:
        return a, _fill(b, field, _only(said_a, words, name_b, name_a, field)), [_assumed_note(name_b, words, said_a)]
    return a, b, []


def require_common(a: Observations, b: Observations) -> list[PointKey]:
    """The points of both sides, by configuration and size.

    Raises:
        UsageError: There is none; names what differs.
    """
    for side, points in (("A", a), ("B", b)):
        if not points:
            raise UsageError(f"{side} has no rows", remedy="give a log with a table, or see what `busbw import` says")
    if common := a.keys() & b.keys():
        return sorted(common, key=by_configuration)
    different = [
        f"{words} {_list(_values(a, field))} against {_list(_values(b, field))}"
        for field, words in _KINDS.items()
        if not _values(a, field) & _values(b, field)
    ]
    if not {point.size_bytes for point in a} & {point.size_bytes for point in b}:
        different.append(f"sizes {_span(a)} against {_span(b)}")
    why = "; ".join(different) or "each value is on both sides, but no row has the same combination of them"
    raise UsageError(f"A and B have no row in common: {why}", remedy="compare runs of the same configuration and sizes")


def by_configuration(point: PointKey) -> tuple[object, ...]:
    """The order of a comparison: sizes of one configuration and placement stand together."""
    texts = (str(value) for value in (point.collective, point.dtype, point.redop, point.root, point.ranks))
    return (*texts, point.group, point.placement != "out_of_place", point.size_bytes)


def adjacent_sizes(points: Sequence[PointKey]) -> list[tuple[int, int]]:
    """Pairs of points that are alike but for the size, with no size between them."""
    lines: dict[PointKey, list[tuple[int, int]]] = defaultdict(list)
    for index, point in enumerate(points):
        lines[msgspec.structs.replace(point, size_bytes=0)].append((point.size_bytes, index))
    return [(one, other) for line in lines.values() for (_, one), (_, other) in pairwise(sorted(line))]


def both_placements(points: Sequence[PointKey]) -> list[tuple[int, int]]:
    """Pairs of points that are alike but for the placement."""
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


def _only(values: set[object], words: str, silent: str, other: str, field: str) -> object:
    if len(values) == 1:
        return next(iter(values))
    remedy = "choose one with --placement" if field == "placement" else f"compare with a log of one {words}"
    raise UsageError(f"{silent} does not say its {words}, and {other} has {_list(values)}", remedy=remedy)


def _assumed_note(side: str, words: str, values: set[object]) -> str:
    return f"{side} does not say its {words}; it is taken as the other side's, {_list(values)}."


def _list(values: set[object]) -> str:
    return ", ".join("unstated" if value is None else str(value) for value in sorted(values, key=str))


def _span(side: Observations) -> str:
    sizes = sorted({point.size_bytes for point in side})
    return size_text(sizes[0]) if len(sizes) == 1 else f"{size_text(sizes[0])} to {size_text(sizes[-1])}"
