"""Pairs the rows of two sides by point: collective, type, operator, root, ranks, group, placement and size.

Rows of different configurations are not paired. If one side does not state a property, and the other side has only one
value of this property, the value is assumed for both, and a note says so.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import msgspec

from busbw.comparability import SystemFacts, system_facts
from busbw.compare.differences import WrongRows
from busbw.compare.figures import PointFigures
from busbw.compare.result import PointKey
from busbw.errors import UsageError
from busbw.logs.log import Figure, Placement, Row, Table
from busbw.statistics.run_variation import LaunchMode, launch_mode_of
from busbw.units import size_text

_MAX_BYTES = 1 << 30
"""Maximum memory for the figures of one side."""
_BYTES_PER_POINT = 2200
"""Approximate memory of a point without figures."""
_BYTES_PER_FIGURE = 56
"""Approximate memory of a figure in packed arrays. The arrays are about an eighth longer than their content."""
_BYTES_PER_SAMPLE = 9
"""Approximate memory of a sample: 8 bytes in such an array."""

SystemFigures: TypeAlias = dict[SystemFacts, PointFigures]
"""Figures at a point by the system that they were measured on."""
Observations: TypeAlias = dict[PointKey, SystemFigures]
"""All figures of one side by point and system."""

_FIELD_NAMES = {
    "collective": "collective",
    "dtype": "data type",
    "redop": "operator",
    "root": "root",
    "ranks": "number of ranks",
    "test_ranks": "number of ranks of the test",
    "group": "group",
    "system": "system",
    "placement": "placement",
    "together": "operation",
}
"""Fields of PointKey except the size, with their names in messages, the most important first."""


class SeveralVariantsError(Exception):
    """Rows of a second variant were read where only one is allowed."""


def read_rows(tables: Iterable[Table], *, allows_variants: bool = True) -> tuple[Observations, WrongRows]:
    """Groups all figures by point and system, and counts the rows with wrong data. Each table is one run.

    One pass collects both, because the rows of a long log are in a file.

    A cycle is a pass of one run over all sizes (-N). If several rows of one cycle have the same point, only the first
    row is used: the engine may round several small sizes down to 0 bytes.

    Raises:
        SeveralVariantsError: The rows have several variants, and `allows_variants` is false.
        UsageError: The figures do not fit into memory.
    """
    collector = _FigureCollector()
    first_variant: str | None = None
    wrong_rows = WrongRows()
    for run, table in enumerate(tables):
        collector.begin_run(run, table)
        for row in table.rows:
            if row.variant and not allows_variants:
                first_variant = first_variant or row.variant
                if row.variant != first_variant:
                    raise SeveralVariantsError
            collector.add(row)
            wrong_rows.add(row)
    return collector.by_point, wrong_rows


class _Configuration(NamedTuple):
    """One configuration on one system."""

    facts: SystemFacts
    figures: dict[tuple[int, Placement, bool], PointFigures]
    """Objects of `_FigureCollector.by_point`, by size, placement and `PointKey.together`.

    A lookup here is faster than to make a point for each of a million figures."""


class _FigureCollector:
    """Collects the figures of one side. `begin_run` must precede the rows of each run."""

    def __init__(self) -> None:
        self.by_point: Observations = {}
        self._used_bytes = 0
        self._configurations: dict[tuple[object, ...], _Configuration] = {}
        """Configurations of all runs, by the facts that equal configurations share."""

    def begin_run(self, run: int, table: Table) -> None:
        """Sets the number and the table of the run that the next rows belong to."""
        self._run, self._table = run, table
        self._launch_mode = _visible_launch_mode(table)
        self._configurations_of_run: dict[tuple[object, ...], _Configuration] = {}
        """Configurations of this run by `Row.configuration`, a key that is unique only within one table."""

    def add(self, row: Row) -> None:
        """Adds the figures of a row. Raises UsageError if they do not fit into memory."""
        key = row.configuration
        configuration = self._configurations_of_run.get(key)
        if configuration is None:
            configuration = self._configurations_of_run[key] = self._find_configuration(row)
        for placement, figure in row.figures.items():
            self._add_figure(configuration, row, placement, figure, together=False)
            if together := figure.together_figure:
                self._add_figure(configuration, row, placement, together, together=True)

    def _find_configuration(self, row: Row) -> _Configuration:
        table, facts = self._table, system_facts(self._table, row)
        key = (row.configuration, table.collective_of(row), table.ranks_of(row), facts)
        return self._configurations.setdefault(key, _Configuration(facts, {}))

    def _add_figure(
        self, configuration: _Configuration, row: Row, placement: Placement, figure: Figure, *, together: bool
    ) -> None:
        case = (row.size_bytes, placement, together)
        figures = configuration.figures.get(case)
        if figures is None:
            by_system = self.by_point.setdefault(_point_of(self._table, row, placement, together=together), {})
            if configuration.facts not in by_system:
                by_system[configuration.facts] = PointFigures()
                self._used_bytes += _BYTES_PER_POINT
            figures = configuration.figures[case] = by_system[configuration.facts]
        if not figures.add(figure, self._run, row.cycle):
            return
        if self._launch_mode:
            figures.launch_modes.add(self._launch_mode)
        if figures.claimed_speedup is None:
            figures.claimed_speedup = row.claimed_speedup
        self._used_bytes += _BYTES_PER_FIGURE
        if figure.samples_us:
            self._used_bytes += _BYTES_PER_SAMPLE * max(map(len, figure.samples_us))
        if self._used_bytes > _MAX_BYTES:
            raise UsageError(
                "a side has more figures and samples than 1 GiB of memory holds",
                remedy="compare fewer of its runs",
            )


def figures_by_point(table: Table, row: Row) -> Iterator[tuple[PointKey, Figure]]:
    """Yields the figures of a row with their points. Times during another operation (--with) have their own points."""
    for placement, figure in row.figures.items():
        yield _point_of(table, row, placement), figure
        if together := figure.together_figure:
            yield _point_of(table, row, placement, together=True), together


def _point_of(table: Table, row: Row, placement: Placement, *, together: bool = False) -> PointKey:
    return PointKey(
        collective=table.collective_of(row),
        dtype=row.dtype,
        redop=row.redop,
        root=row.root,
        ranks=table.ranks_of(row),
        test_ranks=row.lifecycle.test_ranks if row.lifecycle else None,
        group=row.group,
        placement=placement,
        together=together,
        size_bytes=row.size_bytes,
    )


def _visible_launch_mode(table: Table) -> LaunchMode | None:
    """Returns the launch mode if launching affects the times. None in a CUDA graph, or if the mode is unknown."""
    launch_mode = launch_mode_of(table)
    if launch_mode == "host":
        return launch_mode
    is_known = bool(table.gpus_per_thread)
    return launch_mode if is_known and launch_mode != "graph" else None


def align(a: Observations, b: Observations) -> tuple[Observations, Observations, list[str]]:
    """Fills in fields that one side does not state with the value of the other side, which must have only one value.

    The collective is filled in first, then the other fields for each collective. Returns both sides and a note on each
    assumption.

    Raises:
        UsageError: A side does not state a field, and the other side has several values for it.
    """
    a, b, notes = _align_field(a, b, "collective", "A", "B")
    for collective in sorted(_field_values(a, "collective") & _field_values(b, "collective"), key=str):
        of_collective_a, others_a = _split_by_collective(a, collective)
        of_collective_b, others_b = _split_by_collective(b, collective)
        scope = f" for {collective}" if others_a or others_b else ""
        for field in ("dtype", "redop", "root", "ranks", "placement"):
            of_collective_a, of_collective_b, new_notes = _align_field(
                of_collective_a, of_collective_b, field, f"A{scope}", f"B{scope}"
            )
            notes += new_notes
        a, b = {**others_a, **of_collective_a}, {**others_b, **of_collective_b}
    return a, b, notes


def _split_by_collective(side: Observations, collective: object) -> tuple[Observations, Observations]:
    """Returns the observations of a collective, and the others."""
    of_collective = {point: observed for point, observed in side.items() if point.collective == collective}
    return of_collective, {point: observed for point, observed in side.items() if point not in of_collective}


def _align_field(
    a: Observations, b: Observations, field: str, name_a: str, name_b: str
) -> tuple[Observations, Observations, list[str]]:
    """Aligns one field of both sides; see `align`. Returns both sides and at most one note."""
    values_a, values_b, field_name = _field_values(a, field), _field_values(b, field), _FIELD_NAMES[field]
    only_unstated = {"unstated" if field == "placement" else None}
    if values_a == values_b or not a or not b:
        return a, b, []
    if values_a == only_unstated:
        value = _require_single_value(values_b, field_name, name_a, name_b, field)
        return _fill_field(a, field, value), b, [_assumption_note(name_a, field_name, values_b)]
    if values_b == only_unstated:
        value = _require_single_value(values_a, field_name, name_b, name_a, field)
        return a, _fill_field(b, field, value), [_assumption_note(name_b, field_name, values_a)]
    return a, b, []


def require_common(a: Mapping[PointKey, object], b: Mapping[PointKey, object]) -> list[PointKey]:
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
    remedy = "compare runs of the same configuration and sizes"
    is_system_first_difference = reason.startswith(_FIELD_NAMES["system"])
    if is_system_first_difference:
        remedy = "compare runs on like systems, or add --any-system"
    raise UsageError(f"A and B have no row in common: {reason}", remedy=remedy)


def by_configuration(point: PointKey) -> tuple[object, ...]:
    """Sort key of a comparison: the sizes of one configuration and placement are adjacent."""
    texts = (str(value) for value in (point.collective, point.dtype, point.redop, point.root, point.ranks))
    out_of_place_first = point.placement != "out_of_place"  # false sorts before true
    return (
        *texts,
        point.test_ranks or 0,
        point.group,
        point.system or "",
        out_of_place_first,
        point.together,
        point.size_bytes,
    )


def adjacent_sizes(points: Sequence[PointKey]) -> list[tuple[int, int]]:
    """Returns the index pairs of points that differ only in their size, with no other size between them."""
    sweeps: dict[PointKey, list[tuple[int, int]]] = defaultdict(list)
    for index, point in enumerate(points):
        sweeps[msgspec.structs.replace(point, size_bytes=0)].append((point.size_bytes, index))
    return [(smaller, larger) for sweep in sweeps.values() for (_, smaller), (_, larger) in pairwise(sorted(sweep))]


def both_placements(points: Sequence[PointKey]) -> list[tuple[int, int]]:
    """Returns the index pairs of points that differ only in their placement."""
    indices_by_point: dict[PointKey, list[int]] = defaultdict(list)
    for index, point in enumerate(points):
        indices_by_point[msgspec.structs.replace(point, placement="unstated")].append(index)
    return [pair for indices in indices_by_point.values() for pair in pairwise(indices)]


def _field_values(side: Mapping[PointKey, object], field: str) -> set[object]:
    return {getattr(point, field) for point in side}


def _fill_field(side: Observations, field: str, value: object) -> Observations:
    """Sets a field of all points. Merges the figures of points that become equal."""
    parts: dict[PointKey, dict[SystemFacts, list[PointFigures]]] = {}
    for point, by_system in side.items():
        parts_by_system = parts.setdefault(msgspec.structs.replace(point, **{field: value}), {})
        for facts, figures in by_system.items():
            parts_by_system.setdefault(facts, []).append(figures)
    return {
        point: {facts: PointFigures.merged(figures) for facts, figures in parts_by_system.items()}
        for point, parts_by_system in parts.items()
    }


def _require_single_value(
    values: set[object], field_name: str, unstated_side: str, stated_side: str, field: str
) -> object:
    """Returns the only value of the side that states the field. Raises UsageError if there are several."""
    if len(values) == 1:
        return next(iter(values))
    remedy = "choose one with --placement" if field == "placement" else f"compare with a log of one {field_name}"
    raise UsageError(
        f"{unstated_side} does not state its {field_name}, and {stated_side} has {_values_text(values)}", remedy=remedy
    )


def _assumption_note(side: str, field_name: str, values: set[object]) -> str:
    return f"{side} does not state its {field_name}; the other side's is assumed: {_values_text(values)}."


def _values_text(values: set[object]) -> str:
    return ", ".join(_value_text(value) for value in sorted(values, key=str))


def _value_text(value: object) -> str:
    if isinstance(value, bool):  # `PointKey.together`
        return "next to a neighbor" if value else "alone"
    return "unstated" if value is None else str(value)


def _sizes_text(side: Mapping[PointKey, object]) -> str:
    sizes = sorted({point.size_bytes for point in side})
    return size_text(sizes[0]) if len(sizes) == 1 else f"{size_text(sizes[0])} to {size_text(sizes[-1])}"
