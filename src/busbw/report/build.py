"""Builds a page from logs: facts, verdicts, configurations and comparisons."""

from collections.abc import Sequence
from dataclasses import dataclass

from busbw import __version__
from busbw.compare import compare_logs, compare_variants
from busbw.errors import UsageError
from busbw.judge import Grade, ReferenceSelection, worst
from busbw.logs import Log, Table
from busbw.report import topology
from busbw.report.configurations import TableContext, configurations
from busbw.report.page import (
    Badge,
    ColumnHead,
    ComparisonSection,
    ConfigurationSection,
    DataTable,
    LogSection,
    NamedValue,
    Page,
    SummaryLine,
    SummarySection,
    TableSection,
    VerdictView,
)
from busbw.report.ratios import comparison_section as comparison_part
from busbw.report.verdicts import headline, summary_lines
from busbw.system import System
from busbw.units import count_text

MAX_PICTURED = 80
"""Maximum number of configurations with pictures in one page, so that browsers open it fast."""
MAX_REFUSED = 200
_MAX_RANKS = 64


@dataclass(frozen=True)
class ReportInput:
    """A log and, for each of its tables, the system that the user named."""

    log: Log
    systems: tuple[System | None, ...]
    judged: tuple[Table, ...] = ()
    """Original tables of a redacted log, used for verdicts and expectations. Their texts are not shown.

    Headings and tuning variables that redaction removes affect the expectation. Empty: use the log's own tables.
    """


def build(
    subjects: Sequence[ReportInput],
    *,
    against: ReferenceSelection | None = None,
    warnings: Sequence[str] = (),
    title: str | None = None,
    is_redacted: bool = False,
) -> Page:
    """Makes the page.

    Args:
        subjects: Logs to report on.
        against: Reference to judge by instead of the expectation.
        warnings: Warnings about the whole page, such as files of a folder that could not be read.
        title: Heading. None for the log's name or the number of logs.
        is_redacted: True if names were removed before. The page then says so.
    """
    remaining = MAX_PICTURED
    sections = []
    for number, subject in enumerate(subjects, start=1):
        section = _log(subject, f"log-{number}", against, remaining)
        remaining -= sum(len(table.configurations) for table in section.tables)
        sections.append(section)
    shown = [one for section in sections for table in section.tables for one in table.configurations]
    grades: list[Grade] = [verdict.badge.word for one in shown for verdict in one.verdicts]  # type: ignore[misc]
    comparison, comparison_warnings = _compare_two(subjects)
    titles = [section.title for section in sections]
    return Page(
        title=title or (titles[0] if len(titles) == 1 else count_text(len(titles), "log")),
        headline=headline(grades, len(subjects)),
        badge=Badge.of(worst(grades)),
        counts=tuple((Badge.of(grade), grades.count(grade)) for grade in _ORDER if grade in grades),
        summary=tuple(SummarySection(section.title, section.anchor, _summary(section)) for section in sections),
        comparison=comparison,
        logs=tuple(sections),
        warnings=(*warnings, *comparison_warnings),
        version=__version__,
        is_redacted=is_redacted,
    )


_ORDER: tuple[Grade, ...] = ("BROKEN", "SLOW", "GOOD", "UNSURE")


def _summary(section: LogSection) -> tuple[SummaryLine, ...]:
    def title(table: TableSection, verdict: VerdictView) -> str:
        return f"{table.title}: {verdict.title}" if len(section.tables) > 1 else verdict.title

    return summary_lines(
        (one.anchor, title(table, verdict), verdict)
        for table in section.tables
        for one in table.configurations
        for verdict in one.verdicts
    )


def _compare_two(subjects: Sequence[ReportInput]) -> tuple[ComparisonSection | None, list[str]]:
    """Compares two logs. Returns a warning if they are not comparable, and nothing for any other number of logs."""
    if len(subjects) != 2:
        return None, []
    try:
        return comparison_part(compare_logs(subjects[0].log, subjects[1].log), "comparison", has_curves=True), []
    except UsageError as error:
        return None, [f"The two logs are not compared: {error}"]


def _compare_two_variants(log: Log, anchor: str) -> ComparisonSection | None:
    """Compares the variants of a log that has exactly two. None otherwise."""
    if len({row.variant for row in log.rows if row.variant}) != 2:
        return None
    try:
        return comparison_part(compare_variants(log), anchor)
    except UsageError:
        return None  # the variants have no size in common


def _log(subject: ReportInput, anchor: str, against: ReferenceSelection | None, remaining: int) -> LogSection:
    log = subject.log
    tables = []
    all_judged = subject.judged or log.tables
    for number, (table, judged, system) in enumerate(
        zip(log.tables, all_judged, subject.systems, strict=True), start=1
    ):
        context = TableContext(judged, system, against, is_pictured=remaining > 0)
        section = _table(table, context, f"{anchor}-table-{number}")
        remaining -= len(section.configurations)
        tables.append(section)
    refused = DataTable(
        caption=f"Refused rows of {log.source}",
        columns=(ColumnHead("line"), ColumnHead("reason", is_number=False), ColumnHead("text", is_number=False)),
        rows=tuple((str(one.line), one.reason, one.text) for one in log.refused[:MAX_REFUSED]),
        note=f"{len(log.refused) - MAX_REFUSED:,} more; `busbw import` lists all."
        if len(log.refused) > MAX_REFUSED
        else "",
    )
    return LogSection(
        anchor=anchor,
        title="standard input" if log.source == "-" else log.source,
        coverage=f"{len(log.rows):,} of {count_text(max(log.candidate_rows, len(log.rows)), 'row')} read, "
        f"{count_text(len(log.refused), 'line')} refused",
        tables=tuple(tables),
        warnings=log.warnings,
        refused=refused if log.refused else None,
        comparison=_compare_two_variants(log, f"{anchor}-comparison"),
    )


def _table(table: Table, context: TableContext, anchor: str) -> TableSection:
    sections: list[ConfigurationSection] = configurations(context, anchor)
    ranks = table.ranks or next((row.ranks for row in table.rows if row.ranks), None)
    return TableSection(
        anchor=anchor,
        title=table.title or table.command or table.program or table.collective or "table",
        facts=_facts(table, context.known_system, ranks),
        topology=topology.picture(topology.layout(table, ranks, context.known_system), ranks),
        warnings=(*table.warnings, *_row_warnings(table)),
        configurations=tuple(sections),
        settings=tuple(NamedValue(name, value) for name, value in table.settings.items()),
        environment=tuple(NamedValue(name, value) for name, value in table.environment.items()),
    )


def _facts(table: Table, system: System | None, ranks: int | None) -> tuple[NamedValue, ...]:
    collectives = list(dict.fromkeys(table.collective_of(row) for row in table.rows))
    hosts = table.hosts
    named = [
        ("collective", ", ".join(name for name in collectives if name)),
        ("ranks", f"{ranks:,}" if ranks else ""),
        ("ranks known from", table.settings.get("ranks from", "")),
        ("hosts", f"{len(hosts)}: {', '.join(hosts[:_MAX_RANKS])}" if hosts else ""),
        ("devices", ", ".join(table.devices)),
        ("compared with", system.title if system else ""),
        ("library", table.library or ""),
        ("program", table.program_version or table.program or ""),
        ("command", table.command or ""),
        ("started", table.start_time or ""),
        ("complete", _end(table)),
        ("data", _data(table)),
        ("format", f"{table.format}, from line {table.first_line}"),
        ("average in the log", _claimed(table)),
    ]
    unknown = [
        name
        for name, value in named
        if not value and name in ("ranks", "hosts", "devices", "library", "program", "started")
    ]
    facts = [NamedValue(name, value) for name, value in named if value]
    return (*facts, NamedValue("not stated", ", ".join(unknown))) if unknown else tuple(facts)


def _end(table: Table) -> str:
    if table.complete is None:
        return ""
    return "yes" if table.complete else f"no: {table.end_reason or 'the log ends early'}"


def _claimed(table: Table) -> str:
    claimed = table.claimed_average_busbw_gbps
    return "" if claimed is None else f"{claimed:g} GB/s over different sizes; not used for a verdict"


def _data(table: Table) -> str:
    figures = [figure for row in table.rows for figure in row.figures.values()]
    checked = sum(figure.check == "checked" for figure in figures)
    wrong = sum(bool(figure.wrong_elements) for figure in figures)
    if wrong:
        return f"WRONG in {wrong} of {count_text(len(figures), 'measurement')}"
    if not checked:
        return "not checked, or not stated in the log"
    return f"right in {'all' if checked == len(figures) else f'{checked} of'} {count_text(len(figures), 'measurement')}"


def _row_warnings(table: Table) -> list[str]:
    lines_by_warning: dict[str, list[int]] = {}
    for row in table.rows:
        for figure in row.figures.values():
            for sentence in figure.warnings:
                lines_by_warning.setdefault(sentence, []).append(row.line)
    return [
        f"line {lines[0]}{f' and {len(set(lines)) - 1} more' if len(set(lines)) > 1 else ''}: {sentence}"
        for sentence, lines in lines_by_warning.items()
    ]
