"""Finds the lines of a log (messages) in one column of CSV or of text with tabs, as log services export them.

A message in the last column needs no such treatment: the columns before it are a prefix (prefixes.py).
"""

import csv
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from busbw.readers.tables.layouts import ColumnLayout, NotARowError, find_row_start, parse_row

_DELIMITERS = (",", "\t", ";")
_MAX_ESCAPED_LENGTH = 1 << 18
"""Maximum length of a line in which escaped cells are searched, because each cell takes a search in the whole line."""


class Message(NamedTuple):
    """A line of the log, from one cell of a line of the file."""

    text: str
    surroundings: str
    """The other columns, which may name the writer."""


class MessageColumn:
    """Column that holds the lines of a log."""

    def __init__(self) -> None:
        self._delimiter = ""
        self._column_count = 0
        self._position = 0

    @property
    def is_known(self) -> bool:
        """True if the lines of the log stand in a column."""
        return bool(self._delimiter)

    def learn(self, lines: Iterable[str]) -> None:
        """Finds the column in which all complete rows of the lines stand, if columns follow it or cells are quoted."""
        lines = list(lines)
        for delimiter in _DELIMITERS:
            places = [_find_row(_split(line, delimiter)) for line in lines if delimiter in line]
            row_places = [place for place in places if place is not None]
            if len(set(row_places)) == 1:
                column_count, position = row_places[0]
                if position < column_count - 1 or all(line.startswith('"') for line in lines if delimiter in line):
                    self._delimiter, self._column_count, self._position = delimiter, column_count, position

    def find(self, line: str) -> Message | None:
        """Returns the message in a line; None if the line has too few columns.

        A message that is not quoted may hold delimiters. If no column is known, `_find_escaped` finds it.
        """
        if not self._delimiter:
            return _find_escaped(line) if '""' in line and len(line) <= _MAX_ESCAPED_LENGTH else None
        cells = _split(line, self._delimiter)
        following_count = self._column_count - 1 - self._position
        end = len(cells) - following_count
        return None if end <= self._position else _make_message(cells, self._position, end, self._delimiter)


def split_messages(line: str) -> list[str]:
    """Splits a line at its tabs if several cells end with a row, as log services list messages.

    Otherwise, the line itself is the only message.
    """
    cells = line.split("\t")
    return cells if len(cells) > 1 and sum(map(_ends_with_row, cells)) > 1 else [line]


def _make_message(cells: list[str], start: int, end: int, delimiter: str) -> Message:
    others = [*cells[:start], '""', *cells[end:]]
    return Message(delimiter.join(cells[start:end]), delimiter.join(others))


def _find_escaped(line: str) -> Message | None:
    """Returns the cell in which CSV doubles quotation marks, such as one with JSON.

    None if no cell or several cells have such marks.
    """
    for delimiter in (",", ";"):
        cells = _split(line, delimiter)
        escaped_positions = (
            position
            for position, cell in enumerate(cells)
            if '"' in cell and '"' + cell.replace('"', '""') + '"' in line
        )
        positions = list(islice(escaped_positions, 2))
        if len(cells) > 1 and len(positions) == 1:
            return _make_message(cells, positions[0], positions[0] + 1, delimiter)
    return None


def _split(line: str, delimiter: str) -> list[str]:
    line = line.rstrip("\r\n")
    if delimiter == "\t" or '"' not in line:
        return line.split(delimiter)
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return []


def _find_row(cells: list[str]) -> tuple[int, int] | None:
    """Returns the number of cells, and the position of the cell that ends with a row.

    None if no cell or several cells end with a row, or if all other cells are blank.
    """
    positions = [position for position, cell in enumerate(cells) if _ends_with_row(cell)]
    has_other_text = sum(map(bool, map(str.strip, cells))) > 1
    return (len(cells), positions[0]) if len(positions) == 1 and has_other_text else None


def _ends_with_row(text: str) -> bool:
    start = find_row_start(text)
    try:
        return start >= 0 and bool(parse_row(0, "", text[start:].split(), ColumnLayout(), 0))
    except NotARowError:
        return False
