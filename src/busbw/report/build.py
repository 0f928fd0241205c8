"""From logs to a page: what was run on what, what to think of it, and everything that a reader may ask next."""

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
"""Configurations with pictures in one page; it would be slow to open beyond."""
MAX_REFUSED = 200
_MAX_RANKS = 64


@dataclass(frozen=True)
class ReportInput:
    """A log and the system that was named for each of its tables, if one was."""

    log: Log
    systems: tuple[System | None, ...]
    judged: tuple[Table, ...] = ()
    """What decides in place of the log's own tables: where names were taken out of those, headings and tuning variables
    still say what to expect. Of these nothing is shown but what follows from them."""


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
        subjects: What it is about.
        against: A reference that decides in place of the expectation.
        warnings: Sentences about the whole, such as files of a folder that could not be read.
        title: The heading; without it the log's name, or how many there are.
        is_redacted: Whether names were taken out before; the page says so.
    """
    room = MAX_PICTURED
    parts = []
    for number, subject in enumerate(subjects, start=1):
        made = _log(subject, f"log-{number}", against, room)
        room -= sum(len(table.configurations) for table in made.tables)
        parts.append(made)
    shown = [configuration for made in parts for table in made.tables for configuration in table.configurations]
    grades: list[Grade] = [verdict.badge.word for one in shown for verdict in one.verdicts]  # type: ignore[misc]
    comparison, why_not = _of_two(subjects)
    titles = [made.title for made in parts]
    return Page(
        title=title or (titles[0] if len(titles) == 1 else count_text(len(titles), "log")),
        headline=headline(grades, len(subjects)),
        badge=Badge.of(worst(grades)),
        counts=tuple((Badge.of(grade), grades.count(grade)) for grade in _ORDER if grade in grades),
        summary=tuple(SummarySection(made.title, made.anchor, _summary(made)) for made in parts),
        comparison=comparison,
        logs=tuple(parts),
        warnings=(*warnings, *why_not),
        version=__version__,
        is_redacted=is_redacted,
    )


_ORDER: tuple[Grade, ...] = ("BROKEN", "SLOW", "GOOD", "UNSURE")


def _summary(made: LogSection) -> tuple[SummaryLine, ...]:
    def title(table: TableSection, verdict: VerdictView) -> str:
        return f"{table.title}: {verdict.title}" if len(made.tables) > 1 else verdict.title

    return summary_lines(
        (one.anchor, title(table, verdict), verdict)
        for table in made.tables
        for one in table.configurations
        for verdict in one.verdicts
    )


def _of_two(subjects: Sequence[ReportInput]) -> tuple[ComparisonSection | None, list[str]]:
    """Two logs are compared with each other; where that cannot be, why."""
    if len(subjects) != 2:
        return None, []
    try:
        return comparison_part(compare_logs(subjects[0].log, subjects[1].log), "comparison", has_curves=True), []
    except UsageError as error:
        return None, [f"The two logs are not compared: {error}"]


def _of_variants(log: Log, anchor: str) -> ComparisonSection | None:
    """A log that holds exactly two variants side by side is compared within itself."""
    if len({row.variant for row in log.rows if row.variant}) != 2:
        return None
    try:
        return comparison_part(compare_variants(log), anchor)
    except UsageError:
        return None  # the variants have no size in common: each stands for itself


def _log(subject: ReportInput, anchor: str, against: ReferenceSelection | None, room: int) -> LogSection:
    log = subject.log
    tables = []
    all_judged = subject.judged or log.tables
    for number, (table, judged, system) in enumerate(
        zip(log.tables, all_judged, subject.systems, strict=True), start=1
    ):
        place = TableContext(judged, system, against, is_pictured=room > 0)
        made = _table(table, place, f"{anchor}-table-{number}")
        room -= len(made.configurations)
        tables.append(made)
    refused = DataTable(
        caption=f"Refused rows of {log.source}",
        columns=(ColumnHead("line"), ColumnHead("why", is_number=False), ColumnHead("text", is_number=False)),
        rows=tuple((str(one.line), one.reason, one.text) for one in log.refused[:MAX_REFUSED]),
        note=f"{len(log.refused) - MAX_REFUSED:,} more: busbw import lists all."
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
        comparison=_of_variants(log, f"{anchor}-comparison"),
    )


def _table(table: Table, place: TableContext, anchor: str) -> TableSection:
    made: list[ConfigurationSection] = configurations(place, anchor)
    ranks = table.ranks or next((row.ranks for row in table.rows if row.ranks), None)
    return TableSection(
        anchor=anchor,
        title=table.title or table.command or table.program or table.collective or "table",
        facts=_facts(table, place.known_system, ranks),
        topology=topology.picture(topology.layout(table, ranks, place.known_system), ranks),
        warnings=(*table.warnings, *_row_warnings(table)),
        configurations=tuple(made),
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
        ("held against", system.title if system else ""),
        ("library", table.library or ""),
        ("program", table.program_version or table.program or ""),
        ("command", table.command or ""),
        ("started", table.start_time or ""),
        ("came to its end", _end(table)),
        ("data", _data(table)),
        ("read as", f"{table.format}, from line {table.first_line}"),
        ("its own average", _claimed(table)),
    ]
    unknown = [
        name
        for name, value in named
        if not value and name in ("ranks", "hosts", "devices", "library", "program", "started")
    ]
    facts = [NamedValue(name, value) for name, value in named if value]
    return (*facts, NamedValue("not said", ", ".join(unknown))) if unknown else tuple(facts)


def _end(table: Table) -> str:
    if table.complete is None:
        return ""
    return "yes" if table.complete else f"no: {table.end_reason or 'the log ends early'}"


def _claimed(table: Table) -> str:
    claimed = table.claimed_average_busbw_gbps
    return "" if claimed is None else f"{claimed:g} GB/s over unlike sizes; no verdict rests on it"


def _data(table: Table) -> str:
    figures = [figure for row in table.rows for figure in row.figures.values()]
    checked = sum(figure.check == "checked" for figure in figures)
    wrong = sum(bool(figure.wrong_elements) for figure in figures)
    if wrong:
        return f"WRONG in {wrong} of {count_text(len(figures), 'measurement')}"
    if not checked:
        return "not checked, or the log does not say"
    return f"right in {'all' if checked == len(figures) else f'{checked} of'} {count_text(len(figures), 'measurement')}"


def _row_warnings(table: Table) -> list[str]:
    said: dict[str, list[int]] = {}
    for row in table.rows:
        for figure in row.figures.values():
            for sentence in figure.warnings:
                said.setdefault(sentence, []).append(row.line)
    return [
        f"line {lines[0]}{f' and {len(set(lines)) - 1} more' if len(set(lines)) > 1 else ''}: {sentence}"
        for sentence, lines in said.items()
    ]
