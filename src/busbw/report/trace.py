"""Builds the page of a trace: findings, changes, the timeline of one step, and the tables of operations and ranks."""

from collections.abc import Iterator, Sequence

from busbw import __version__
from busbw.report.page import (
    Badge,
    ColumnHead,
    ConfigurationSection,
    DataTable,
    LogSection,
    NamedValue,
    Page,
    SummaryLine,
    SummarySection,
    TableSection,
)
from busbw.report.timeline import timeline_picture
from busbw.traces.analysis import TraceAnalysis
from busbw.traces.analysis.text import TextColumn, fact_texts, operation_columns, rank_columns, saving_text
from busbw.traces.analysis.timeline import Timeline
from busbw.units import count_text, milliseconds_text

_ANCHOR = "trace"
_MAX_ROWS = 500
_MARKS = {"measured": "\N{CHECK MARK}", "predicted": "\N{ALMOST EQUAL TO}"}


def build_trace(
    analysis: TraceAnalysis, timeline: Timeline | None, *, title: str | None = None, is_redacted: bool = False
) -> Page:
    """Makes the page of a trace. `timeline`: None without device times. The heading is the trace's name by default."""
    name = title or analysis.name
    labels = [group.label for group in analysis.groups]
    configurations = [
        ConfigurationSection(
            anchor=f"{_ANCHOR}-timeline",
            title="Timeline",
            verdicts=(),
            pictures=(timeline_picture(timeline, labels),) if timeline and timeline.lanes else (),
            grid=None,
            omissions=analysis.notes,
        ),
        _table_section("operations", f"Operations per {analysis.period}", operation_columns(analysis, _MAX_ROWS)),
        _table_section("ranks", f"Ranks, means per {analysis.period}", rank_columns(analysis, _MAX_ROWS)),
    ]
    section = TableSection(
        anchor=f"{_ANCHOR}-steps",
        title="Recording",
        facts=tuple(NamedValue(fact, text) for fact, text in fact_texts(analysis)),
        topology=None,
        warnings=(),
        configurations=tuple(configurations),
        settings=(),
        environment=(),
    )
    coverage = f"{count_text(analysis.operations, 'operation')} of {count_text(analysis.recorded_ranks, 'rank')}"
    log = LogSection(_ANCHOR, name, coverage, (section,), analysis.problems, causes=(), refused=None, comparison=None)
    is_timed = any(row.time_us is not None for row in analysis.rows)
    badge = Badge.of("SLOW") if analysis.findings else Badge.of("UNSURE")
    return Page(
        title=name,
        headline=_headline(analysis, is_timed=is_timed),
        badge=badge,
        counts=((badge, len(analysis.findings)),) if analysis.findings else (),
        summary=(SummarySection(name, _ANCHOR, tuple(_summary_lines(analysis, section.anchor))),),
        comparison=None,
        logs=(log,),
        warnings=(),
        version=__version__,
        is_redacted=is_redacted,
    )


def _headline(analysis: TraceAnalysis, *, is_timed: bool) -> str:
    steps = analysis.steps
    step = f"A step takes {milliseconds_text(steps.median_us)}. " if steps and steps.median_us is not None else ""
    if analysis.findings:
        text = analysis.findings[0].text
        return f"{step}{text[0].upper()}{text[1:]}."
    if not is_timed:
        return f"{step}Without device times, no late rank and no slow communicator can be found."
    return f"{step}No late rank and no slow communicator was found."


def _summary_lines(analysis: TraceAnalysis, anchor: str) -> Iterator[SummaryLine]:
    for finding in analysis.findings:
        yield SummaryLine(Badge.of("SLOW"), finding.text, anchor, (), "")
    for change in analysis.changes:
        saving = f"{change.text}: {saving_text(change, analysis.period)}"
        badge = Badge(change.basis.upper(), "unsure", _MARKS[change.basis])
        yield SummaryLine(badge, saving, anchor, (), f"Assumes: {change.assumption}.")


def _table_section(name: str, title: str, columns: Sequence[TextColumn]) -> ConfigurationSection:
    used = [column for column in columns if any(column.cells)]
    return ConfigurationSection(
        anchor=f"{_ANCHOR}-{name}",
        title=title,
        verdicts=(),
        pictures=(),
        grid=DataTable(
            title,
            tuple(ColumnHead(column.name, column.is_number) for column in used),
            tuple(zip(*(column.cells for column in used), strict=True)),
        ),
        is_open=True,
    )
