"""Reads plain tables in text: a line that names columns, such as "size time algbw busbw", and a line per size.

nccl-tests' own tables, which have a count column, are read by tables/assembly.py. clean_line_reader.py passes each
line that may belong to a plain table.
"""

from collections.abc import Iterator
from functools import lru_cache

from busbw.logs.log import Refusal
from busbw.readers.documents import csv_columns, csv_tables
from busbw.readers.documents.table_builder import TableBuilder
from busbw.readers.tables.column_headers import is_column_header, split_header, time_unit
from busbw.readers.tables.context import DocumentContext
from busbw.readers.tables.events import Event, UserClaims
from busbw.readers.tables.facts import TableFacts
from busbw.readers.tables.layouts import ColumnLayout
from busbw.readers.tables.quantities import is_value, parse_integer, parse_size, without_groups


@lru_cache(maxsize=64)
def parse_columns(text: str) -> tuple[str, ...]:
    """Returns the column names of a line that begins a plain table. Empty if the line begins none."""
    if not is_column_header(text):
        return ()
    names = [csv_columns.column_name(word) for word in split_header(text.lstrip("# ")) if not word.startswith("(")]
    is_plain = "count" not in names and len(set(names)) == len(names) and csv_columns.are_column_names(names)
    return tuple(names) if is_plain else ()


def _parse_any_size(text: str) -> int | None:
    size = parse_integer(text)
    return parse_size(text) if size is None else size


class PlainTable:
    """A table of one writer."""

    def __init__(
        self, header: str, names: tuple[str, ...], context: DocumentContext, claims: UserClaims, source: str
    ) -> None:
        facts = TableFacts(columns=ColumnLayout(has_type=False, unit=time_unit(split_header(header))), has_header=True)
        context.apply_to(facts)
        self._names = names
        self._tables = TableBuilder("plain table", facts, claims, source)

    def is_row(self, words: list[str]) -> bool:
        """True if at least half of the words after the first are figures, and the line has the form of a row.

        A row begins with a size, or has as many words as the table has columns.
        """
        others = words[1:]
        figure_count = sum(is_value(without_groups(word)) for word in others)
        has_figures = 0 < len(others) <= 2 * figure_count
        return has_figures and (len(words) == len(self._names) or _parse_any_size(words[0]) is not None)

    def add(self, line: int, text: str, words: list[str]) -> Iterator[Event]:
        """Adds the words of a row. Yields finished chunks and refusals."""
        if len(words) != len(self._names):
            reason = f"the row has {len(words)} columns, the header has {len(self._names)}"
            yield Refusal(line=line, text=text.strip()[:300], reason=reason)
            return
        values = dict(zip(self._names, map(without_groups, words), strict=True))
        size_name = next(name for name in self._names if name in csv_columns.SIZE_COLUMNS)
        size = _parse_any_size(values[size_name])
        values[size_name] = values[size_name] if size is None else str(size)
        yield from self._tables.add(csv_tables.make_row_fields(line, text.strip(), values, is_aws=False))

    def end(self) -> Iterator[Event]:
        """Yields the rest of the table."""
        yield from self._tables.end_table()
