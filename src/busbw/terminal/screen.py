"""Terminal view of a log: description of the run, correctness of the data, table, plots and warnings.

`busbw show` prints this view. A figure has the measured values of one placement of a row (logs.py).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from textwrap import wrap

from rich.text import Text

from busbw.collectives import COMM_OPS
from busbw.logs.late_ranks import LateRank, late_ranks, other_warnings
from busbw.logs.log import PLACEMENT_WORDS, Figure, Log, Placement, Row, Table
from busbw.logs.plain_rows import PlainRows, field_values, have_wrong_data, row_chunks, rows_with_details
from busbw.logs.sequences import map_sequence
from busbw.terminal.comm_ops_view import CommOpsView
from busbw.terminal.sizes_view import ExpectationColumns, SizesView, shared_value
from busbw.terminal.tables import table_lines
from busbw.units import count_text, names_text, plain

MAX_TABLES = 50
"""Maximum number of tables that are shown if the user selects none."""
MAX_ROWS = 2000
"""Maximum number of rows of a table that are shown."""
_MAX_HOSTS = 3
"""Maximum number of hosts that the heading names."""

_MAX_GROUPS = 16
"""Maximum number of groups that the heading describes."""

_MAX_SENTENCES = 8
"""Maximum number of sentences that are shown of one kind, such as warnings."""


def log_lines(
    log: Log,
    *,
    width: int,
    expected: Callable[[Table], ExpectationColumns] | None = None,
    draw: bool = True,
    numbers: Sequence[int] | None = None,
) -> Iterator[Text]:
    """Yields the lines that describe a log. A long log is cut to its first tables, a long table to its first rows.

    Args:
        log: Log to show.
        width: Width of the terminal in columns.
        expected: Returns the expectations for a table. None to omit the column of the expected busbw.
        draw: True to draw plots.
        numbers: Numbers of the tables to show, from 1. None for the first MAX_TABLES.
    """
    shown_numbers = numbers or range(1, MAX_TABLES + 1)
    hidden_count = hidden_wrong_count = 0
    has_output = False
    for number, table in enumerate(log.tables, start=1):
        if number not in shown_numbers:
            if not numbers:  # otherwise no line is about hidden tables, so their rows are not read
                hidden_count += 1
                if have_wrong_data(table.rows):
                    hidden_wrong_count += 1
            continue
        if has_output:
            yield Text()
        has_output = True
        prefix = f"table {number} of {len(log.tables)}, line {table.first_line}: " if len(log.tables) > 1 else ""
        expectation = expected(table) if expected else ExpectationColumns()
        yield from _wrap_lines(_table_output(table, prefix, expectation, width, draw=draw), width)
    hidden_lines = _hidden_tables_lines(hidden_count, hidden_wrong_count)
    refusals = map_sequence(lambda refusal: f"line {refusal.line}: {refusal.reason}", log.refused)
    warnings = _sentences("warning", log.warnings, "yellow")
    yield from _wrap_lines([*hidden_lines, *warnings, *_sentences("left out", refusals, "yellow")], width)


def _table_output(
    table: Table, title_prefix: str, expectation: ExpectationColumns, width: int, *, draw: bool
) -> Iterator[str | Text]:
    """Yields the lines that describe a table. Sentences are not wrapped yet."""
    view = CommOpsView(table) if table.collective == COMM_OPS else SizesView(table, expectation)
    yield from _heading(table, title_prefix + view.title)
    yield _correctness_line(table)
    yield from _sentences("late", [late.text for late in _late_ranks(table)], "yellow")
    shown_rows = table.rows[:MAX_ROWS]
    if shown_rows:
        yield ""
        yield from table_lines(view.columns(shown_rows), width)
    if len(table.rows) > len(shown_rows):
        more_text = count_text(len(table.rows) - len(shown_rows), "more row")
        yield Text(f"and {more_text}; `busbw export csv` writes all", "yellow")
    assumptions = dict.fromkeys(filter(None, map(expectation.assumption, shown_rows)))
    for assumption in assumptions:
        yield Text(f"expected: {plain(assumption)}", "dim")
    if draw:
        yield from view.plots(width)
    yield from _sentences("warning", [*table.warnings, *_row_warnings(table)], "yellow")


def _late_ranks(table: Table) -> tuple[LateRank, ...]:
    size_count = len(set(field_values(table.rows, "size_bytes")))
    return late_ranks(rows_with_details(table.rows), size_count)


def _hidden_tables_lines(count: int, wrong_count: int) -> list[str | Text]:
    """Returns the lines on the hidden tables, because wrong data in these tables must not be overlooked."""
    if not count:
        return []
    style = "bold red" if wrong_count else "yellow"
    wrong_text = f", {wrong_count:,} of them with WRONG data" if wrong_count else ""
    return ["", Text(f"and {count_text(count, 'more table')}{wrong_text}; --table N shows one", style)]


def _wrap_lines(lines: Iterable[str | Text], width: int) -> Iterator[Text]:
    """Wraps sentences, and indents their second and later lines by two. Tables and plots already fit the width."""
    for line in lines:
        text = Text(line) if isinstance(line, str) else line
        if text.cell_len <= width:
            yield text
            continue
        for part in wrap(text.plain, width, subsequent_indent="  ", break_on_hyphens=False):
            yield Text(part, style=text.style)


def _correctness_line(table: Table) -> Text:
    """Returns the line that states whether the data of the table are correct, and how an incomplete run ended."""
    plain_row_count = sum(len(chunk) for chunk in row_chunks(table.rows) if isinstance(chunk, PlainRows))
    # A plain row has both placements, checked and right. `rows_with_details` yields all other rows.
    measurement_count = checked_count = 2 * plain_row_count
    wrong_count = 0
    first_wrong_text = ""
    for row in rows_with_details(table.rows):
        for placement, figure in row.figures.items():
            measurement_count += 1
            if figure.check == "checked":
                checked_count += 1
            if figure.wrong_elements:
                wrong_count += 1
                first_wrong_text = first_wrong_text or _wrong_case_text(row, placement, figure)
    end = f"; {plain(table.early_end_text)}" if table.early_end_text else ""
    if measurement_count == 0:
        return Text(f"data: no row{end}", style="red")
    if wrong_count:
        wrong_text = f"WRONG in {wrong_count} of {measurement_count} measurements: {first_wrong_text}"
        return Text(f"data: {wrong_text}{end}", "bold red")
    if checked_count == measurement_count:
        all_text = count_text(checked_count, "measurement")
        return Text(f"data: right in all {all_text}{end}", style="yellow" if end else "green")
    if checked_count:
        checked_text = f"{checked_count} of {measurement_count} measurements that were checked"
        return Text(f"data: right in the {checked_text}{end}", style="yellow")
    return Text(f"data: not checked, or not stated in the log{end}", style="yellow")


def _wrong_case_text(row: Row, placement: Placement, figure: Figure) -> str:
    """Describes a measurement with wrong data: size, type, placement, number of wrong elements and the first one."""
    case = plain(" ".join(filter(None, [row.label, row.dtype, PLACEMENT_WORDS[placement]])))
    first_wrong = figure.first_wrong[0] if figure.first_wrong else None
    location = f", first at rank {first_wrong.rank}, index {first_wrong.index}" if first_wrong else ""
    return f"{case} ({count_text(figure.wrong_elements or 0, 'element')}{location})"


def _heading(table: Table, title: str) -> list[Text]:
    """Describes the run: title, ranks with hosts, library and format."""
    heading = [Text(plain(title), style="bold")]
    if table.title:
        heading.append(Text(plain(table.title)))
    ranks = table.ranks or shared_value(table, "ranks")
    ranks_text = count_text(ranks, "rank") if ranks else "unknown number of ranks"
    if hosts := table.hosts:
        ranks_text += f" on {count_text(len(hosts), 'host')} ({names_text(hosts, _MAX_HOSTS)})"
    if table.devices:
        ranks_text += f", {', '.join(table.devices)}"
    heading.append(Text(plain(f"ran: {ranks_text}")))
    heading += _group_lines(table)
    sources = [table.library, table.program_version, table.start_time, f"format {table.format}"]
    heading.append(Text(plain("by:  " + ", ".join(source for source in sources if source))))
    return heading


def _group_lines(table: Table) -> list[Text]:
    """Describes each group: its ranks and hosts. Empty if all ranks form one group."""
    hosts_by_group = table.hosts_by_group
    if len(hosts_by_group) < 2:
        return []
    lines = []
    for group, hosts in sorted(hosts_by_group.items())[:_MAX_GROUPS]:
        ranks_text = count_text(sum(rank.group == group for rank in table.rank_list), "rank")
        hosts_text = f" on {names_text(hosts, _MAX_HOSTS)}" if hosts else ""
        lines.append(Text(plain(f"group {group}: {ranks_text}{hosts_text}")))
    if len(hosts_by_group) > _MAX_GROUPS:
        lines.append(Text(f"and {len(hosts_by_group) - _MAX_GROUPS} more groups"))
    return lines


def _row_warnings(table: Table) -> list[str]:
    """Returns each distinct warning of the measurements, with its first size and the number of other measurements."""
    first_cases: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for row in rows_with_details(table.rows):
        for placement, figure in row.figures.items():
            for warning in other_warnings(figure):
                case = " ".join(filter(None, [row.label, PLACEMENT_WORDS[placement]]))
                first_cases.setdefault(warning, case)
                counts[warning] += 1
    texts = []
    for warning, case in first_cases.items():
        more = f" and {counts[warning] - 1} more" if counts[warning] > 1 else ""
        texts.append(f"{case}{more}: {warning}")
    return texts


def _sentences(kind: str, sentences: Sequence[str], style: str) -> list[Text]:
    texts = [Text(f"{kind}: {plain(sentence)}", style=style) for sentence in sentences[:_MAX_SENTENCES]]
    hidden_count = len(sentences) - _MAX_SENTENCES
    if hidden_count > 0:
        texts.append(Text(f"{kind}: and {hidden_count} more (busbw import shows all)", style=style))
    return texts
