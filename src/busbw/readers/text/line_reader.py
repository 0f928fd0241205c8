"""Removes wrappers and markup from the lines of a log, collects tables of cells, and passes the cleaned lines on.

A table of cells is a Markdown or HTML table. It is a published table, or its cells hold the lines of a log.
"""

from collections.abc import Iterator

from busbw.readers.lines.line_stream import LineStream
from busbw.readers.other_tables.grids import CellGrid, GridCollector
from busbw.readers.other_tables.published_tables import (
    MAX_HEADER_ROWS,
    begins_with_size,
    find_header,
    read_published_tables,
)
from busbw.readers.tables.events import Event, UserClaims
from busbw.readers.tables.headers import MAX_REMARK_LENGTH
from busbw.readers.text.clean_line_reader import CleanLine, CleanLineReader
from busbw.readers.text.plain_remarks import is_plain_remark
from busbw.readers.text.row_forms import begin_like_row
from busbw.readers.wrappers import cleaning
from busbw.readers.wrappers.anchors import find_anchor, may_have_anchor
from busbw.readers.wrappers.row_wrapper import RowWrapper, find_row_wrapper
from busbw.readers.wrappers.unwrapping import UnwrappedLine, Unwrapper, has_only_prefix


class LineReader:
    """Cleans the lines of one log."""

    def __init__(self, claims: UserClaims, lines: LineStream, clean_lines: CleanLineReader) -> None:
        self._claims = claims
        self._look_ahead = lines.look_ahead
        self._clean_lines = clean_lines
        self._unwrapper = Unwrapper()
        self._unwrapper.learn(lines.look_ahead())
        self.wrapper: RowWrapper | None = None
        """Wrapper that the last two rows share. None if they share none, or while a table of cells is open.

        Wrapper, prefix and row stand in this order: in `{"log": "[1,0]: 1024 256 float ..."}`, `{"log": "` is the
        beginning of the wrapper, and `[1,0]:` is the prefix. The rest of the wrapper follows the row.
        """
        self._last_wrapper_pattern = ""
        """Pattern of the wrapper of the last row that `read` processed. Empty without such a wrapper."""
        self._grids = GridCollector()
        self._grid_header: list[tuple[int, list[str]]] = [(0, [])]
        """Header of the last table of cells, with the line number of each row."""

    def read(self, number: int, text: str) -> Iterator[Event]:
        """Processes one line, including its line end."""
        has_line_end = text.endswith("\n")  # false only at the end of the file
        inner_lines: list[str] = []
        for line in self._unwrapper.unwrap(text, self._look_ahead):
            inner_lines.append(line.original)
            # A part of the wrapper follows a closed line. An open line may continue on the next line of the file.
            is_complete = not line.is_open and (has_line_end or line.is_closed)
            yield from self._read_unwrapped_line(number, line, is_cut=not is_complete)
        if not inner_lines:
            yield from self._end_grid()
        # Only a row, or a line in an open table of cells, changes the wrapper.
        if self._clean_lines.last_row_number == number or not self._grids.is_idle:
            self.wrapper = None
            is_single_row = self._grids.is_idle and inner_lines == [self._clean_lines.last_row_text]
            if is_single_row and not self._unwrapper.has_text_after_lines:
                self._set_wrapper(text, inner_lines[0])

    def ignores(self, text: str) -> bool:
        """True if no table needs this line. If that is unclear, false: `read` decides, which takes longer."""
        if "CCL INFO" in text and cleaning.is_library_line(text) and "CCL version" not in text:
            return True
        if not self.expects_nothing or may_have_anchor(text) or not has_only_prefix(text):
            return False
        return self._clean_lines.ignores(cleaning.without_markdown_marks(text.rstrip("\r\n")))

    @property
    def expects_nothing(self) -> bool:
        """True if only the text of a line decides if it is ignored.

        No wrapper is known, no table of cells or plain table is open, and no row is incomplete.
        """
        return self._grids.is_idle and self._clean_lines.is_idle and not self._unwrapper.knows_wrappers

    def is_plain_remark(self, text: str) -> bool:
        """True if a line that begins with '#' needs no cleaning, contains no row, and names no columns."""
        is_other_table_open = not self._grids.is_idle or self._clean_lines.has_open_plain_table
        is_row_incomplete = self._clean_lines.last_row_assembler.is_waiting
        if is_other_table_open or is_row_incomplete or self._unwrapper.has_text_after_lines:
            return False
        return len(text) <= MAX_REMARK_LENGTH and is_plain_remark(text)  # the cache keeps no long lines

    def finish(self) -> Iterator[Event]:
        """Yields the rest of all open tables."""
        if (grid := self._grids.take_rest()) is not None:
            yield from self._read_grid(grid)
        yield from self._clean_lines.finish()

    def _set_wrapper(self, text: str, row: str) -> None:
        """Sets the wrapper of a row if the row before had the same one. A wrapper with a counter never repeats."""
        wrapper = find_row_wrapper(text, row)
        pattern = wrapper.pattern if wrapper else ""
        if pattern == self._last_wrapper_pattern:
            self.wrapper = wrapper
        self._last_wrapper_pattern = pattern

    def _read_unwrapped_line(self, number: int, line: UnwrappedLine, *, is_cut: bool) -> Iterator[Event]:
        """Processes a line without its wrapper: a part of a table of cells, or a line to clean."""
        body = cleaning.without_markdown_marks(line.text)
        # A row or header of nccl-tests has no tag, so the text cannot be in the HTML table that an earlier line opened.
        may_be_prose = self._grids.is_html_without_row and "<" not in body
        if may_be_prose and (body.lstrip().startswith("#") or begin_like_row(body.split())):
            self._grids.discard_html()
        if self._grids.is_html(line.original):
            body = cleaning.strip_controls(line.original)  # with the tags that unwrapping has removed as a wrapper
        # The line is one of these:
        # - A Markdown line with cells that form a row of nccl-tests: the row is read, and an open table stays open.
        # - Another line of a table of cells: the table collects it.
        # - A line outside: it ends a Markdown table and is read.
        if self._grids.accepts(body):
            cells = self._grids.markdown_cells(body)
            if cells is None or not begin_like_row(" ".join(cells).split()):
                self._grids.add(number, body)
                if self._grids.is_complete:
                    yield from self._end_grid()
                return
            body = " ".join(cells)
        else:
            yield from self._end_grid()
        body = cleaning.without_markup(body)
        yield from self._clean_lines.read(CleanLine(number, line.original, body, line.writer, is_cut))

    def _end_grid(self) -> Iterator[Event]:
        grid = self._grids.take_finished()
        if grid is not None:
            yield from self._read_grid(grid)

    def _read_grid(self, grid: CellGrid) -> Iterator[Event]:
        """Processes a table of cells."""
        lines = [(line, " ".join(cells)) for line, cells in grid.rows]
        if not any((anchor := find_anchor(text)) and anchor.is_row for _, text in lines):
            yield from self._read_published_table(grid)
            return
        self._unwrapper.learn(text for _, text in lines)
        for number, text in lines:
            for line in self._unwrapper.unwrap(text, look_ahead=list):  # no line to learn follows
                yield from self._clean_lines.read(CleanLine(number, text, line.text, line.writer, is_cut=False))

    def _read_published_table(self, grid: CellGrid) -> Iterator[Event]:
        """Processes a published table. Other lines may divide it; then all parts have the header of the first one."""
        if not begins_with_size(grid):
            # Without a size in its beginning, the whole part may be the header of the next part.
            self._grid_header = find_header(grid) or grid.rows[-MAX_HEADER_ROWS:]
        elif len(self._grid_header[-1][1]) == len(grid.rows[0][1]):
            grid = CellGrid(grid.first_line, [*self._grid_header, *grid.rows])
        yield from read_published_tables(grid, self._clean_lines.context, self._claims)
