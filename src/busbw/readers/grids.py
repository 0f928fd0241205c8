"""Tables of Markdown and HTML as rows of cells, taken from a document line by line."""

import html
import re
from html.parser import HTMLParser
from typing import NamedTuple

_OPENS = re.compile(r"<\s*table\b", re.IGNORECASE)
_RULE = re.compile(r"[|:\s+=-]+$")
MAX_ROWS = 100_000
_MAX_COLUMNS = 200


class CellGrid(NamedTuple):
    """A table's cells; a cell over several columns is repeated in each."""

    first_line: int
    rows: list[tuple[int, list[str]]]
    """Each with its line."""


class GridCollector:
    """The table that is being read, if any."""

    def __init__(self) -> None:
        self._markdown: list[tuple[int, list[str]]] = []
        self._html: _HtmlTable | None = None

    def accepts(self, text: str) -> bool:
        """Whether a line is one of a table's."""
        if self._html is not None:
            return True
        return text.lstrip().startswith("|") or ("<" in text and bool(_OPENS.search(text)))

    def cells_of(self, text: str) -> list[str] | None:
        """The cells of a line of Markdown; None in HTML."""
        if self._html is not None or not text.lstrip().startswith("|"):
            return None
        return [html.unescape(cell).strip() for cell in text.strip().strip("|").split("|")][:_MAX_COLUMNS]

    def add(self, line: int, text: str) -> None:
        """Adds a line that `takes` said belongs here."""
        cells = self.cells_of(text)
        if cells is not None:
            if not _RULE.match(text.strip()) and len(self._markdown) < MAX_ROWS:
                self._markdown.append((line, cells))
            return
        if self._html is None:
            self._html = _HtmlTable()
        self._html.feed_line(line, text)

    @property
    def is_idle(self) -> bool:
        """Whether no table is being read."""
        return self._html is None and not self._markdown

    @property
    def is_complete(self) -> bool:
        """Whether the end of a table in HTML was seen."""
        return self._html is not None and self._html.is_closed

    def finish(self) -> CellGrid | None:
        """The table that was read; None where there is none. One in HTML ends with its tag, or with the document."""
        rows, self._markdown = self._markdown, []
        if self._html is not None:
            if not self._html.is_closed and not self._html.is_lost:
                self._markdown = rows
                return None
            rows, self._html = self._html.rows, None
        return CellGrid(rows[0][0], rows) if rows else None

    def close(self) -> CellGrid | None:
        """The document ended."""
        if self._html is not None:
            self._html.is_closed = True
        return self.finish()


class _HtmlTable(HTMLParser):
    _LONGEST_WITHOUT_TAG = 200

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.rows: list[tuple[int, list[str]]] = []
        self.is_closed = False
        self._line = 0
        self._row: list[str] | None = None
        self._row_line = 0
        self._cell: list[str] | None = None
        self._span = 1
        self._lines_without_tag = 0

    @property
    def is_lost(self) -> bool:
        """Whether there was no tag for so long that this is no table any more."""
        return self._lines_without_tag > self._LONGEST_WITHOUT_TAG

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
            self._span = min(int(span), _MAX_COLUMNS) if span.isdigit() and len(span) < 6 else 1
            self._cell = []

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._end_cell()
        elif tag == "tr":
            self._end_row()
        elif tag == "table":
            self._end_row()
            self.is_closed = True

    def handle_data(self, data: str) -> None:
        if self._cell is not None and len(self._cell) < 100:
            self._cell.append(data)

    def _end_cell(self) -> None:
        if self._cell is not None and self._row is not None and len(self._row) < _MAX_COLUMNS:
            self._row += [" ".join("".join(self._cell).split())] * max(1, self._span)
        self._cell = None

    def _end_row(self) -> None:
        self._end_cell()
        if self._row and len(self.rows) < MAX_ROWS:
            self.rows.append((self._row_line, self._row))
        self._row = None
