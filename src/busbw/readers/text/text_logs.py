"""Reads text line by line: tables of nccl-tests and similar tools within any other output, and published tables.

Each line is unwrapped and then classified as a row, a part of a broken row, a line of a cell grid, or a remark. A cell
grid is a Markdown or HTML table. A remark is any other line, such as a header. A wrapper such as the prefix
`[1,0]<stdout>:` identifies the writer, the process that wrote the line. Each writer has its own table assembler. Only
the open tables are kept in memory.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

import msgspec

from busbw.logs import Refusal, Table
from busbw.readers.lines.cut_lines import CutRule, find_cut_rule
from busbw.readers.lines.line_stream import LineStream
from busbw.readers.lines.long_lines import move_cuts
from busbw.readers.lines.source import LogSource
from busbw.readers.other_tables import hccl, plain_tables
from busbw.readers.other_tables.grids import CellGrid, GridCollector
from busbw.readers.other_tables.plain_tables import PlainTable
from busbw.readers.other_tables.published_tables import (
    MAX_HEADER_ROWS,
    begins_with_size,
    find_header,
    read_published_tables,
)
from busbw.readers.tables import headers, layouts
from busbw.readers.tables.assembly import TableAssembler
from busbw.readers.tables.context import DocumentContext
from busbw.readers.tables.events import Event, LogNote, TableChunk, UserClaims
from busbw.readers.tables.quantities import DTYPES, is_value, parse_integer
from busbw.readers.tables.split_rows import WORD_COUNT, SplitRow, has_row_form
from busbw.readers.tables.uniform_rows import ROW_ENDS, UniformRows, parse_uniform_rows
from busbw.readers.tables.unrelated_lines import is_unrelated
from busbw.readers.wrappers import cleaning
from busbw.readers.wrappers.anchors import MAX_LENGTH, find_anchor
from busbw.readers.wrappers.row_wrapper import RowWrapper, find_row_wrapper
from busbw.readers.wrappers.unwrapping import UnwrappedLine, Unwrapper
from busbw.units import count_text

_MAX_WRITERS = 1024
"""Number of writers with their own assembler. The lines of further ones go to the assembler of lines without prefix."""
_MAX_UNIFORM_ROWS = 256
_NO_PREFIX = "\0"
"""Prefix that no line has. No row follows it without cleaning."""
_MAX_SINGLETONS = 10_000
"""Maximum number of singletons, tables of one rank, that are collected for a note."""
_CUT_REASON = "the file ends here; its last figure may be cut"
_MAX_REMARK_LENGTH = 4000
_MAX_ROW_LENGTH = 1000
"""Characters at the end of a long line that may be a row."""
_MIN_FIGURES = 5
"""Minimum number of figures in a line that looks like a row."""
_MIN_FIGURES_WITH_TYPE = 3
"""Minimum number of figures after an element type in a table."""
_MAX_OTHER_WORDS = 3
"""Maximum number of words among the figures of such a line: an invalid type or figure, the operator and the root."""
_FOREIGN_FIGURE = re.compile(r"\d[\d.,']{0,40}\Z")
"""A figure with the decimal comma or the grouped digits of another language. It makes a row, but a refused one."""
_MAX_UNKNOWN_PREFIX = 160
"""Maximum length of an unknown prefix before the '#' of a header line."""
_TYPES = frozenset(DTYPES)
_CLEANING_MARKS = ("CCL ", "<", "&", "\\n", "[repeated ", "\x1b")
"""Texts of which an ASCII line that unwrapping.py or cleaning.py changes contains at least one, except for prefixes."""


def recognizes(beginning: str) -> bool:
    """True for any text, because a table may begin anywhere."""
    return "\0" not in beginning


def stream(source: LogSource, claims: UserClaims) -> Iterator[Event]:
    """Yields the tables, refused rows and notes of the log."""
    cut_rule = find_cut_rule(source.beginning)
    if cut_rule and cut_rule.is_ambiguous:
        reason = f"the lines are cut at {cut_rule.width} characters, which rows fill; save the log without line breaks"
        yield Refusal(line=1, text="", reason=reason)
        cut_rule = None
    yield from stream_lines(move_cuts(source.lines()), source.name, claims, cut_rule)


def stream_lines(
    lines: Iterable[bytes], source: str, claims: UserClaims, cut_rule: CutRule | None = None
) -> Iterator[Event]:
    """Reads lines from any source, like `stream`. Cut lines are joined by the rule."""
    line_stream = LineStream(lines, cut_rule)
    reader = _TextReader(source, claims, line_stream)
    uniform_rows = _UniformRowReader(line_stream)
    singletons: list[Table] = []
    prefix, wrapper, assembler = reader.prefix, reader.wrapper, reader.assembler
    for number, line in line_stream:
        whole_text = line.decode("utf-8", errors="replace")
        text = (wrapper and wrapper.remove_from(whole_text)) or whole_text
        text_after_prefix = text.removeprefix(prefix) if text.startswith(prefix) else ""
        # Most lines of a long log are clean rows of the writer of the last row. They need no cleaning.
        if text_after_prefix.endswith(ROW_ENDS) and assembler.accepts_split_rows:
            rows = uniform_rows.read(number, text, prefix, wrapper)
            if rows is not None:
                assembler.add_uniform_rows(rows)
                if assembler.is_full:
                    yield from assembler.yield_chunk()
                continue
        if text_after_prefix.lstrip()[:1] == "#" and reader.is_plain_remark(text_after_prefix):
            events = reader.read_plain_remark(number, text_after_prefix)
        else:
            words = text_after_prefix.split()
            is_clean_row = len(words) == WORD_COUNT and _is_clean_row(text_after_prefix, words)
            if is_clean_row and text.isascii() and text[-1] == "\n" and assembler.accepts_split_rows:
                assembler.add_split_row(SplitRow(number, text, words))
                if assembler.is_full:
                    yield from assembler.yield_chunk()
                continue
            events = reader.read_line(number, whole_text)
        for event in events:
            _collect_singleton(event, singletons)
            yield event
        prefix, wrapper, assembler = reader.prefix, reader.wrapper, reader.assembler
    for event in reader.finish():
        _collect_singleton(event, singletons)
        yield event
    yield from _note_singletons(singletons)


class _Line(NamedTuple):
    """A line without wrappers, markup and control characters."""

    number: int
    text: str
    """The line as it is in the log."""
    body: str
    """The cleaned line."""
    writer: str
    """Wrappers that identify the process."""
    is_cut: bool
    """True if the file ends without a line end after this line."""


class _UniformRowReader:
    """Reads consecutive rows of one writer together."""

    def __init__(self, lines: LineStream) -> None:
        self._lines = lines
        self._max_rows = _MAX_UNIFORM_ROWS
        """Bound for the next rows. It adapts to the number of uniform rows between other lines."""

    def read(self, number: int, text: str, prefix: str, wrapper: RowWrapper | None) -> UniformRows | None:
        """Reads a line and as many of the lines that follow as possible. None if the line is no uniform row.

        Args:
            number: Number of the line.
            text: The line without its wrapper.
            prefix: Prefix of the line after its wrapper, and of the lines that may follow.
            wrapper: Wrapper of the line, and of the lines that may follow.
        """
        if not prefix.isascii() or parse_uniform_rows([number], [text], prefix) is None:
            return None
        taken: list[tuple[int, bytes]] = []
        texts = [text]
        for numbered_line in self._lines:
            taken.append(numbered_line)
            whole_text = numbered_line[1].decode("utf-8", errors="replace")
            text = wrapper.remove_from(whole_text) if wrapper else whole_text
            if len(texts) == self._max_rows or not (text.startswith(prefix) and text.endswith(ROW_ENDS)):
                self._lines.put_back([taken.pop()])
                break
            texts.append(text)
        numbers = [number, *(line_number for line_number, _ in taken)]
        while (rows := parse_uniform_rows(numbers, texts, prefix)) is None:
            middle = len(numbers) // 2
            self._lines.put_back(taken[middle - 1 :])
            del numbers[middle:], texts[middle:], taken[middle - 1 :]
            self._max_rows = middle
        self._max_rows = min(2 * self._max_rows, _MAX_UNIFORM_ROWS)
        return rows


class _TextReader:
    """Cleans and classifies the lines of one log."""

    def __init__(self, source: str, claims: UserClaims, lines: LineStream) -> None:
        self._source, self._claims = source, claims
        self._look_ahead = lines.look_ahead
        self._unwrapper = Unwrapper()
        self._unwrapper.learn(lines.look_ahead())
        self._context = DocumentContext()
        self._assemblers: dict[str, TableAssembler] = {}
        self.prefix = ""
        """Text before the last row. Only a line with the same prefix can be a row of 13 words without cleaning."""
        self.wrapper: RowWrapper | None = None
        """Wrapper of the last row, around the prefix. None if the last line that `read_line` processed is no row, or
        if this row and the row before have no common wrapper."""
        self._last_wrapper_pattern = ""
        """Pattern of the wrapper of the last row that `read_line` processed. Empty without such a wrapper."""
        self._last_row_text: str | None = None
        """The last row without the string that it stands in, as in `UnwrappedLine.original`."""
        self.assembler = self._assembler_for("")
        """Assembler of the last row."""
        self._grids = GridCollector()
        self._grid_header: list[tuple[int, list[str]]] = [(0, [])]
        """Header of the last table of cells."""
        self._hccl = hccl.ReportParser(claims)
        self._plain_tables: dict[str, PlainTable] = {}
        """Open plain tables by writer."""

    def _assembler_for(self, writer: str) -> TableAssembler:
        key = writer if writer in self._assemblers or len(self._assemblers) < _MAX_WRITERS else ""
        if key not in self._assemblers:
            self._assemblers[key] = TableAssembler(self._context, self._claims, self._source)
        return self._assemblers[key]

    def read_line(self, number: int, text: str) -> Iterator[Event]:
        """Processes one line, including its line end."""
        self.wrapper = None
        if "CCL INFO" in text and cleaning.is_library_line(text) and "CCL version" not in text:
            return
        is_cut = not text.endswith("\n")  # the end of the file
        inner_lines: list[str] = []
        for line in self._unwrapper.unwrap(text, self._look_ahead):
            inner_lines.append(line.original)
            yield from self._read_unwrapped_line(number, line, is_cut=line.is_open or (is_cut and not line.is_closed))
        if not inner_lines:
            yield from self._end_grid()
        is_row = inner_lines == [self._last_row_text]
        if is_row and not self._unwrapper.has_text_after_lines:
            self._set_wrapper(text, inner_lines[0])

    def _set_wrapper(self, text: str, row: str) -> None:
        """Sets the wrapper of a row if the row before had the same one. A wrapper with a counter never repeats."""
        wrapper = find_row_wrapper(text, row)
        pattern = wrapper.pattern if wrapper else ""
        if pattern == self._last_wrapper_pattern:
            self.wrapper = wrapper
        self._last_wrapper_pattern = pattern

    def _read_unwrapped_line(self, number: int, line: UnwrappedLine, *, is_cut: bool) -> Iterator[Event]:
        """Processes a line without its wrapper."""
        body = cleaning.without_markdown_marks(line.text)
        if self._grids.is_html(line.original):
            body = cleaning.strip_controls(line.original)  # the parser needs the tags that a wrapper could be
        if self._grids.accepts(body):
            cells = self._grids.markdown_cells(body)
            if cells is None or not _begins_like_row(" ".join(cells).split()):
                self._grids.add(number, body)
                if self._grids.is_complete:
                    yield from self._end_grid()
                return
            body = " ".join(cells)
        else:
            yield from self._end_grid()
        body = cleaning.without_markup(body)
        yield from self._read_clean_line(_Line(number, line.original, body, line.writer, is_cut))

    def read_plain_remark(self, number: int, text: str) -> Iterable[Event]:
        """Processes a line for which `is_plain_remark` is true. It belongs to the process that wrote the last row."""
        return self._read_remark(number, text.strip(), self.assembler)

    def is_plain_remark(self, text: str) -> bool:
        """True if a line that begins with '#' needs no cleaning, contains no row, and names no columns."""
        is_other_table_open = not self._grids.is_idle or bool(self._plain_tables)
        return not (
            is_other_table_open or self._unwrapper.has_text_after_lines or self.assembler.is_waiting
        ) and _has_plain_form(text)

    def _read_clean_line(self, line: _Line) -> Iterator[Event]:
        """Processes a cleaned line: a row, a part of a broken row, or a remark."""
        body = line.body
        if len(body) > MAX_LENGTH:
            yield from self._refuse_long_row(line)
            return
        words = body.split()
        is_library_line = "CCL " in body and cleaning.is_library_line(body)
        if is_library_line and "CCL version" not in body:
            return
        if self._add_split_row(line, words):
            if self.assembler.is_full:
                yield from self.assembler.yield_chunk()
            return
        may_be_row = len(words) > 4 and not _TYPES.isdisjoint(words) and not is_library_line
        if may_be_row and (row_start := layouts.find_row_start(body)) >= 0:
            yield from self._read_row(line, body[row_start:])
            return
        if "[" in body or "CCL " in body:
            words = cleaning.without_inner_tags(cleaning.without_library_lines(body)).split()
        yield from self._read_line_without_row(line, words)

    def _refuse_long_row(self, line: _Line) -> Iterator[Event]:
        """Refuses a line that is too long to be one of a table, if it contains a row or ends like one."""
        last_words = line.body[-_MAX_ROW_LENGTH:].split()
        if layouts.find_row_start(line.body) >= 0 or _reject_broken_row(last_words, is_in_table=False):
            yield self._refuse(line, f"the line has more than {MAX_LENGTH} characters")

    def _refuse(self, line: _Line, reason: str) -> Refusal:
        return self._assembler_for(line.writer).make_refusal(line.number, line.text, reason)

    def _add_split_row(self, line: _Line, words: list[str]) -> bool:
        """Adds a row that needs no parsing yet. Returns false if the line is no such row."""
        if len(words) != WORD_COUNT or line.is_cut or not _is_clean_row(line.body, words):
            return False
        assembler = self._assembler_for(line.writer)
        is_added = line.body.isascii() and assembler.accepts_split_rows
        if is_added:
            assembler.add_split_row(SplitRow(line.number, line.text, words))
            self._remember_row(assembler, line, line.body)
        return is_added

    def _read_line_without_row(self, line: _Line, words: list[str]) -> Iterator[Event]:
        """Processes a line that has no size, count and element type.

        It is a row of a plain table, a part of a broken row, or a remark.
        """
        body, writer = line.body, line.writer
        assembler = self._assembler_for(writer)
        is_idle = assembler.is_idle and self.assembler.is_idle and not self._plain_tables
        if not words or (is_idle and is_unrelated(body, words)):
            return
        if (plain_table := self._plain_tables.get(writer)) and plain_table.is_row(words):
            if line.is_cut:
                yield self._refuse(line, _CUT_REASON)
            else:
                yield from plain_table.add(line.number, line.text, words)
            return
        if headers.begins_columns(body) or headers.begins_run(body):
            yield from self._end_plain_table(writer)
            if names := plain_tables.parse_columns(body):
                yield from self._begin_plain_table(body, names, writer)
                return
        if _are_all_figures(layouts.split_optional_columns(words).figures):
            if assembler.continue_row(body, words):
                return
            begins_with_sizes = len(words) > 4 and _begin_with_counts(words)
            if begins_with_sizes and not assembler.columns.has_type:
                yield from assembler.add_row(line.number, line.text, words)
                return
            yield from assembler.refuse_wrapped_row()
            yield from self.assembler.refuse_wrapped_row()  # a cut escape looks like the prefix of another writer
        yield from assembler.count_unrelated_line()
        if (report := self._hccl.add_line(line.number, body)) is not None:
            yield report
        elif reason := _reject_broken_row(words, is_in_table=assembler.is_in_table):
            yield self._refuse(line, reason)
        else:
            yield from self._read_remark(line.number, body, assembler)

    def _begin_plain_table(self, header: str, names: tuple[str, ...], writer: str) -> Iterator[Event]:
        yield from self._assembler_for(writer).end_table()
        if len(self._plain_tables) < _MAX_WRITERS:
            self._plain_tables[writer] = PlainTable(header, names, self._context, self._claims, self._source)

    def _end_plain_table(self, writer: str) -> Iterator[Event]:
        if plain_table := self._plain_tables.pop(writer, None):
            yield from plain_table.end()

    def _read_row(self, line: _Line, row_text: str) -> Iterator[Event]:
        """Adds a row to the table of its writer. `row_text` is the line from the size column on."""
        assembler = self._assembler_for(line.writer)
        words = cleaning.without_inner_tags(cleaning.without_library_lines(row_text)).split()
        has_all_words = assembler.has_header or len(words) >= WORD_COUNT
        if line.is_cut and not (has_all_words and _is_complete_line(words)):
            yield self._refuse(line, _CUT_REASON)
            return
        self._remember_row(assembler, line, row_text)
        yield from assembler.add_row(line.number, line.text, words)

    def _remember_row(self, assembler: TableAssembler, line: _Line, row_text: str) -> None:
        """Remembers assembler and prefix of the last row, for the next lines."""
        self.assembler = assembler
        self._last_row_text = line.text
        prefix_length = line.text.rfind(row_text.strip())
        if prefix_length >= 0:
            self.prefix = line.text[:prefix_length].rstrip()
        else:  # cleaning changed the row
            self.prefix = _NO_PREFIX if line.writer else ""

    def _read_remark(self, number: int, body: str, assembler: TableAssembler) -> Iterable[Event]:
        """Processes a line of a header, of a footer, or of the document around the tables."""
        prefix_length = body.find("#")
        has_unknown_prefix = 0 < prefix_length < _MAX_UNKNOWN_PREFIX
        stripped = (body[prefix_length:] if has_unknown_prefix else body).strip()
        events: list[Event] = []
        if len(stripped) > _MAX_REMARK_LENGTH:
            return events
        events += assembler.refuse_rows_above_header(stripped)
        if assembler.starts_other_table(stripped):
            events += assembler.end_table()
        if not assembler.add_header_line(number, stripped):
            self._context.add_line(stripped)
        return events

    def _end_grid(self) -> Iterator[Event]:
        grid = self._grids.finish()
        if grid is not None:
            yield from self._read_grid(grid)

    def _read_grid(self, grid: CellGrid) -> Iterator[Event]:
        """Processes a table of cells: a published table, or log lines split into cells."""
        lines = [(line, " ".join(cells)) for line, cells in grid.rows]
        if not any((anchor := find_anchor(text)) and anchor.is_row for _, text in lines):
            # Lines between the rows of a table divide it. All parts have the header of the first one.
            header = find_header(grid)
            if begins_with_size(grid) and len(self._grid_header[-1][1]) == len(grid.rows[0][1]):
                grid = CellGrid(grid.first_line, [*self._grid_header, *grid.rows])
            elif not begins_with_size(grid):
                self._grid_header = header or grid.rows[-MAX_HEADER_ROWS:]
            yield from read_published_tables(grid, self._context, self._claims)
            return
        self._unwrapper.learn(text for _, text in lines)
        for number, text in lines:
            for line in self._unwrapper.unwrap(text, list):
                yield from self._read_clean_line(_Line(number, text, line.text, line.writer, is_cut=False))

    def finish(self) -> Iterator[Event]:
        """Yields the rest of all open tables."""
        if (grid := self._grids.close()) is not None:
            yield from self._read_grid(grid)
        for assembler in self._assemblers.values():
            yield from assembler.end_table()
        for plain_table in self._plain_tables.values():
            yield from plain_table.end()


def _has_plain_form(text: str) -> bool:
    """True if a line that begins with '#' needs no cleaning, contains no row, and names no columns."""
    is_short = len(text) <= _MAX_REMARK_LENGTH  # long lines would take too much memory
    return _recall_plain_form(text) if is_short else _find_plain_form(text)


@lru_cache(maxsize=1024)  # a long log repeats most lines of its headers
def _recall_plain_form(text: str) -> bool:
    return _find_plain_form(text)


def _find_plain_form(text: str) -> bool:
    words = text.split()
    has_clean_form = text.isascii() and not any(map(text.__contains__, _CLEANING_MARKS))
    may_be_row = words[0][1:2].isdigit() or not _TYPES.isdisjoint(words)
    return has_clean_form and not may_be_row and "algbw" not in text


def _is_clean_row(text: str, words: list[str]) -> bool:
    """True if 13 words are a row, and their text has no tags of other writers."""
    return has_row_form(words) and "[" not in text


def _is_complete_line(words: list[str]) -> bool:
    """True if the last word of a line without line break is certainly complete."""
    return words[-1] in ("0", "N/A", "0e+00")


def _are_all_figures(words: list[str]) -> bool:
    """True if the words may be a part of a row."""
    return len(words) < 40 and all(map(is_value, words))


def _begin_with_counts(words: list[str]) -> bool:
    """True if the first two words may be a size and a count."""
    return parse_integer(words[0]) is not None and parse_integer(words[1]) is not None


def _begins_like_row(words: list[str]) -> bool:
    """True if the words begin with a size, a count and an element type."""
    return len(words) > 5 and _begin_with_counts(words) and words[2] in DTYPES


def _reject_broken_row(words: list[str], *, is_in_table: bool) -> str:
    """Returns why a line that looks like a row is not one. Empty if the line does not look like a row."""
    if len(words) < 6 or words[0].startswith("#"):
        return ""
    type_index = next((index for index, word in enumerate(words) if word in DTYPES), None)
    figures = words[2 if type_index is None else type_index + 1 :]
    figure_count = sum(is_value(word) or _FOREIGN_FIGURE.match(word) is not None for word in figures)
    has_other_words = figure_count < len(figures) - _MAX_OTHER_WORDS
    min_figure_count = _MIN_FIGURES_WITH_TYPE if is_in_table and type_index else _MIN_FIGURES
    if has_other_words or figure_count < min_figure_count or not (type_index or is_in_table):
        return ""
    if type_index is None and _begin_with_counts(words):
        return f'"{words[2][:40]}" is not an element type'
    return "it does not begin with a size and a count"


def _collect_singleton(event: Event, singletons: list[Table]) -> None:
    """Collects the tables of one rank, without their rows."""
    if len(singletons) == _MAX_SINGLETONS or not isinstance(event, TableChunk) or not event.is_last:
        return
    if event.table.ranks == 1 and len(event.table.rank_list) == 1:
        singletons.append(msgspec.structs.replace(event.table, rows=()))


def _note_singletons(singletons: list[Table]) -> Iterator[Event]:
    """Yields a note if different processes wrote one-rank tables with equal settings, probably meant as one run."""
    if len(singletons) < 2:
        return
    processes = {(table.rank_list[0].pid, table.rank_list[0].host) for table in singletons}
    runs = {str(table.settings) + str(table.program) for table in singletons}
    if len(processes) > 1 and len(runs) == 1:
        yield LogNote(
            f"{count_text(len(singletons), 'table')} of one rank each with the same settings: if they were started "
            "together, the processes did not find each other and each measured alone (the singleton trap); build "
            "nccl-tests with MPI=1 and use its mpirun"
        )
