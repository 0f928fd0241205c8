"""Judges a log: one verdict per configuration, GOOD, SLOW, BROKEN or UNSURE, with reasons and advice.

A series is all figures of one configuration. A yardstick is the ranges of time by which a series is judged.
`_judge_series` selects the yardstick and collects the evidence, from which `grade.py` decides the grade.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from msgspec.structs import replace

from busbw.comparability import differences_text, find_system_difference
from busbw.expect import Expectation, can_reduce_in_network
from busbw.judge.algorithm_changes import explain_by_algorithms
from busbw.judge.causes import likely_causes
from busbw.judge.grade import Decision, Evidence, decide, grade_bands
from busbw.judge.groups import compare_groups
from busbw.judge.reference_selection import ReferenceSelection
from busbw.judge.series import Series, SeriesPoint, series_of_table
from busbw.judge.series_context import ContextFinder, SeriesContext
from busbw.judge.types import BandVerdict, Reason, Verdict
from busbw.judge.yardstick import Yardstick
from busbw.judge.yardstick_selection import select_yardstick, select_yardstick_from_log, use_medians
from busbw.logs import Log, Placement, Table
from busbw.statistics.bands import BANDS
from busbw.statistics.fit import CurveFeature, features, fit, half_bandwidth_bytes
from busbw.system import Nics, System
from busbw.units import bandwidth_gbps, count_text, number_text

_MAX_NAMED_LINES = 3
"""Maximum number of wrong figures or warnings that a verdict names."""
_MAX_LIMIT_RATIO = 1.10
"""Maximum credible ratio of busbw to the highest limit of all routes. Beyond it the assumed system is wrong."""

_BROKEN_REMEDY = (
    "repeat the run with -c 1 -n 1 over the same sizes; if data are wrong again, suspect the library, then the hardware"
)
_REFUSED_ROWS_REMEDY = "see `busbw import` for the refused rows"
_OTHER_SIZES = Reason(
    "other_sizes", "the reference covers no size of the run", "measure sizes of the reference (-b 8 -e 8G -f 2)"
)
_NICS_REMEDY = (
    "state the NICs of a node: busbw check --nics 8x400, or --system NAME if they are the usual ones of such a machine"
)
_NO_EXPECTATION_REMEDY = "give a good run of the same machine (--reference FILE)"
_NO_YARDSTICK_REMEDY = (
    "state the system (--system NAME; `busbw expect --list-systems` lists them) or give a good run of the same machine "
    "(--reference FILE)"
)


def judge(
    log: Log,
    *,
    system: System | None = None,
    nics: Nics | None = None,
    sharp: bool = False,
    selection: ReferenceSelection | None = None,
    context_finder: ContextFinder | None = None,
) -> tuple[Verdict, ...]:
    """Judges each configuration of a log.

    Args:
        log: Log to judge.
        system: System of the run; None to derive it from the log's devices.
        nics: NICs of a node; None to use those of the system.
        sharp: True if the network reduces; False to use the system's description.
        selection: Reference to judge by instead of the expectation; None for the expectation.
        context_finder: Finder made with the same options, which several logs can share; None for a new finder.
    """
    judged = iterate_verdicts(
        log, system=system, nics=nics, sharp=sharp, selection=selection, context_finder=context_finder
    )
    return tuple(entry.verdict for entry in judged)


class JudgedSeries(NamedTuple):
    """A verdict with the table, the series and the context that it is about."""

    table_number: int
    """Number of the table in its log, from 1."""
    table: Table
    series: Series | None
    """None for a table without rows."""
    context: SeriesContext | None
    """None for a table without rows."""
    verdict: Verdict


def iterate_verdicts(
    log: Log,
    *,
    system: System | None = None,
    nics: Nics | None = None,
    sharp: bool = False,
    selection: ReferenceSelection | None = None,
    context_finder: ContextFinder | None = None,
    needs_curve: Callable[[Verdict], bool] = lambda _verdict: True,
) -> Iterator[JudgedSeries]:
    """Yields the verdicts of `judge` one by one, for a log of any length, in the order of its tables.

    `needs_curve` returns false if the caller does not use `fit`, `half_bytes` and `features` of a verdict. It takes
    long to compute them.
    """
    context_finder = context_finder or ContextFinder(system, nics, selection or ReferenceSelection(), sharp=sharp)
    refused_counts = _count_refused_rows(log)
    has_reference = not context_finder.selection.is_empty
    for number, table in enumerate(log.tables, start=1):
        all_series = series_of_table(table)
        if not all_series:
            yield JudgedSeries(number, table, None, None, _judge_empty_table(table))
            continue
        refused_count = refused_counts[table.first_line]
        table_contexts = context_finder.find(all_series)
        judged = [
            _judge_series(series, context, context_finder, system, refused_count)
            for series, context in zip(all_series, table_contexts, strict=True)
        ]
        verdicts = compare_groups(all_series, [verdict for verdict, _ in judged], has_reference=has_reference)
        for series, context, (_, judged_series), verdict in zip(
            all_series, table_contexts, judged, verdicts, strict=True
        ):
            if needs_curve(verdict):
                verdict = replace(verdict, **_analyze_curve(judged_series))
            yield JudgedSeries(number, table, series, context, verdict)


def _count_refused_rows(log: Log) -> Counter[int]:
    """Counts the refused rows after each table's start, by its first line. Earlier ones count for the first table."""
    if not log.refused:
        return Counter()
    first_lines = sorted(table.first_line for table in log.tables)
    if not first_lines:
        return Counter()
    return Counter(first_lines[max(bisect_right(first_lines, refusal.line) - 1, 0)] for refusal in log.refused)


def _judge_empty_table(table: Table) -> Verdict:
    """Returns the verdict on a table without rows."""
    reasons = [Reason("no_rows", "no row of it was read", _REFUSED_ROWS_REMEDY)]
    if end_text := table.early_end_text or table.end_reason:
        reasons.append(Reason("ended_early", end_text))
    wrong_data: list[Reason] = []
    if table.claimed_out_of_bounds:
        footer_reason = Reason("wrong_data", f"its footer counts {table.claimed_out_of_bounds} out of bounds")
        wrong_data = [footer_reason, *reasons]
    return _make_verdict(
        decide(Evidence(wrong_data=tuple(wrong_data), obstacles=tuple(reasons))),
        title=table.collective or table.program or "a table",
        yardstick="nothing",
    )


def _make_verdict(decision: Decision, **others: object) -> Verdict:
    return Verdict(
        grade=decision.grade,
        reason_kind=decision.reasons[0].kind,
        reasons=tuple(reason.text for reason in decision.reasons),
        advice=tuple(reason.remedy for reason in decision.reasons if reason.remedy),
        bands=decision.bands,
        **others,  # type: ignore[arg-type]
    )


def _judge_series(
    series: Series, context: SeriesContext, context_finder: ContextFinder, system: System | None, refused_count: int
) -> tuple[Verdict, Series]:
    """Judges one configuration. Returns the verdict without findings on the curve, and the series that was judged.

    The judged series may differ from `series`, see `_select_from_reference_log`.

    Args:
        series: Figures of the configuration.
        context: Context of the series.
        context_finder: Finder of the context, with the selected reference.
        system: System that the user states; None if the log decides.
        refused_count: Number of rows of the table that could not be read.
    """
    selection, expectation = context_finder.selection, context.expectation
    series = series.with_stated_nics(context.network_nics)
    if selection.log is not None:
        series, yardstick, notes = _select_from_reference_log(series, context_finder)
    else:
        yardstick, notes = select_yardstick(series, context, selection)
    if isinstance(yardstick, Yardstick) and yardstick.run_variation_text and not yardstick.blockers:
        variation = yardstick.run_variation_text
        notes = [*notes, f"two starts of one command may be {variation}: `busbw ab` detects smaller differences"]
    notes += _notes_on_data(series)
    by_expectation = selection.is_empty
    evidence = _collect_evidence(series, yardstick, context, system, refused_count, by_expectation=by_expectation)
    decision = decide(evidence)
    graded_bands = {band.band for band in decision.bands}
    missing_bands = [band for band in BANDS if band not in graded_bands]
    if graded_bands and missing_bands and not series.is_call:
        notes.append(f"not measured: {' and '.join(missing_bands)}")
    causes: tuple[str, ...] = ()
    if decision.grade == "SLOW" and expectation is not None and expectation.best is not None:
        causes = likely_causes(series.table, expectation, decision.bands, by_expectation=by_expectation)
    verdict = _make_verdict(
        decision,
        title=series.title,
        late_ranks=series.late_ranks,
        yardstick=yardstick.name if isinstance(yardstick, Yardstick) else "nothing",
        causes=causes,
        beside=tuple(notes),
    )
    return verdict, series


def _select_from_reference_log(
    series: Series, context_finder: ContextFinder
) -> tuple[Series, Yardstick | Reason, list[str]]:
    """Selects the yardstick from the reference log. Returns the series to judge, the yardstick, and notes.

    The series has medians if those of the reference are known too. The name of the yardstick then says so, because
    the table of the log shows means.
    """
    mean_times_us = [point.time_us for point in series.points]
    series, reference_series = use_medians(series, context_finder.reference_series)
    yardstick, notes = select_yardstick_from_log(series, context_finder.selection.name, reference_series)
    if isinstance(yardstick, Yardstick) and [point.time_us for point in series.points] != mean_times_us:
        yardstick = replace(yardstick, name=f"{yardstick.name}, by medians of the iterations")
    return series, yardstick, notes


def _collect_evidence(
    series: Series,
    yardstick: Yardstick | Reason,
    context: SeriesContext,
    system: System | None,
    refused_count: int,
    *,
    by_expectation: bool,
) -> Evidence:
    """Returns the facts that the grade depends on. Only figures without an obstacle are compared with the yardstick."""
    if wrong_data := _wrong_data_reason(series):
        return Evidence(wrong_data=(wrong_data,))
    if obstacle := _find_obstacle(series, yardstick, context.expectation, system, by_expectation=by_expectation):
        return Evidence(obstacles=(obstacle,))
    assert isinstance(yardstick, Yardstick)  # a missing yardstick is an obstacle
    bands = grade_bands(series, yardstick)
    if not bands:
        return Evidence(obstacles=(_OTHER_SIZES,))
    return Evidence(
        bands=bands,
        doubts=_find_doubts(series, bands, context.expectation),
        refused_rows=_refused_rows_reason(refused_count) if refused_count else None,
        assumed_nics=_assumed_nics_reason(context.expectation) if by_expectation and context.assumes_nics else None,
    )


def _wrong_data_reason(series: Series) -> Reason | None:
    """Returns the reason for BROKEN: wrong data in rows, or in the footer of the table. None without wrong data."""
    if series.wrong:
        more = f" and {series.wrong_count - _MAX_NAMED_LINES} more" if series.wrong_count > _MAX_NAMED_LINES else ""
        text = f"wrong data: {'; '.join(series.wrong[:_MAX_NAMED_LINES])}{more}"
        return Reason("wrong_data", text, _BROKEN_REMEDY)
    if not series.table.claimed_out_of_bounds:
        return None
    # The footer counts all configurations of the table. Wrong data in a row are the fault of that row's configuration.
    has_wrong_row = any(figure.wrong_elements for row in series.table.rows for figure in row.figures.values())
    if has_wrong_row:
        return None
    text = f"the log's footer counts {series.table.claimed_out_of_bounds} out of bounds"
    return Reason("wrong_data", text, _BROKEN_REMEDY)


def _refused_rows_reason(refused_count: int) -> Reason:
    unread_text = f"{count_text(refused_count, 'row')} of the log could not be read"
    return Reason(
        "refused_rows", f"the rows that were read are in their range, but {unread_text}", _REFUSED_ROWS_REMEDY
    )


def _assumed_nics_reason(expectation: Expectation | None) -> Reason | None:
    nics = expectation.system.nics if expectation else None
    if nics is None:
        return None
    text = f"the NICs of a node are not stated: {nics.text} are assumed, and with others this may be healthy"
    return Reason("assumed_nics", text, _NICS_REMEDY)


def _find_obstacle(
    series: Series,
    yardstick: Yardstick | Reason,
    expectation: Expectation | None,
    system: System | None,
    *,
    by_expectation: bool,
) -> Reason | None:
    """Returns the reason why the figures cannot be judged by the yardstick. None if they can be judged.

    `system` is the system that the user states, if any. `by_expectation` is false if the user chose a reference.
    """
    if series.is_call and by_expectation and isinstance(yardstick, Reason):
        return Reason("no_expectation", "no expectation of communicator operations is known", _NO_EXPECTATION_REMEDY)
    if series.ranks == 1 and not series.is_call:
        return Reason(
            "one_rank",
            "one rank: nothing crosses a link, so busbw is 0 and times are at most those of a copy",
            "start all ranks in one job; several such tables mean that each process ran alone (build with MPI=1)",
        )
    if series.table.has_several_runs:
        return Reason(
            "mixed_runs",
            f"{series.table.rank_zero_processes} processes report rank 0, so rows of several runs may be mixed",
            "judge the log of each run alone, or start all ranks in one job (build with MPI=1)",
        )
    if series.contradictions:
        more = f" (and {series.contradiction_count - 1} more)" if series.contradiction_count > 1 else ""
        return Reason(
            "contradiction",
            f"the figures contradict each other: {series.contradictions[0]}{more}",
            "check the units of time and bandwidth and the number of ranks in the log",
        )
    if not series.points and series.is_call:
        return Reason("no_times", "no row of the call has a time", "measure the call again")
    if not series.points:
        return Reason(
            "no_times", "no row has a time at a size above 0", "measure sizes above 0, such as -b 8 -e 1G -f 2"
        )
    if system is not None and (difference := find_system_difference(series.table, system)):
        return Reason(
            "other_system", f"not comparable: {difference.text}", "leave out --system, or state the system of the run"
        )
    if isinstance(yardstick, Reason):
        needs_system = expectation is None and not series.is_call
        return replace(yardstick, remedy=_NO_YARDSTICK_REMEDY if needs_system else _NO_EXPECTATION_REMEDY)
    if yardstick.blockers:
        text = f"not comparable: {differences_text(yardstick.blockers)}"
        return Reason("not_comparable", text, "give a reference of the same job (--reference FILE)")
    return None


def _notes_on_data(series: Series) -> list[str]:
    notes = []
    if series.unchecked:
        notes.append(f"data not checked in {series.unchecked} of {series.figures} measurements")
    notes += series.table.warnings[:_MAX_NAMED_LINES]
    return notes


def _analyze_curve(series: Series) -> dict[str, object]:
    """Returns findings that need no yardstick. Fit and half-bandwidth size are those of the first point's placement."""
    factor = series.bus_factor
    if factor is None or series.ranks == 1 or not series.points:
        return {}
    sweeps: dict[Placement, list[SeriesPoint]] = {}
    for point in series.points:
        sweeps.setdefault(point.placement, []).append(point)
    features_by_placement = [
        explain_by_algorithms(features(_times_by_size(sweep), factor), sweep) for sweep in sweeps.values()
    ]
    first_times = _times_by_size(next(iter(sweeps.values())))
    first_curve = [(size_bytes, bandwidth_gbps(size_bytes, time_us, factor)) for size_bytes, time_us in first_times]
    return {
        "fit": fit(first_times, factor),
        "half_bytes": half_bandwidth_bytes(first_curve),
        "features": _merge_features(features_by_placement),
    }


def _times_by_size(sweep: list[SeriesPoint]) -> list[tuple[int, float]]:
    return [(point.size_bytes, point.time_us) for point in sweep]


def _merge_features(features_by_placement: list[tuple[CurveFeature, ...]]) -> tuple[CurveFeature, ...]:
    """Keeps the features that both placements have. Keeps dips of only one placement too, marked as disturbances."""
    if len(features_by_placement) < 2:
        return features_by_placement[0] if features_by_placement else ()
    first, second = (
        {feature.size_bytes: feature for feature in placement_features}
        for placement_features in features_by_placement[:2]
    )
    confirmed = [
        replace(first[size], evidence=f"{first[size].evidence}; in both placements") for size in first.keys() & second
    ]
    unconfirmed_dips = [
        replace(feature, likely="in one placement only: a disturbance during the measurement")
        for size, feature in {**first, **second}.items()
        if size in first.keys() ^ second.keys() and feature.kind == "dip"
    ]
    return tuple(sorted([*confirmed, *unconfirmed_dips], key=lambda feature: feature.size_bytes))


def _find_doubts(series: Series, bands: tuple[BandVerdict, ...], expectation: Expectation | None) -> tuple[Reason, ...]:
    """Returns the facts that do not allow GOOD: an impossible busbw, and a run that ended early."""
    doubts = []
    if expectation is not None and (impossible_busbw := _impossible_busbw_text(bands, expectation)):
        remedy = f"{_sharp_remedy(expectation)}state the system (--system), and check ranks and hosts in the log"
        doubts.append(Reason("impossible_busbw", impossible_busbw, remedy))
    if early_end_text := series.table.early_end_text:
        remedy = "repeat the complete run: missing sizes may be those that fail"
        doubts.append(Reason("ended_early", early_end_text, remedy))
    return tuple(doubts)


def _sharp_remedy(expectation: Expectation) -> str:
    """Returns the beginning of a remedy if a network that reduces would explain the busbw. Empty otherwise."""
    nics = expectation.system.nics
    if nics is None or nics.sharp or not can_reduce_in_network(expectation.job, expectation.system):
        return ""
    return "add --sharp if the network reduces (InfiniBand SHARP); otherwise "


def _impossible_busbw_text(bands: tuple[BandVerdict, ...], expectation: Expectation) -> str | None:
    """Returns a sentence if the busbw exceeds the highest limit of all routes. None if it is credible."""
    if not expectation.routes:
        return None
    max_limit_gbps = max(route.limit_gbps for route in expectation.routes)
    measured_gbps = max((figure.busbw_gbps or 0.0 for band in bands for figure in band.judged), default=0.0)
    if measured_gbps <= _MAX_LIMIT_RATIO * max_limit_gbps:
        return None
    limit_text = f"the limit of {expectation.system.name} ({number_text(max_limit_gbps)})"
    return f"{number_text(measured_gbps)} GB/s is above {limit_text}"
