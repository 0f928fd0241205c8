"""Collects Markdown and HTML tables of a document, line by line, as rows of cells.

line_reader.py passes each line for which `accepts` is true, and calls `take_finished` at the first other line.
"""

import html
import re
from html.parser import HTMLParser
from typing import NamedTuple

_TABLE_TAG = re.compile(r"<\s*table\b", re.IGNORECASE)
_MARKDOWN_RULE = re.compile(r"[|:\s+=-]+$")
"""Line below the header: `| --- | ---: |`."""
MAX_ROWS = 100_000
_MAX_COLUMNS = 200


class CellGrid(NamedTuple):
    """Cells of a table. A cell that spans several columns is repeated in each of them."""

    first_line: int
    rows: list[tuple[int, list[str]]]
    """Line number and cells of each row."""


class GridCollector:
    """Collects the lines of one table at a time. At most one HTML or Markdown table is open."""

    def __init__(self) -> None:
        self._markdown_rows: list[tuple[int, list[str]]] = []
        self._html: _HtmlTable | None = None

    def accepts(self, text: str) -> bool:
        """True if the line is part of a table or begins one."""
        return self.is_html(text) or text.lstrip().startswith("|")

    def is_html(self, text: str) -> bool:
        """True if the line is part of an HTML table or begins one."""
        return self._html is not None or ("<" in text and bool(_TABLE_TAG.search(text)))

    def markdown_cells(self, text: str) -> list[str] | None:
        """Returns the cells of a Markdown line; None in HTML."""
        if self._html is not None or not text.lstrip().startswith("|"):
            return None
        return [html.unescape(cell).strip() for cell in text.strip().strip("|").split("|")][:_MAX_COLUMNS]

    def add(self, line: int, text: str) -> None:
        """Adds a line for which `accepts` returned true."""
        cells = self.markdown_cells(text)
        if cells is not None:
            if not _MARKDOWN_RULE.match(text.strip()) and len(self._markdown_rows) < MAX_ROWS:
                self._markdown_rows.append((line, cells))
            return
        if self._html is None:
            self._html = _HtmlTable()
        self._html.feed_line(line, text)

    @property
    def is_html_without_row(self) -> bool:
        """True if an HTML table is open, and none of its rows has begun."""
        return self._html is not None and self._html.has_no_row

    def discard_html(self) -> None:
        """Closes an open HTML table without a result, because its `<table` was part of another text."""
        self._html = None

    @property
    def is_idle(self) -> bool:
        """True if no table is open."""
        return self._html is None and not self._markdown_rows

    @property
    def is_complete(self) -> bool:
        """True if the end tag of an HTML table was read."""
        return self._html is not None and self._html.is_closed

    def take_finished(self) -> CellGrid | None:
        """Ends a Markdown table, or HTML that has its end tag or cannot be a table. Returns the table, or None."""
        if self._html is not None and not (self._html.is_closed or self._html.has_no_tags):
            return None
        rows, self._markdown_rows = self._markdown_rows, []
        if self._html is not None:
            rows, self._html = self._html.rows, None
        return CellGrid(rows[0][0], rows) if rows else None

    def take_rest(self) -> CellGrid | None:
        """Ends any open table, at the end of the document. Returns the table, or None."""
        if self._html is not None:
            self._html.is_closed = True
        return self.take_finished()


class _HtmlTable(HTMLParser):
    """Rows of one HTML table. The `handle_...` methods are called by `feed`."""

    _MAX_LINES_WITHOUT_TAG = 200
    _MAX_PARTS_OF_CELL = 100

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.rows: list[tuple[int, list[str]]] = []
        self.is_closed = False
        self._line = 0
        self._row: list[str] | None = None
        self._row_line = 0
        self._cell_parts: list[str] | None = None
        self._column_span = 1
        self._lines_without_tag = 0

    @property
    def has_no_tags(self) -> bool:
        """True if too many lines had no tag, so that the text cannot be a table."""
        return self._lines_without_tag > self._MAX_LINES_WITHOUT_TAG

    @property
    def has_no_row(self) -> bool:
        """True if no row has begun."""
        return self._row is None and not self.rows

    def feed_line(self, line: int, text: str) -> None:
        self._line = line
        self._lines_without_tag = 0 if "<" in text else self._lines_without_tag + 1
        self.feed(text + "\n")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self._end_row()
            self._row, self._row_line = [], self._line
        elif tag in ("td", "th"):
            self._end_cell()
            span = dict(attrs).get("colspan") or "1"
            self._column_span = min(int(span), _MAX_COLUMNS) if span.isdigit() and len(span) < 6 else 1
            self._cell_parts = []

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._end_cell()
        elif tag == "tr":
            self._end_row()
        elif tag == "table":
            self._end_row()
            self.is_closed = True

    def handle_data(self, data: str) -> None:
        if self._cell_parts is not None and len(self._cell_parts) < self._MAX_PARTS_OF_CELL:
            self._cell_parts.append(data)

    def _end_cell(self) -> None:
        if self._cell_parts is not None and self._row is not None and len(self._row) < _MAX_COLUMNS:
            self._row += [" ".join("".join(self._cell_parts).split())] * max(1, self._column_span)
        self._cell_parts = None

    def _end_row(self) -> None:
        self._end_cell()
        if self._row and len(self.rows) < MAX_ROWS:
            self.rows.append((self._row_line, self._row))
        self._row = None
