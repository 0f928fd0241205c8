"""Builds the page of `busbw report` from logs: facts, verdicts, configurations and comparisons.

A page has a section per log, which has a section per table, which has a section per configuration.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from busbw.compare import compare_logs, compare_variants
from busbw.errors import UsageError
from busbw.judge import GRADES, Grade, ReferenceSelection, count_refused_rows, worst
from busbw.judge.series_context import ContextFinder
from busbw.logs.late_ranks import late_ranks, other_warnings
from busbw.logs.log import Log, Table
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
from busbw.report.ratios import comparison_section
from busbw.report.verdicts import headline, severity_key, summary_lines
from busbw.system import System
from busbw.units import count_text

MAX_PICTURED = 80
"""Maximum number of configurations with pictures in one page, so that browsers open it fast."""
MAX_REFUSED = 200
"""Maximum number of refused rows that a section lists."""
_MAX_HOSTS = 64
"""Maximum number of host names in the facts of a table."""
_GRADE_ORDER: tuple[Grade, ...] = ("BROKEN", "SLOW", "GOOD", "UNSURE")
"""Order of the counts of grades."""
_LAST_KEY = (len(GRADES), 0.0)
"""Sort key that puts a log without a line in the summary after all others."""


@dataclass(frozen=True)
class ReportInput:
    """A log to report on, with the systems that the user named."""

    log: Log
    systems: tuple[System | None, ...]
    """System that the user named, for each table. None to derive it from the log."""
    judged: tuple[Table, ...] = ()
    """The redacted tables with their original titles and environments. Empty if the log is not redacted.

    Verdicts and expectations use these tables, because redaction removes titles and variables that affect both. The
    page shows neither the titles nor the environments.
    """
    sharp: bool = False
    """True if the user states that the network reduces."""
    find_causes: Callable[[Log], tuple[str, ...]] | None = None
    """Returns sentences on findings in the log that may explain its speed. Not called for a good log."""


def build(
    inputs: Sequence[ReportInput],
    *,
    selection: ReferenceSelection | None = None,
    warnings: Sequence[str] = (),
    title: str | None = None,
    is_redacted: bool = False,
) -> Page:
    """Makes the page.

    Args:
        inputs: Logs to report on.
        selection: Reference to judge by instead of the expectation; None for the expectation.
        warnings: Warnings about the whole page, such as files of a folder that could not be read.
        title: Heading. None for the log's name or the number of logs.
        is_redacted: True if the logs are redacted. A note on the page says so.
    """
    remaining_pictured = MAX_PICTURED
    sections = []
    for log_number, report_input in enumerate(inputs, start=1):
        section = _log_section(report_input, f"log-{log_number}", selection, remaining_pictured)
        remaining_pictured -= sum(len(table.configurations) for table in section.tables)
        sections.append(section)
    all_configurations = [
        configuration for section in sections for table in section.tables for configuration in table.configurations
    ]
    verdicts = [verdict for configuration in all_configurations for verdict in configuration.verdicts]
    grades: list[Grade] = [verdict.badge.word for verdict in verdicts]  # type: ignore[misc]
    comparison, comparison_warnings = _compare_two_logs(inputs)
    titles = [section.title for section in sections]
    return Page(
        title=title or (titles[0] if len(titles) == 1 else count_text(len(titles), "log")),
        headline=headline(grades, len(inputs)),
        badge=Badge.of(worst(grades)),
        counts=tuple((Badge.of(grade), grades.count(grade)) for grade in _GRADE_ORDER if grade in grades),
        summary=_summary_sections(sections),
        comparison=comparison,
        logs=tuple(sections),
        warnings=(*warnings, *comparison_warnings),
        is_redacted=is_redacted,
    )


def _summary_sections(sections: Sequence[LogSection]) -> tuple[SummarySection, ...]:
    """Makes the summary of all logs. The log with the worst line is the first."""
    summaries = [SummarySection(section.title, section.anchor, _summary_lines(section)) for section in sections]
    return tuple(sorted(summaries, key=lambda summary: min(map(severity_key, summary.lines), default=_LAST_KEY)))


def _summary_lines(section: LogSection) -> tuple[SummaryLine, ...]:
    def verdict_title(table: TableSection, verdict: VerdictView) -> str:
        return f"{table.title}: {verdict.title}" if len(section.tables) > 1 else verdict.title

    return summary_lines(
        (configuration.anchor, verdict_title(table, verdict), verdict)
        for table in section.tables
        for configuration in table.configurations
        for verdict in configuration.verdicts
    )


def _compare_two_logs(inputs: Sequence[ReportInput]) -> tuple[ComparisonSection | None, list[str]]:
    """Compares the logs if there are two. Returns the section, and a warning if they are not comparable."""
    if len(inputs) != 2:
        return None, []
    try:
        return comparison_section(compare_logs(inputs[0].log, inputs[1].log), "comparison", has_curves=True), []
    except UsageError as error:
        return None, [f"The two logs are not compared: {error}"]


def _compare_two_variants(log: Log, anchor: str) -> ComparisonSection | None:
    """Compares the variants of a log that has exactly two. None otherwise."""
    if len({row.variant for row in log.iterate_rows() if row.variant}) != 2:
        return None
    try:
        return comparison_section(compare_variants(log), anchor)
    except UsageError:
        return None  # not comparable, for example because no size is common


def _log_section(
    report_input: ReportInput, anchor: str, selection: ReferenceSelection | None, remaining_pictured: int
) -> LogSection:
    """Makes the section of a log. `remaining_pictured`: number of configurations that the page may still picture."""
    log, sharp = report_input.log, report_input.sharp
    tables = []
    judged_tables = report_input.judged or log.tables
    refused_counts = count_refused_rows(log)
    finder_by_system_id: dict[int, ContextFinder] = {}  # a system has no hash
    for table_number, (table, judged_table, system) in enumerate(
        zip(log.tables, judged_tables, report_input.systems, strict=True), start=1
    ):
        if id(system) not in finder_by_system_id:
            finder_by_system_id[id(system)] = ContextFinder(
                system, None, selection or ReferenceSelection(), sharp=sharp
            )
        context = TableContext(
            judged_table,
            system,
            selection,
            is_pictured=remaining_pictured > 0,
            sharp=sharp,
            refused_count=refused_counts[table.first_line],
            context_finder=finder_by_system_id[id(system)],
        )
        section = _table_section(table, context, f"{anchor}-table-{table_number}")
        remaining_pictured -= len(section.configurations)
        tables.append(section)
    configuration_sections = [configuration for table in tables for configuration in table.configurations]
    grades = {verdict.badge.word for configuration in configuration_sections for verdict in configuration.verdicts}
    is_good = grades == {"GOOD"}
    return LogSection(
        anchor=anchor,
        title="standard input" if log.source == "-" else log.source,
        coverage=f"{log.row_count:,} of {count_text(max(log.candidate_rows, log.row_count), 'row')} read, "
        f"{count_text(len(log.refused), 'line')} refused",
        tables=tuple(tables),
        warnings=log.warnings,
        causes=report_input.find_causes(log) if report_input.find_causes and not is_good else (),
        refused=_refused_rows_table(log),
        comparison=_compare_two_variants(log, f"{anchor}-comparison"),
    )


def _refused_rows_table(log: Log) -> DataTable | None:
    if not log.refused:
        return None
    hidden_count = len(log.refused) - MAX_REFUSED
    return DataTable(
        caption=f"Refused rows of {log.source}",
        columns=(ColumnHead("line"), ColumnHead("reason", is_number=False), ColumnHead("text", is_number=False)),
        rows=tuple((str(refusal.line), refusal.reason, refusal.text) for refusal in log.refused[:MAX_REFUSED]),
        note=f"{hidden_count:,} more; `busbw import` lists all." if hidden_count > 0 else "",
    )


def _table_section(table: Table, context: TableContext, anchor: str) -> TableSection:
    sections: list[ConfigurationSection] = configurations(context, anchor)
    ranks = table.ranks or next((row.ranks for row in table.rows if row.ranks), None)
    return TableSection(
        anchor=anchor,
        title=table.title or table.command or table.program or table.collective or "table",
        facts=_facts(table, context.known_system, ranks),
        warnings=(*table.warnings, *(late.text for late in late_ranks(table.rows)), *_row_warnings(table)),
        configurations=tuple(sections),
        settings=tuple(NamedValue(name, value) for name, value in table.settings.items()),
        environment=tuple(NamedValue(name, value) for name, value in table.environment.items()),
    )


def _facts(table: Table, system: System | None, ranks: int | None) -> tuple[NamedValue, ...]:
    collectives = list(dict.fromkeys(table.collective_of(row) for row in table.rows))
    hosts = table.hosts
    values = [
        ("collective", ", ".join(name for name in collectives if name)),
        ("ranks", f"{ranks:,}" if ranks else ""),
        ("ranks known from", table.settings.get("ranks from", "")),
        ("hosts", f"{len(hosts)}: {', '.join(hosts[:_MAX_HOSTS])}" if hosts else ""),
        ("devices", ", ".join(table.devices)),
        ("compared with", system.title if system else ""),
        ("links of such systems", _links_text(system) if system else ""),
        ("library", table.library or ""),
        ("program", table.program_version or table.program or ""),
        ("command", table.command or ""),
        ("started", table.start_time or ""),
        ("complete", _completion_text(table)),
        ("data", _check_text(table)),
        ("format", f"{table.format}, from line {table.first_line}"),
        ("average in the log", _claimed_average_text(table)),
    ]
    missing_names = [
        name
        for name, value in values
        if not value and name in ("ranks", "hosts", "devices", "library", "program", "started")
    ]
    values.append(("not stated", ", ".join(missing_names)))
    return tuple(NamedValue(name, value) for name, value in values if value)


def _links_text(system: System) -> str:
    """Returns the links between the devices of a node, and the NICs of a node. Empty if both are unknown."""
    texts = [system.nics.text + " per node"] if system.nics else []
    if system.fabrics:
        fabric = system.fabrics[0]
        rate = f", {fabric.spec_gbps.value:g} GB/s each way per device" if fabric.spec_gbps.value else ""
        texts.insert(0, f"{fabric.kind}, {fabric.layout}{rate}")
    return "; ".join(texts)


def _completion_text(table: Table) -> str:
    if table.complete is None:
        return ""
    return "yes" if table.complete else f"no: {table.end_reason or table.early_end_text}"


def _claimed_average_text(table: Table) -> str:
    claimed = table.claimed_average_busbw_gbps
    return "" if claimed is None else f"{claimed:g} GB/s over different sizes; not used for a verdict"


def _check_text(table: Table) -> str:
    figures = [figure for row in table.rows for figure in row.figures.values()]
    checked = sum(figure.check == "checked" for figure in figures)
    wrong = sum(bool(figure.wrong_elements) for figure in figures)
    if wrong:
        return f"WRONG in {wrong} of {count_text(len(figures), 'measurement')}"
    if not checked:
        return "not checked, or not stated in the log"
    share_text = "all" if checked == len(figures) else f"{checked} of"
    return f"right in {share_text} {count_text(len(figures), 'measurement')}"


def _row_warnings(table: Table) -> list[str]:
    """Returns the warnings of all rows, each with its first line and the number of other lines."""
    lines_by_warning: dict[str, list[int]] = {}
    for row in table.rows:
        for figure in row.figures.values():
            for sentence in other_warnings(figure):
                lines_by_warning.setdefault(sentence, []).append(row.line)
    warnings = []
    for sentence, lines in lines_by_warning.items():
        other_count = len(set(lines)) - 1
        others_text = f" and {other_count} more" if other_count else ""
        warnings.append(f"line {lines[0]}{others_text}: {sentence}")
    return warnings
