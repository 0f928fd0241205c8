"""Builds the page of a trace: findings, changes, the timeline of one step, and the tables of operations and ranks."""

from collections.abc import Iterator, Sequence

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
from busbw.terminal.tables import Column
from busbw.traces.analysis import TraceAnalysis
from busbw.traces.analysis.text import fact_texts, operation_columns, rank_columns, saving_text
from busbw.traces.analysis.timeline import Timeline
from busbw.units import count_text, milliseconds_text

_ANCHOR = "trace"
_MAX_ROWS = 500
_MARKS = {"measured": "\N{CHECK MARK}", "predicted": "\N{ALMOST EQUAL TO}"}
"""Mark of a saving by its basis."""


def build_trace(
    analysis: TraceAnalysis, timeline: Timeline | None, *, title: str | None = None, is_redacted: bool = False
) -> Page:
    """Makes the page of a trace. `timeline`: None without device times. The heading is the trace's name by default."""
    name = title or analysis.name
    labels = [group.label for group in analysis.groups]
    # The timeline and each table take the place of a configuration of a log.
    configurations = [
        ConfigurationSection(
            anchor=f"{_ANCHOR}-timeline",
            title="Timeline",
            pictures=(timeline_picture(timeline, labels),) if timeline and timeline.lanes else (),
            omissions=analysis.notes,
        ),
        _table_section(f"Operations per {analysis.period}", operation_columns(analysis, _MAX_ROWS), len(analysis.rows)),
        _table_section(f"Ranks, means per {analysis.period}", rank_columns(analysis, _MAX_ROWS), len(analysis.ranks)),
    ]
    section = TableSection(
        anchor=f"{_ANCHOR}-steps",
        title="Recording",
        facts=tuple(NamedValue(fact, text) for fact, text in fact_texts(analysis)),
        configurations=tuple(configurations),
    )
    coverage = f"{count_text(analysis.operations, 'operation')} of {count_text(analysis.recorded_ranks, 'rank')}"
    log = LogSection(_ANCHOR, name, coverage, (section,), warnings=analysis.problems)
    # A trace has no expectation, so a trace without findings is UNSURE and never GOOD.
    badge = Badge.of("SLOW") if analysis.findings else Badge.of("UNSURE")
    return Page(
        title=name,
        headline=_headline(analysis),
        badge=badge,
        counts=((badge, len(analysis.findings)),) if analysis.findings else (),
        summary=(SummarySection(name, _ANCHOR, tuple(_summary_lines(analysis, section.anchor))),),
        logs=(log,),
        is_redacted=is_redacted,
    )


def _headline(analysis: TraceAnalysis) -> str:
    steps = analysis.steps
    step = f"A step takes {milliseconds_text(steps.median_us)}. " if steps and steps.median_us is not None else ""
    if analysis.findings:
        text = analysis.findings[0].text
        return f"{step}{text[0].upper()}{text[1:]}."
    is_known = any(rank.late_us is not None for rank in analysis.ranks)
    return f"{step}{'No late rank was found' if is_known else 'Late ranks are unknown'}."


def _summary_lines(analysis: TraceAnalysis, anchor: str) -> Iterator[SummaryLine]:
    for finding in analysis.findings:
        yield SummaryLine(badge=Badge.of("SLOW"), title=finding.text, anchor=anchor, bands=(), reason="")
    for change in analysis.changes:
        saving = f"{change.text}: {saving_text(change, analysis.period)}"
        badge = Badge(change.basis.upper(), "unsure", _MARKS[change.basis])
        reason = f"Assumes: {change.assumption}."
        yield SummaryLine(badge=badge, title=saving, anchor=anchor, bands=(), reason=reason)


def _table_section(title: str, columns: Sequence[Column], row_count: int) -> ConfigurationSection:
    columns_with_cells = [column for column in columns if any(column.cells)]
    heads = tuple(ColumnHead(column.name, column.is_number) for column in columns_with_cells)
    rows = tuple(zip(*(map(str, column.cells) for column in columns_with_cells), strict=True))
    note = f"{len(rows):,} of {count_text(row_count, 'row')}" if len(rows) < row_count else ""
    anchor = f"{_ANCHOR}-{title.split()[0].strip(',').lower()}"
    grid = DataTable(caption=title, columns=heads, rows=rows, note=note)
    return ConfigurationSection(anchor=anchor, title=title, grid=grid, is_open=True)
