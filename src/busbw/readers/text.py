"""Reads text line by line: tables of nccl-tests and its kin with whatever was put around them, and published tables.

A line goes through cleaning, is recognised as a row by its shape, and is handed to the assembler of the process that
wrote it. Nothing is kept but the table that is being read.
"""

import re
from collections.abc import Iterable, Iterator

import msgspec

from busbw.logs import Table
from busbw.readers import cleaning, hccl
from busbw.readers.grids import CellGrid, GridCollector
from busbw.readers.published import read_grid
from busbw.readers.source import LogSource
from busbw.readers.tables import fast_rows, layouts
from busbw.readers.tables.assembly import TableAssembler
from busbw.readers.tables.context import DocumentContext
from busbw.readers.tables.events import Event, LogNote, TableChunk, UserClaims
from busbw.readers.tables.quantities import DTYPES, is_value
from busbw.units import count_text

_MAX_WRITERS = 1024
_LOOK_EVERY = 1024
"""Lines between looks at whether a table is long enough for a piece."""
_NO_PREFIX = "\0"
"""Begins no line, so the short way is closed."""
_MAX_ALONE = 10_000
_TYPES = frozenset(DTYPES)
_CLOCKS = re.compile(r"[\d:.,TZ+-]*\d{2}:\d{2}[\d:.,TZ+-]*")


def recognises(beginning: str) -> bool:
    """Any text may hold a table; whether it does is seen at its end."""
    return "\0" not in beginning


def stream(source: LogSource, claims: UserClaims) -> Iterator[Event]:
    """What the lines hold, table by table."""
    yield from stream_lines(source.lines(), source.name, claims)


def stream_lines(lines: Iterable[bytes], source: str, claims: UserClaims) -> Iterator[Event]:
    """As `stream`, for lines from anywhere."""
    reader = _TextReader(source, claims)
    alone: list[Table] = []
    prefix, assembler = reader.prefix, reader.assembler
    for number, line in enumerate(lines, start=1):
        text = line.decode("utf-8", errors="replace")
        rest = text if not prefix else text[len(prefix) :] if text.startswith(prefix) else ""
        words = rest.split()
        if (
            len(words) == fast_rows.WORDS
            and fast_rows.is_fast_row(words)
            and "[" not in rest
            and text[-1] == "\n"
            and text.isascii()
            and assembler.quick_row(number, words)
        ):
            if number % _LOOK_EVERY == 0 and assembler.is_full:
                yield from assembler.piece()
            continue
        is_remark = words and words[0][0] == "#" and reader.is_plain_remark(rest, words)
        for event in reader.remark(number, rest) if is_remark else reader.line(number, text):
            _keep_if_alone(event, alone)
            yield event
        prefix, assembler = reader.prefix, reader.assembler
    for event in reader.end():
        _keep_if_alone(event, alone)
        yield event
    yield from _singleton_note(alone)


class _TextReader:
    def __init__(self, source: str, claims: UserClaims) -> None:
        self._source, self._claims = source, claims
        self._context = DocumentContext()
        self._assemblers: dict[str, TableAssembler] = {}
        self.prefix = ""
        """What stood before the last row; where the next line begins so, the short way is open to it."""
        self.assembler = self._assembler("")
        """Whose the last row was."""
        self._grids = GridCollector()
        self._hccl = hccl.ReportParser(claims)

    def _assembler(self, writer: str) -> TableAssembler:
        key = writer if writer in self._assemblers or len(self._assemblers) < _MAX_WRITERS else ""
        if key not in self._assemblers:
            self._assemblers[key] = TableAssembler(self._context, self._claims, self._source)
        return self._assemblers[key]

    def line(self, number: int, text: str) -> Iterator[Event]:
        """One line, with its end."""
        cut = not text.endswith("\n")
        raw = text
        text = cleaning.strip_controls(text)
        if not text.strip():
            yield from self._grid_ended()
            return
        body, writer = cleaning.without_prefixes(text)
        if self._grids.accepts(body):
            cells = self._grids.cells_of(body)
            if cells is None or not _is_row(" ".join(cells).split()):
                self._grids.add(number, body)
                if self._grids.is_complete:
                    yield from self._grid_ended()
                return
            body = " ".join(cells)
        else:
            yield from self._grid_ended()
        if "&" in body or "<" in body:
            body, more = cleaning.without_prefixes(cleaning.without_markup(body))
            writer += more
        yield from self._plain_line(number, raw, body, writer, cut=cut)

    def remark(self, number: int, text: str) -> Iterable[Event]:
        """A line of which `is_plain_remark` holds, by the process that wrote the last row."""
        return self._remark(number, text.strip(), self.assembler)

    def is_plain_remark(self, text: str, words: list[str]) -> bool:
        """Whether there is nothing to take from a line that begins with '#', and no row in it."""
        return (
            text.isascii()
            and self._grids.is_idle
            and "CCL " not in text
            and not ("<" in text or "&" in text)
            and "\x1b" not in text
            and _TYPES.isdisjoint(words)
            and not self.assembler.is_waiting
        )

    def _plain_line(self, number: int, text: str, body: str, writer: str, *, cut: bool) -> Iterator[Event]:
        words = body.split()
        library_line = "CCL " in body and cleaning.is_library_line(body)
        if library_line and "CCL version" not in body:
            return
        may_be_row = len(words) > 4 and not library_line and len(body) < 20_000 and not _TYPES.isdisjoint(words)
        if may_be_row and (at := layouts.anchor(body)) >= 0:
            writer += _CLOCKS.sub("", body[:at]).strip()
            words = cleaning.without_inner_tags(cleaning.without_library_lines(body[at:])).split()
            if cut and not _is_complete_line(words):
                yield self._assembler(writer).refuse(number, text, "the file ends in it: its last figure may be cut")
                return
            self.assembler = self._assembler(writer)
            begin = text.rfind(body[at:].strip())
            self.prefix = text[:begin].rstrip() if begin >= 0 else _NO_PREFIX if writer else ""
            yield from self.assembler.row(number, text, words)
            return
        assembler = self._assembler(writer)
        if "[" in body or library_line or "CCL " in body:
            words = cleaning.without_inner_tags(cleaning.without_library_lines(body)).split()
        if not words:
            return
        if _are_figures(words):
            if assembler.continues(words):
                return
            if not assembler.columns.has_type and len(words) > 4 and words[0].isdigit() and words[1].isdigit():
                yield from assembler.row(number, text, words)
                return
        yield from assembler.wait()
        if (report := self._hccl.take(number, body)) is not None:
            yield report
        elif assembler.is_in_table and (reason := _broken_row(words)):
            yield assembler.refuse(number, text, reason)
        else:
            yield from self._remark(number, body, assembler)

    def _remark(self, number: int, body: str, assembler: TableAssembler) -> Iterable[Event]:
        """A line of a header, a footer, or of the document around the tables."""
        begin = body.find("#")
        stripped = (body[begin:] if 0 < begin < 160 and not body[:begin].strip().startswith("#") else body).strip()
        events: list[Event] = []
        if len(stripped) > 4000:
            return events
        if assembler.starts_other_table(stripped):
            events = list(assembler.end())
        if not assembler.header(number, stripped):
            self._context.take(stripped)
        return events

    def _grid_ended(self) -> Iterator[Event]:
        grid = self._grids.finish()
        if grid is not None:
            yield from self._grid(grid)

    def _grid(self, grid: CellGrid) -> Iterator[Event]:
        """A table of cells: one that was published, or the lines of a log in cells."""
        if not any(_is_row(" ".join(cells).split()) for _, cells in grid.rows):
            yield from read_grid(grid, self._context, self._claims)
            return
        for line, cells in grid.rows:
            body = " ".join(cells)
            yield from self._plain_line(line, body, body, "", cut=False)

    def end(self) -> Iterator[Event]:
        """No more lines."""
        if (grid := self._grids.close()) is not None:
            yield from self._grid(grid)
        for assembler in self._assemblers.values():
            yield from assembler.end()


def _is_complete_line(words: list[str]) -> bool:
    """Whether nothing can be missing behind the last word of a file without a last line break."""
    return words[-1] in ("0", "N/A", "0e+00")


def _are_figures(words: list[str]) -> bool:
    return len(words) < 40 and all(map(is_value, words))


def _is_row(words: list[str]) -> bool:
    return len(words) > 5 and words[0].isdigit() and words[1].isdigit() and words[2] in DTYPES


def _broken_row(words: list[str]) -> str:
    """Why a line in a table looks like a row and is none; empty where it does not look like one."""
    if len(words) < 6 or words[0].startswith("#"):
        return ""
    figures = sum(map(is_value, words))
    if figures < 5 or figures < len(words) - 3:
        return ""
    if words[0].isdigit() and words[1].isdigit():
        return f'"{words[2][:40]}" is no element type'
    if any(word in DTYPES for word in words):
        return "it does not begin with a size and a count"
    return ""


def _keep_if_alone(event: Event, alone: list[Table]) -> None:
    if len(alone) == _MAX_ALONE:
        return
    if isinstance(event, TableChunk) and event.is_last and event.table.ranks == 1 and len(event.table.rank_list) == 1:
        alone.append(msgspec.structs.replace(event.table, rows=()))


def _singleton_note(alone: list[Table]) -> Iterator[Event]:
    """Tables of one rank with the same settings, by different processes: they may have been meant as one run."""
    if len(alone) < 2:
        return
    pids = {(table.rank_list[0].pid, table.rank_list[0].host) for table in alone}
    if len(pids) > 1 and len({str(table.settings) + str(table.program) for table in alone}) == 1:
        yield LogNote(
            f"{count_text(len(alone), 'table')} of one rank each with the same settings: if they were started "
            "together, the processes did not find each other and each measured alone (the singleton trap); build "
            "nccl-tests with MPI=1 and use its mpirun"
        )
