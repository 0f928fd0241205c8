"""Judges a log: one verdict per configuration, GOOD, SLOW, BROKEN or UNSURE, with reasons and advice.

A series is all figures of one configuration. A yardstick is the ranges of time by which a series is judged.
`_judge_series` selects the yardstick (yardstick_selection.py) and collects the evidence (evidence.py), from which
`grade.py` decides the grade.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from msgspec.structs import replace

from busbw.expect import effective_system
from busbw.judge.causes import likely_causes
from busbw.judge.curve_findings import analyze_curve
from busbw.judge.evidence import REFUSED_ROWS_REMEDY, collect_evidence
from busbw.judge.grade import Decision, Evidence, decide
from busbw.judge.groups import compare_groups
from busbw.judge.reference_selection import ReferenceSelection
from busbw.judge.series import Series, series_of_table
from busbw.judge.series_context import ContextFinder, SeriesContext
from busbw.judge.types import JudgedConfiguration, Reason, Verdict
from busbw.judge.yardstick import Yardstick
from busbw.judge.yardstick_selection import select_yardstick, select_yardstick_from_log
from busbw.logs.log import Log, Table
from busbw.statistics.bands import BANDS
from busbw.system import Nics, System

_MAX_NAMED_WARNINGS = 3
"""Maximum number of warnings that a verdict names."""


def judge(
    log: Log,
    *,
    system: System | None = None,
    nics: Nics | None = None,
    sharp: bool = False,
    selection: ReferenceSelection | None = None,
    context_finder: ContextFinder | None = None,
    refused_counts: Mapping[int, int] | None = None,
) -> tuple[Verdict, ...]:
    """Returns the verdict on each configuration of a log. Arguments: as of `judge_configurations`."""
    judged = judge_configurations(
        log,
        system=system,
        nics=nics,
        sharp=sharp,
        selection=selection,
        context_finder=context_finder,
        refused_counts=refused_counts,
    )
    return tuple(configuration.verdict for configuration in judged)


def judge_configurations(
    log: Log,
    *,
    system: System | None = None,
    nics: Nics | None = None,
    sharp: bool = False,
    selection: ReferenceSelection | None = None,
    context_finder: ContextFinder | None = None,
    refused_counts: Mapping[int, int] | None = None,
    needs_curve: Callable[[Verdict], bool] = lambda _verdict: True,
) -> Iterator[JudgedConfiguration]:
    """Yields each configuration of a log of any length with its verdict, in the order of its tables.

    Args:
        log: Log to judge.
        system: System of the run; None to derive it from the log.
        nics: NICs of a node; None to use those of the system.
        sharp: True if the network reduces; False to use the system's description.
        selection: Reference to judge by instead of the expectation; None for the expectation.
        context_finder: Finder made with the same options, which several logs can share; None for a new finder.
        refused_counts: Number of refused rows by the first line of their table, if `log` is a part of another log; None
            to count those of `log`.
        needs_curve: Returns false if the caller does not use `fit`, `half_bytes` and `features` of a verdict. It takes
            long to compute them.
    """
    context_finder = context_finder or ContextFinder(system, nics, selection or ReferenceSelection(), sharp=sharp)
    refused_counts = count_refused_rows(log) if refused_counts is None else refused_counts
    has_reference = not context_finder.selection.is_empty
    for number, table in enumerate(log.tables, start=1):
        all_series = series_of_table(table)
        if not all_series:
            table_system = effective_system(table, system, nics=nics, sharp=sharp)
            yield _judge_empty_table(log, number, table, table_system)
            continue
        refused_count = refused_counts.get(table.first_line, 0)
        table_contexts = context_finder.find(all_series)
        judged = [
            _judge_series(series, context, context_finder, system, refused_count)
            for series, context in zip(all_series, table_contexts, strict=True)
        ]
        # A group that is slower than the other groups of its table gets another verdict.
        verdicts = compare_groups(all_series, [verdict for verdict, _ in judged], has_reference=has_reference)
        for series, context, (_, judged_series), verdict in zip(
            all_series, table_contexts, judged, verdicts, strict=True
        ):
            if needs_curve(verdict):
                verdict = replace(verdict, **analyze_curve(judged_series))
            row = series.row
            yield JudgedConfiguration(
                log=log.source,
                table=number,
                start_time=table.start_time,
                collective=series.collective,
                dtype=row.dtype,
                redop=row.redop,
                root=row.root,
                ranks=series.ranks,
                group=row.group,
                variant=row.variant,
                hosts=series.hosts,
                system=context.system.name if context.system else None,
                verdict=verdict,
                expectation=context.expectation,
            )


def count_refused_rows(log: Log) -> Counter[int]:
    """Counts the refused rows of each table, by the first line of the table.

    A refused row belongs to the last table that begins before it, or to the first table if there is none before it.
    """
    first_lines = sorted(table.first_line for table in log.tables) if log.refused else []
    if not first_lines:
        return Counter()
    table_indices = (max(bisect_right(first_lines, refusal.line) - 1, 0) for refusal in log.refused)
    return Counter(first_lines[index] for index in table_indices)


def _judge_empty_table(log: Log, number: int, table: Table, system: System | None) -> JudgedConfiguration:
    """Returns the verdict on a table without rows."""
    remedy = REFUSED_ROWS_REMEDY if log.refused else "repeat the run, and see its messages"
    reasons = [Reason("no_rows", "no row of it was read", remedy)]
    if end_text := table.early_end_text or table.end_reason:
        reasons.append(Reason("ended_early", end_text))
    wrong_data: list[Reason] = []
    if table.claimed_out_of_bounds:
        footer_reason = Reason("wrong_data", f"its footer counts {table.claimed_out_of_bounds} out of bounds")
        wrong_data = [footer_reason, *reasons]  # for wrong data, `decide` reports only these reasons
    verdict = _make_verdict(
        decide(Evidence(wrong_data=tuple(wrong_data), obstacles=tuple(reasons))),
        title=table.collective or table.program or "a table",
        yardstick="nothing",
    )
    return JudgedConfiguration(
        log=log.source,
        table=number,
        start_time=table.start_time,
        collective=table.collective,
        ranks=table.ranks,
        hosts=table.hosts,
        system=system.name if system else None,
        verdict=verdict,
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

    The judged series may differ from `series`, see `select_yardstick_from_log`.

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
        series, yardstick, notes = select_yardstick_from_log(series, selection.name, context_finder.reference_series)
    else:
        yardstick, notes = select_yardstick(series, context, selection)
    if isinstance(yardstick, Yardstick) and yardstick.run_variation_text and not yardstick.blockers:
        variation = yardstick.run_variation_text
        notes = [*notes, f"two starts of one command may be {variation}: `busbw ab` detects smaller differences"]
    if series.unchecked_count:
        notes.append(f"data not checked in {series.unchecked_count} of {series.figure_count} measurements")
    notes += series.table.warnings[:_MAX_NAMED_WARNINGS]
    by_expectation = selection.is_empty
    evidence = collect_evidence(series, yardstick, context, system, refused_count, by_expectation=by_expectation)
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
