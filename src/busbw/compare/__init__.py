"""Comparison of two logs, or of two variants within one log: changes, their size and their certainty.

`compare_logs` and `compare_variants` return a `Comparison`. docs/explanation/comparison.md has the method and its
error rates. The verdict on each size is decided in `verdicts.py`. A point is one size of one configuration.
"""

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import msgspec

from busbw.comparability import differences_text, find_traffic_differences
from busbw.compare import differences
from busbw.compare.differences import WrongRows
from busbw.compare.evidence import MIN_RUNS
from busbw.compare.figures import PointFigures
from busbw.compare.pairing import (
    Observations,
    SeveralVariantsError,
    align,
    by_configuration,
    read_rows,
    require_common,
)
from busbw.compare.result import (
    NO_INTERVALS,
    Basis,
    ChangeVerdict,
    Comparison,
    PointKey,
    SettingDifference,
    Side,
    SideFigures,
    SizeResult,
)
from busbw.compare.systems import separate_systems
from busbw.compare.verdicts import FAMILY_ALPHA, judge_points, thresholds_text
from busbw.errors import UsageError
from busbw.logs.log import Log, Placement, Table

RESOLUTION = 0.05
"""Default for the largest relative difference that is SAME: 5 %."""


def compare_logs(
    a: Log,
    b: Log,
    *,
    resolution: float = RESOLUTION,
    placement: Placement | None = None,
    any_system: bool = False,
) -> Comparison:
    """Compares B against A, row by row within each configuration.

    Args:
        a: Log of side A.
        b: Log of side B.
        resolution: Largest relative difference that is SAME.
        placement: Placement to compare; None for all.
        any_system: True to compare unlike systems.

    Raises:
        UsageError: A log has several variants or unlike runs. The logs measured unlike traffic, or have no row of like
            systems in common. One log does not state a property, such as the element type, and the other has rows
            with several values of this property.
    """
    side_a, side_b = _read_log("A", a), _read_log("B", b)
    return _compare(
        side_a,
        side_b,
        warnings=[*differences.warnings_of_log("A", a), *differences.warnings_of_log("B", b)],
        resolution=resolution,
        placement=placement,
        any_system=any_system,
    )


def _read_log(label: str, log: Log) -> "_SideContent":
    """Reads a log as one side. Raises UsageError if it has several variants or does not fit into memory."""
    try:
        return _SideContent.read(label, log.source, log.tables, len(log.tables), allows_variants=False)
    except SeveralVariantsError:
        variants = dict.fromkeys(row.variant for row in log.iterate_rows() if row.variant)
        raise UsageError(
            f"{label} contains several variants: {', '.join(variants)}",
            remedy=f"compare them with each other: busbw compare {log.source}",
        ) from None


def compare_variants(
    log: Log,
    names: tuple[str, str] | None = None,
    *,
    resolution: float = RESOLUTION,
    placement: Placement | None = None,
    any_system: bool = False,
) -> Comparison:
    """Compares two variants within one log, such as two libraries or kernels.

    Args:
        log: The log.
        names: Variants for A and B; '#1' is the log's first table. None to compare the only two variants.
        resolution: Largest relative difference that is SAME.
        placement: Placement to compare; None for all.
        any_system: True to compare unlike systems.

    Raises:
        UsageError: `names` is None and the log does not have two variants. A name is unknown or given twice. The
            variants have unlike runs or unlike traffic, or no row in common.
    """
    tables_by_name = _tables_by_variant(log)
    variants = [name for name in tables_by_name if not name.startswith("#")]
    if names is None:
        if len(variants) != 2:
            count = f"{len(variants)} variants" if variants else "no variants to compare"
            problem = f"{log.source} contains {count}"
            remedy = f"name two with --variants: {', '.join(tables_by_name)}"
            raise UsageError(problem, remedy=remedy if len(tables_by_name) > 1 else "give a second log")
        names = (variants[0], variants[1])
    for name in names:
        if name not in tables_by_name:
            raise UsageError(
                f'{log.source} has no variant "{name}"', remedy=f"choose among {', '.join(tables_by_name) or 'none'}"
            )
    if names[0] == names[1]:
        raise UsageError(f'the variant "{names[0]}" is named twice', remedy="name two different variants")
    side_a, side_b = (_SideContent.read(name, log.source, tables_by_name[name]) for name in names)
    return _compare(
        side_a,
        side_b,
        warnings=differences.warnings_of_log("the log", log),
        resolution=resolution,
        placement=placement,
        any_system=any_system,
        has_claims=_is_baseline(log, *names),
    )


def _is_baseline(log: Log, name: str, other: str) -> bool:
    """True if the published speed-ups of `other` are relative to `name`: to the first other variant of each table."""
    baselines = set()
    for table in log.tables:
        names = dict.fromkeys(row.variant for row in table.rows)
        if other in names:
            baselines.add(next((variant for variant in names if variant != other), None))
    return baselines == {name}


def _tables_by_variant(log: Log) -> dict[str, tuple[Table, ...]]:
    """Returns the tables of each variant, each with only the rows of that variant.

    If the log has several tables, each is also a variant with a number as its name: '#1', '#2'.
    """
    names = dict.fromkeys(row.variant for row in log.iterate_rows() if row.variant)
    tables_by_name = {name: _select_variant(log.tables, name) for name in names}
    if len(log.tables) > 1:
        tables_by_name |= {f"#{number}": (table,) for number, table in enumerate(log.tables, start=1)}
    return tables_by_name


def _select_variant(tables: Sequence[Table], name: str) -> tuple[Table, ...]:
    tables_of_variant = (
        msgspec.structs.replace(table, rows=tuple(row for row in table.rows if row.variant == name)) for table in tables
    )
    return tuple(table for table in tables_of_variant if table.rows)


class _SideContent(NamedTuple):
    """A side with its tables, and the content of their rows."""

    side: Side
    tables: Sequence[Table]
    observations: Observations
    wrong_rows: WrongRows

    @classmethod
    def read(
        cls, label: str, source: str, tables: Sequence[Table], runs: int = 1, *, allows_variants: bool = True
    ) -> "_SideContent":
        """Reads the tables of a log. `runs` is `Side.runs`. Raises SeveralVariantsError as `read_rows`."""
        side = Side(label=label, source=source, library=_libraries_text(tables), runs=runs)
        return cls(side, tables, *read_rows(tables, allows_variants=allows_variants))

    def wrong_data(self) -> list[str]:
        """Returns sentences about wrong data."""
        return self.wrong_rows.sentences(self.side.label, self.tables)


def _require_like_traffic(a: _SideContent, b: _SideContent) -> None:
    """Raises UsageError if two tables differ in their traffic: --skew, --with or -H."""
    if not a.tables:
        return
    tables = chain(a.tables, b.tables)
    first = next(tables)
    name_a, name_b = a.side.label, b.side.label
    for table in tables:
        if traffic_differences := find_traffic_differences(first, table, run_name=name_a, other_name=name_b):
            raise UsageError(
                f"{name_a} and {name_b} measured unlike traffic: {differences_text(traffic_differences)}",
                remedy="compare runs with the same --skew, --with and -H",
            )


def _compare(
    a: _SideContent,
    b: _SideContent,
    *,
    warnings: list[str],
    resolution: float,
    placement: Placement | None,
    any_system: bool,
    has_claims: bool = False,
) -> Comparison:
    """Compares two sides. `has_claims`: True if speed-ups in B's rows are relative to side A."""
    observations_a, observations_b = (_select_placement(side.observations, placement) for side in (a, b))
    observations_a, observations_b, notes = align(observations_a, observations_b)  # fills in unstated fields
    figures_a, figures_b, system_notes = separate_systems(
        (observations_a, a.tables), (observations_b, b.tables), any_system=any_system
    )
    _require_like_traffic(a, b)
    points = require_common(figures_a, figures_b)
    pairs = [(figures_a[point], figures_b[point]) for point in points]
    results = judge_points(points, pairs, resolution=resolution, has_claims=has_claims)
    thresholds = thresholds_text(points, pairs, resolution)
    bases = list(dict.fromkeys(result.basis for result in results))
    has_device_times = any(result.compared == "device_time_us" for result in results)
    return Comparison(
        a=a.side,
        b=b.side,
        results=tuple(results),
        resolution=resolution,
        method=(
            *([_DEVICE_TIME_METHOD] if has_device_times else []),
            *(_METHOD_BY_BASIS[basis].format(min_runs=MIN_RUNS, thresholds=thresholds) for basis in bases),
        ),
        level_text=_level_text(bases),
        wrong_data=tuple(sentence for side in (a, b) for sentence in side.wrong_data()),
        warnings=(*warnings, *system_notes, *notes, *_cycle_warnings(pairs)),
        only_in_a=tuple(sorted(figures_a.keys() - figures_b.keys(), key=by_configuration)),
        only_in_b=tuple(sorted(figures_b.keys() - figures_a.keys(), key=by_configuration)),
        differences=differences.find_setting_differences(a.tables, b.tables),
    )


_METHOD_BY_BASIS: dict[Basis, str] = {
    "runs": "Runs are the unit: a Welch interval of the ratio of their median times. It assumes that runs of A and B "
    "were taken in turns. Otherwise a change of the machine between them counts as a difference. "
    "With fewer than {min_runs} runs of a side a change counts only beyond {thresholds}.",
    "iterations": "Fewer than {min_runs} runs of a side: the intervals cover only the variation within a run, between "
    "stretches of consecutive iterations. A change counts only beyond {thresholds}, "
    "and beyond the spread of either side's iterations (quartiles). `busbw ab` measures both.",
    "means": "Single figures, or too few samples: there is no interval. A change counts only beyond {thresholds}, and "
    "beyond the spread of any iterations (quartiles), after allowing for rounding.",
    "blocks": "Quadruples of interleaved blocks are the unit; the order within each is random.",
}
"""Explanation of each basis for the user. `_compare` fills in the names in braces."""

_DEVICE_TIME_METHOD = (
    "Two times are compared separately: device time, which an operation takes if all ranks begin together, and time, "
    "which a program spends, including launch time. Samples come from the device's clock and describe only device time."
)


def _level_text(bases: Sequence[Basis]) -> str:
    if bases == ["means"]:
        return NO_INTERVALS
    return f"{(1 - FAMILY_ALPHA) * 100:g} % for all sizes together"


def _select_placement(side: Observations, placement: Placement | None) -> Observations:
    """Removes the points that are known to have another placement."""
    return {
        point: figures
        for point, figures in side.items()
        if placement is None or point.placement in (placement, "unstated")
    }


def _libraries_text(tables: Sequence[Table]) -> str | None:
    return ", ".join(dict.fromkeys(table.library for table in tables if table.library)) or None


def _cycle_warnings(pairs: Sequence[tuple[PointFigures, PointFigures]]) -> list[str]:
    """Returns a warning if both sides have MIN_RUNS cycles at a point, but one side has fewer runs.

    A cycle is a pass of one run over all sizes (-N).
    """

    def would_cycles_suffice(side_a: PointFigures, side_b: PointFigures) -> bool:
        have_enough_runs = min(side_a.run_count, side_b.run_count) >= MIN_RUNS
        have_enough_cycles = min(len(side_a), len(side_b)) >= MIN_RUNS
        return have_enough_cycles and not have_enough_runs

    if any(would_cycles_suffice(*pair) for pair in pairs):
        return [
            "Cycles of one run do not count as runs: they share properties of the program's start (memory, placement "
            f"of ranks, launch mode). Measure {MIN_RUNS} starts of each side, taken in turns."
        ]
    return []


__all__ = [
    "RESOLUTION",
    "Basis",
    "ChangeVerdict",
    "Comparison",
    "PointKey",
    "SettingDifference",
    "Side",
    "SideFigures",
    "SizeResult",
    "compare_logs",
    "compare_variants",
]
