"""Classifies cleaned lines: rows, parts of broken rows, lines of other tables, and remarks.

A remark is any other line, such as one of a header. A writer is a process that wrote lines; the wrapper of a line
identifies it. Each writer has its own table assembler, because the lines of several processes are mixed in one log.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from busbw.logs.log import Refusal
from busbw.readers.other_tables import hccl, plain_tables
from busbw.readers.other_tables.plain_tables import PlainTable
from busbw.readers.tables import headers, layouts
from busbw.readers.tables.assembly import TableAssembler
from busbw.readers.tables.context import DocumentContext
from busbw.readers.tables.events import Event, UserClaims
from busbw.readers.tables.quantities import DTYPES
from busbw.readers.tables.unrelated_lines import is_unrelated
from busbw.readers.text.broken_rows import reject_broken_row
from busbw.readers.text.row_forms import WORD_COUNT, begin_with_counts, is_complete_row, may_be_part
from busbw.readers.wrappers import cleaning
from busbw.readers.wrappers.anchors import MAX_LENGTH as MAX_LINE_CHARACTERS

_MAX_WRITERS = 1024
"""Number of writers with their own assembler. The lines of further ones go to the assembler of lines without prefix."""
_NO_PREFIX = "\0"
"""Value of `CleanLineReader.prefix` that no line begins with, so that every line is cleaned."""
_CUT_REASON = "the file ends here; its last figure may be cut"
_ROW_CHARACTERS = 1000
"""Characters at the end of a long line that may be a row."""
_MAX_UNKNOWN_PREFIX = 160
"""Maximum length of an unknown prefix before the '#' of a header line."""
_TYPES = frozenset(DTYPES)


class CleanLine(NamedTuple):
    """A line without wrappers, markup and control characters."""

    number: int
    text: str
    """The line as it is in the log."""
    body: str
    """The cleaned line."""
    writer: str
    """Identifies the process that wrote the line. Empty if the line has no wrapper."""
    is_cut: bool
    """True if the file ends without a line end after this line."""


class CleanLineReader:
    """Classifies the cleaned lines of one log and passes them to the tables of their writers."""

    def __init__(self, source: str, claims: UserClaims) -> None:
        self._source, self._claims = source, claims
        self.context = DocumentContext()
        self._assemblers: dict[str, TableAssembler] = {}
        self.last_row_assembler = self._assembler_for("")
        """Assembler of the last row."""
        self.prefix = ""
        """Text before the last row. A line with the same prefix and 13 words is a row that needs no cleaning."""
        self.last_row_text: str | None = None
        """The last row that needed cleaning, as in `CleanLine.text`."""
        self.last_row_number = 0
        """Number of its line."""
        self._hccl = hccl.ReportParser(claims)
        self._plain_tables: dict[str, PlainTable] = {}
        """Open plain tables by writer."""

    @property
    def has_open_plain_table(self) -> bool:
        """True if the next line may be a row of a plain table."""
        return bool(self._plain_tables)

    def read(self, line: CleanLine) -> Iterator[Event]:
        """Processes a line."""
        body = line.body
        if len(body) > MAX_LINE_CHARACTERS:
            yield from self._refuse_long_row(line)
            return
        words = body.split()
        is_library_line = "CCL " in body and cleaning.is_library_line(body)
        if is_library_line and "CCL version" not in body:
            return  # of the library's messages, only the version is a fact of a table
        may_be_row = len(words) > 4 and not _TYPES.isdisjoint(words) and not is_library_line
        if may_be_row and (row_start := layouts.find_row_start(body)) >= 0:
            yield from self._read_row(line, body[row_start:])
            return
        yield from self._read_line_without_row(line, _split_words(body))

    def ignores(self, body: str) -> bool:
        """True if `read` ignores a line with this text and without a wrapper, provided that `is_idle`."""
        return len(body) <= MAX_LINE_CHARACTERS and is_unrelated(body, _split_words(body))

    @property
    def is_idle(self) -> bool:
        """True if the next line without a wrapper can neither complete nor refuse an earlier row."""
        return self._is_idle(self._assembler_for(""))

    def read_remark(self, number: int, text: str) -> Iterable[Event]:
        """Processes a remark of the process that wrote the last row."""
        return self._read_remark(number, text.strip(), self.last_row_assembler)

    def finish(self) -> Iterator[Event]:
        """Yields the rest of all open tables."""
        for assembler in self._assemblers.values():
            yield from assembler.end_table()
        for plain_table in self._plain_tables.values():
            yield from plain_table.end()

    def _assembler_for(self, writer: str) -> TableAssembler:
        key = writer if writer in self._assemblers or len(self._assemblers) < _MAX_WRITERS else ""
        if key not in self._assemblers:
            self._assemblers[key] = TableAssembler(self.context, self._claims, self._source)
        return self._assemblers[key]

    def _refuse_long_row(self, line: CleanLine) -> Iterator[Event]:
        """Refuses a line that is too long to be one of a table, if it contains a row or ends like one."""
        last_words = line.body[-_ROW_CHARACTERS:].split()
        if layouts.find_row_start(line.body) >= 0 or reject_broken_row(last_words, is_in_table=False):
            yield self._refuse(line, f"the line has more than {MAX_LINE_CHARACTERS} characters")

    def _refuse(self, line: CleanLine, reason: str) -> Refusal:
        return self._assembler_for(line.writer).make_refusal(line.number, line.text, reason)

    def _read_row(self, line: CleanLine, row_text: str) -> Iterator[Event]:
        """Adds a row to the table of its writer. `row_text` is the line from the size column on."""
        assembler = self._assembler_for(line.writer)
        words = cleaning.without_inner_tags(cleaning.without_library_lines(row_text)).split()
        # Without a header, a row that is cut may fit a layout with fewer columns.
        has_all_words = assembler.has_header or len(words) >= WORD_COUNT
        if line.is_cut and not (has_all_words and is_complete_row(words)):
            yield self._refuse(line, _CUT_REASON)
            return
        self._remember_row(assembler, line, row_text)
        yield from assembler.add_row(line.number, line.text, words)

    def _remember_row(self, assembler: TableAssembler, line: CleanLine, row_text: str) -> None:
        """Remembers assembler and prefix of the last row, for the next lines."""
        self.last_row_assembler = assembler
        self.last_row_text, self.last_row_number = line.text, line.number
        prefix_length = line.text.rfind(row_text.strip())
        if prefix_length >= 0:
            self.prefix = line.text[:prefix_length].rstrip()
        else:  # cleaning changed the row; after a row with a wrapper, the next one probably has a wrapper, too
            self.prefix = _NO_PREFIX if line.writer else ""

    def _read_line_without_row(self, line: CleanLine, words: list[str]) -> Iterator[Event]:
        """Processes a line that has no size, count and element type.

        It is a row of a plain table, a part of a broken row, or a remark.
        """
        body, writer = line.body, line.writer
        assembler = self._assembler_for(writer)
        if not words or (self._is_idle(assembler) and is_unrelated(body, words)):
            return
        if (plain_table := self._plain_tables.get(writer)) and plain_table.is_row(words):
            if line.is_cut:
                yield self._refuse(line, _CUT_REASON)
            else:
                yield from plain_table.add(line.number, line.text, words)
            return
        if headers.begins_table(body):
            yield from self._end_plain_table(writer)
            if names := plain_tables.parse_columns(body):
                yield from self._begin_plain_table(body, names, writer)
                return
        if may_be_part(layouts.split_optional_columns(words).figures):
            if assembler.continue_row(body, words):
                return
            is_row_without_type = not assembler.columns.has_type and len(words) > 4 and begin_with_counts(words)
            if is_row_without_type:
                yield from assembler.add_row(line.number, line.text, words)
                return
            # The figures belong to the row before them, which is therefore incomplete. A cut terminal escape looks like
            # the prefix of another writer, so this row may be in another assembler.
            yield from assembler.refuse_wrapped_row()
            yield from self.last_row_assembler.refuse_wrapped_row()
        yield from assembler.count_unrelated_line()
        if (report := self._hccl.add_line(line.number, body)) is not None:
            yield report
        elif reason := reject_broken_row(words, is_in_table=assembler.is_in_table):
            yield self._refuse(line, reason)
        else:
            yield from self._read_remark(line.number, body, assembler)

    def _is_idle(self, assembler: TableAssembler) -> bool:
        """True if the next line can neither complete nor refuse an earlier row."""
        return assembler.is_idle and self.last_row_assembler.is_idle and not self._plain_tables

    def _begin_plain_table(self, header: str, names: tuple[str, ...], writer: str) -> Iterator[Event]:
        yield from self._assembler_for(writer).end_table()
        if len(self._plain_tables) < _MAX_WRITERS:
            self._plain_tables[writer] = PlainTable(header, names, self.context, self._claims, self._source)

    def _end_plain_table(self, writer: str) -> Iterator[Event]:
        if plain_table := self._plain_tables.pop(writer, None):
            yield from plain_table.end()

    def _read_remark(self, number: int, body: str, assembler: TableAssembler) -> Iterable[Event]:
        """Processes a line of a header, of a footer, or of the document around the tables."""
        prefix_length = body.find("#")
        has_unknown_prefix = 0 < prefix_length < _MAX_UNKNOWN_PREFIX
        stripped = (body[prefix_length:] if has_unknown_prefix else body).strip()
        events: list[Event] = []
        if len(stripped) > headers.MAX_REMARK_LENGTH:
            return events
        header_line = headers.parse_header_line(stripped)
        events += assembler.refuse_rows_above_header(header_line)
        if assembler.starts_other_table(header_line):
            events += assembler.end_table()
        if not assembler.add_header_line(number, stripped, header_line):
            self.context.add_line(stripped)
        return events


def _split_words(body: str) -> list[str]:
    """Returns the words of a line without the tags of hydra and messages of NCCL."""
    if "[" in body or "CCL " in body:
        body = cleaning.without_inner_tags(cleaning.without_library_lines(body))
    return body.split()
