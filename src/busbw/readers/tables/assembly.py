"""Puts lines together into tables: header, device list, rows, footer; one assembler for each process that wrote.

Rows of one table are settled together when it ends, or piece by piece where it is long.
"""

from collections.abc import Iterator

from busbw.logs import Refusal, Table
from busbw.readers.tables import headers
from busbw.readers.tables.context import DocumentContext
from busbw.readers.tables.events import CHUNK_ROWS, Event, TableChunk, UserClaims
from busbw.readers.tables.fast_rows import SplitLine
from busbw.readers.tables.headers import TableFacts
from busbw.readers.tables.inference import Entry, TableInference
from busbw.readers.tables.layouts import ColumnLayout, NotARowError, needs_more, parse
from busbw.units import count_text

_MAX_CONTINUATIONS = 40
_MAX_TEXT = 300


class _PartialRow:
    """The beginning of a row whose end may come in a later line."""

    def __init__(self, line: int, text: str, words: list[str]) -> None:
        self.line, self.text, self.words = line, text, words
        self.continuations = 0


class TableAssembler:
    """The tables that one process wrote."""

    def __init__(self, context: DocumentContext, claims: UserClaims, source: str) -> None:
        self._context = context
        self._claims = claims
        self._source = source
        self._facts: TableFacts | None = None
        self._settler: TableInference | None = None
        self._entries: list[Entry] = []
        self._pending: _PartialRow | None = None
        self._takes_quick = False
        self._has_rows = False
        self._last_columns = ColumnLayout()

    @property
    def columns(self) -> ColumnLayout:
        """What the last header said."""
        return self._facts.columns if self._facts else self._last_columns

    @property
    def is_in_table(self) -> bool:
        """Whether rows may be expected."""
        return self._facts is not None and (self._facts.has_header or self._has_rows)

    @property
    def is_waiting(self) -> bool:
        """Whether the rest of a row may come."""
        return self._pending is not None

    def quick_row(self, line: int, words: list[str]) -> bool:
        """Takes a row of thirteen words, if nothing stands against it; the settler looks closer."""
        if not self._takes_quick:
            return False
        self._entries.append(SplitLine(line, words))
        self._has_rows = True
        return True

    @property
    def is_full(self) -> bool:
        """Whether it is time for a piece."""
        return len(self._entries) >= CHUNK_ROWS

    def piece(self) -> Iterator[Event]:
        """The rows so far."""
        yield from self._piece(is_last=False)

    def row(self, line: int, text: str, words: list[str]) -> Iterator[Event]:
        """Takes words that begin like a row."""
        if self._pending:
            yield from self._refuse_pending()
        if self._facts is None or self._facts.has_footer:
            yield from self._begin_headerless(line)
        yield from self._try(line, text, words)
        facts = self._facts
        self._takes_quick = (
            self._pending is None and facts is not None and facts.columns.is_classic and not facts.group_ranks
        )
        if self.is_full:
            yield from self._piece(is_last=False)

    def continues(self, words: list[str]) -> bool:
        """Takes the rest of a row that was broken; whether it was one."""
        pending = self._pending
        if pending is None:
            return False
        pending.words += words
        pending.continuations += 1
        facts = self._facts
        if facts is not None and not needs_more(pending.words, facts.columns):
            self._pending = None
            try:
                self._entries.append(parse(pending.line, pending.text, pending.words, facts.columns, facts.group))
                self._has_rows = True
            except NotARowError:
                self._pending = pending
                pending.continuations = _MAX_CONTINUATIONS
        return True

    def wait(self) -> Iterator[Event]:
        """Another line came between; a broken row does not wait for ever."""
        if self._pending:
            self._pending.continuations += 1
            if self._pending.continuations > _MAX_CONTINUATIONS:
                yield from self._refuse_pending()

    def starts_other_table(self, text: str) -> bool:
        """Whether a line is the head of another table than the one that is being read."""
        facts = self._facts
        if facts is None or not (self._has_rows or facts.has_footer):
            return False
        return headers.begins_run(text) or headers.is_column_header(text)

    def header(self, line: int, text: str) -> bool:
        """Takes a line of a header or a footer; whether it was one."""
        facts = self._facts
        if facts is None:
            facts = TableFacts(first_line=line)
            self._context.apply_to(facts)
        if not headers.parse_header_line(text, facts):
            return False
        self._takes_quick = False
        caption = self._context.caption
        if facts.columns.backends and len(caption) == len(facts.columns.backends):
            facts.columns = facts.columns._replace(backends=caption)
        if text.strip("# "):
            self._facts = facts
        return True

    def refuse(self, line: int, text: str, reason: str) -> Refusal:
        """A line that looks like a row of this table and is none."""
        return Refusal(line=line, text=text.strip()[:_MAX_TEXT], reason=reason)

    def end(self) -> Iterator[Event]:
        """No more lines for this table."""
        self._takes_quick = False
        if self._pending:
            yield from self._refuse_pending()
        if self._facts is not None and (self._has_rows or self._facts.program or "nThread" in self._facts.settings):
            yield from self._piece(is_last=True)
        if self._facts is not None:
            self._last_columns = self._facts.columns
        self._facts = self._settler = None
        self._entries = []
        self._has_rows = False

    def _begin(self, line: int) -> None:
        self._facts = TableFacts(first_line=line)
        self._context.apply_to(self._facts)

    def _begin_headerless(self, line: int) -> Iterator[Event]:
        """Rows without a header, or behind the footer: those of a table that was torn out or mixed with another."""
        before = self._facts
        yield from self.end()
        self._begin(line)
        assert self._facts is not None
        if before is not None:
            self._facts.columns = before.columns
            self._facts.warnings.append(
                "these rows stand behind the end of another table and have no header of their own; tables may be mixed"
            )
        else:
            self._facts.columns = ColumnLayout()

    def _try(self, line: int, text: str, words: list[str]) -> Iterator[Event]:
        facts = self._facts
        assert facts is not None
        columns = facts.columns
        if needs_more(words, columns) and facts.has_header:
            self._pending = _PartialRow(line, text.strip()[:_MAX_TEXT], words)
            return
        try:
            self._entries.append(parse(line, text, words, columns, facts.group))
            self._has_rows = True
        except NotARowError as error:
            if needs_more(words, columns):
                self._pending = _PartialRow(line, text.strip()[:_MAX_TEXT], words)
            else:
                yield self.refuse(line, text, str(error))

    def _refuse_pending(self) -> Iterator[Event]:
        pending, self._pending = self._pending, None
        if pending is not None:
            yield self.refuse(pending.line, pending.text, "the row is cut: some of its figures are missing")

    def _piece(self, *, is_last: bool) -> Iterator[Event]:
        facts = self._facts
        assert facts is not None
        self._settler = self._settler or TableInference(facts, self._claims.collective, self._source)
        rows, refused = self._settler.infer_rows(self._entries)
        self._entries = []
        for refusal in refused:
            yield self.refuse(refusal.line, refusal.text, refusal.reason)
        warnings = [
            *facts.warnings,
            *(self._settler.closing_warnings() if is_last else []),
            *_singleton_warning(facts, self._settler.identity.ranks),
        ]
        identity = self._settler.identity
        yield TableChunk(
            Table(
                format=_format(facts),
                first_line=facts.first_line,
                title=facts.title,
                program=facts.program,
                collective=identity.collective or facts.stated_collective,
                command=facts.command,
                program_version=facts.version,
                library=facts.library,
                ranks=identity.ranks,
                rank_list=tuple(facts.ranks),
                settings=facts.settings,
                rows=tuple(rows),
                complete=_complete(facts),
                end_reason=facts.end_reason,
                claimed_average_busbw_gbps=_number(facts.average),
                claimed_out_of_bounds=facts.out_of_bounds,
                warnings=tuple(dict.fromkeys(warnings)),
            ),
            is_last,
        )


def _complete(facts: TableFacts) -> bool | None:
    """None for an excerpt, which has neither head nor foot."""
    if facts.end_reason:
        return False
    if facts.has_footer:
        return True
    return False if (facts.program and facts.stated_collective) or "nThread" in facts.settings else None


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text else None
    except ValueError:
        return None
    return number if number is not None and number == number and abs(number) != float("inf") else None


def _singleton_warning(facts: TableFacts, ranks: int | None) -> list[str]:
    if len(facts.leaders) == 1 and ranks == 1:
        return ["one rank: nothing crosses a link, so busbw is 0 and algbw says nothing of the machine"]
    if len(facts.leaders) > 1:
        return [
            f"{count_text(len(facts.leaders), 'process', 'processes')} call themselves rank 0: they did not find each "
            "other, and each measured alone (the singleton trap); build nccl-tests with MPI=1 and use its mpirun"
        ]
    return []


def _format(facts: TableFacts) -> str:
    """The program and the years of its columns."""
    columns = facts.columns
    if columns.backends:
        return "ubx_bench text"
    if facts.version:
        return f"{facts.version.split()[0]} text"
    if not columns.has_type:
        return "mscclpp-test text"
    if columns.single and facts.has_header:
        return "nccom-test text"
    if facts.settings.get("time unit", "").startswith("ms") or columns.unit == "ms":
        return "nccl-tests text, 2.0 to 2.3"
    if columns.shows_error:
        return "nccl-tests text, 2.4 to 2.12"
    return "nccl-tests text, 2.13+" if facts.has_header else "nccl-tests text, without a header"
