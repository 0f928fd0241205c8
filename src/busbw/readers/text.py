"""Reads text line by line: tables of nccl-tests and similar tools within any other output, and published tables.

Each line is cleaned and classified by its shape. The assembler of the process that wrote the line receives it. Only the
open tables are kept in memory.
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
_CHECK_INTERVAL = 1024
"""Number of lines between checks for a full chunk."""
_NO_PREFIX = "\0"
"""Prefix that no line has. It disables the fast row check."""
_MAX_SINGLETONS = 10_000
_TYPES = frozenset(DTYPES)
_CLOCKS = re.compile(r"[\d:.,TZ+-]*\d{2}:\d{2}[\d:.,TZ+-]*")


def recognises(beginning: str) -> bool:
    """True for any text, because a table may begin anywhere."""
    return "\0" not in beginning


def stream(source: LogSource, claims: UserClaims) -> Iterator[Event]:
    """Yields the tables, refused rows and notes of the log."""
    yield from stream_lines(source.lines(), source.name, claims)


def stream_lines(lines: Iterable[bytes], source: str, claims: UserClaims) -> Iterator[Event]:
    """Reads lines from any source, like `stream`."""
    reader = _TextReader(source, claims)
    singletons: list[Table] = []
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
            and assembler.add_fast_row(number, words)
        ):
            if number % _CHECK_INTERVAL == 0 and assembler.is_full:
                yield from assembler.chunk()
            continue
        is_remark = words and words[0][0] == "#" and reader.is_plain_remark(rest, words)
        for event in reader.remark(number, rest) if is_remark else reader.line(number, text):
            _collect_singleton(event, singletons)
            yield event
        prefix, assembler = reader.prefix, reader.assembler
    for event in reader.end():
        _collect_singleton(event, singletons)
        yield event
    yield from _singleton_note(singletons)


class _TextReader:
    def __init__(self, source: str, claims: UserClaims) -> None:
        self._source, self._claims = source, claims
        self._context = DocumentContext()
        self._assemblers: dict[str, TableAssembler] = {}
        self.prefix = ""
        """Text before the last row. Only a line with the same prefix is checked for a fast row."""
        self.assembler = self._assembler("")
        """Assembler of the last row."""
        self._grids = GridCollector()
        self._hccl = hccl.ReportParser(claims)

    def _assembler(self, writer: str) -> TableAssembler:
        key = writer if writer in self._assemblers or len(self._assemblers) < _MAX_WRITERS else ""
        if key not in self._assemblers:
            self._assemblers[key] = TableAssembler(self._context, self._claims, self._source)
        return self._assemblers[key]

    def line(self, number: int, text: str) -> Iterator[Event]:
        """Processes one line, including its line end."""
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
        """Processes a line for which `is_plain_remark` is true. It belongs to the process that wrote the last row."""
        return self._remark(number, text.strip(), self.assembler)

    def is_plain_remark(self, text: str, words: list[str]) -> bool:
        """True if a line that begins with '#' needs no cleaning and contains no row."""
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
                yield self._assembler(writer).refuse(number, text, "the file ends here; its last figure may be cut")
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
        """Processes a line of a header, of a footer, or of the document around the tables."""
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
        """Processes a table of cells: a published table, or log lines split into cells."""
        if not any(_is_row(" ".join(cells).split()) for _, cells in grid.rows):
            yield from read_grid(grid, self._context, self._claims)
            return
        for line, cells in grid.rows:
            body = " ".join(cells)
            yield from self._plain_line(line, body, body, "", cut=False)

    def end(self) -> Iterator[Event]:
        """Yields the rest of all open tables."""
        if (grid := self._grids.close()) is not None:
            yield from self._grid(grid)
        for assembler in self._assemblers.values():
            yield from assembler.end()


def _is_complete_line(words: list[str]) -> bool:
    """True if the last word of a line without line break is certainly complete."""
    return words[-1] in ("0", "N/A", "0e+00")


def _are_figures(words: list[str]) -> bool:
    return len(words) < 40 and all(map(is_value, words))


def _is_row(words: list[str]) -> bool:
    return len(words) > 5 and words[0].isdigit() and words[1].isdigit() and words[2] in DTYPES


def _broken_row(words: list[str]) -> str:
    """Returns why a line that looks like a row is not one; empty if it does not look like a row."""
    if len(words) < 6 or words[0].startswith("#"):
        return ""
    figures = sum(map(is_value, words))
    if figures < 5 or figures < len(words) - 3:
        return ""
    if words[0].isdigit() and words[1].isdigit():
        return f'"{words[2][:40]}" is not an element type'
    if any(word in DTYPES for word in words):
        return "it does not begin with a size and a count"
    return ""


def _collect_singleton(event: Event, singletons: list[Table]) -> None:
    if len(singletons) == _MAX_SINGLETONS:
        return
    if isinstance(event, TableChunk) and event.is_last and event.table.ranks == 1 and len(event.table.rank_list) == 1:
        singletons.append(msgspec.structs.replace(event.table, rows=()))


def _singleton_note(singletons: list[Table]) -> Iterator[Event]:
    """Yields a note if different processes wrote one-rank tables with equal settings, probably meant as one run."""
    if len(singletons) < 2:
        return
    pids = {(table.rank_list[0].pid, table.rank_list[0].host) for table in singletons}
    if len(pids) > 1 and len({str(table.settings) + str(table.program) for table in singletons}) == 1:
        yield LogNote(
            f"{count_text(len(singletons), 'table')} of one rank each with the same settings: if they were started "
            "together, the processes did not find each other and each measured alone (the singleton trap); build "
            "nccl-tests with MPI=1 and use its mpirun"
        )
