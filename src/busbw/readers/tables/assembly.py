"""Assembles lines into tables: header, device list, rows, footer. clean_line_reader.py has one assembler per process.

The rows of a table are interpreted together when the table ends (inference.py). A long table is interpreted in chunks.
A row may be broken over several lines: its beginning waits until a later line completes it.
"""

from collections.abc import Iterator
from contextlib import suppress

from busbw.logs.log import Refusal, Table
from busbw.logs.plain_rows import join_rows
from busbw.readers.tables.context import DocumentContext
from busbw.readers.tables.events import CHUNK_ROWS, Event, TableChunk, UserClaims
from busbw.readers.tables.facts import TableFacts
from busbw.readers.tables.headers import HeaderLine
from busbw.readers.tables.inference import Entry, TableInference, are_descending, single_rows
from busbw.readers.tables.layouts import (
    BOTH,
    ColumnLayout,
    NotARowError,
    RawRow,
    is_complete_with_one_placement,
    is_incomplete,
    is_short,
    parse_row,
)
from busbw.readers.tables.quantities import DTYPES
from busbw.readers.tables.uniform_rows import UniformRows
from busbw.units import count_text

_MAX_CONTINUATIONS = 40
"""Number of later lines after which an incomplete row is refused."""
_MAX_TEXT = 300
"""Characters of a refused line that are kept."""


class _PartialRow:
    """Beginning of a row that a later line may complete."""

    def __init__(self, line: int, text: str, words: list[str]) -> None:
        self.line, self.text, self.words = line, text.strip()[:_MAX_TEXT], words
        self.may_be_cut_within_word = False
        """True if two parts meet without a blank."""
        self.ends_with_blank = text.rstrip("\r\n")[-1:].isspace()
        self.continuations = 0
        """Number of lines since the beginning, also of unrelated lines."""


class TableAssembler:
    """Assembles the tables of one process."""

    def __init__(self, context: DocumentContext, claims: UserClaims, source: str) -> None:
        self._context = context
        self._claims = claims
        self._source = source
        self._facts: TableFacts | None = None
        self._inference: TableInference | None = None
        self._entries: list[Entry] = []
        """Rows that are not interpreted yet."""
        self._uniform_row_count = 0
        """Number of uniform rows among them."""
        self._pending: _PartialRow | None = None
        """Incomplete row that waits for its rest."""
        self._short_last_row: RawRow | None = None
        """Row on the last line if it is short (`is_short`): figures on the next line may belong to it."""
        self._last_columns = ColumnLayout()

    @property
    def columns(self) -> ColumnLayout:
        """Column layout of the last header."""
        return self._facts.columns if self._facts else self._last_columns

    @property
    def _has_rows(self) -> bool:
        """True if the open table has rows, also if all of them are in the chunks so far."""
        return bool(self._entries) or self._inference is not None or self._has_complete_pending

    @property
    def _has_complete_pending(self) -> bool:
        """True if the row that waits for its rest is complete unless a rest follows."""
        if self._pending is None or self._facts is None:
            return False
        return is_complete_with_one_placement(self._pending.words, self._facts.columns)

    @property
    def is_in_table(self) -> bool:
        """True if the open table has a header or rows, so that rows may follow."""
        return self._facts is not None and (self._facts.has_header or self._has_rows)

    @property
    def has_header(self) -> bool:
        """True if a header names the columns of the open table."""
        return self._facts is not None and self._facts.has_header

    @property
    def is_waiting(self) -> bool:
        """True if an incomplete row waits for its rest."""
        return self._pending is not None

    @property
    def is_idle(self) -> bool:
        """True if the next line can neither complete nor refuse an earlier row."""
        return self._pending is None and self._short_last_row is None

    @property
    def accepts_clean_rows(self) -> bool:
        """True if a row of 13 words, the number of current nccl-tests, can only be a row of the open table."""
        facts = self._facts
        return (
            facts is not None
            and (self._has_rows or facts.has_header)
            and not facts.has_footer
            and facts.columns.is_classic
            and not facts.group_ranks
            and facts.named_placements in (None, BOTH)
            and self._pending is None
        )

    def add_uniform_rows(self, rows: UniformRows) -> Iterator[Event]:
        """Adds consecutive rows of the fast parser."""
        self._entries.append(rows)
        self._uniform_row_count += len(rows.lines)
        self._short_last_row = None
        yield from self._yield_full_chunk()

    def _yield_full_chunk(self) -> Iterator[Event]:
        """Yields the rows so far as a chunk of the open table if there are enough entries or enough uniform rows."""
        if max(self._uniform_row_count, len(self._entries)) >= CHUNK_ROWS:
            yield from self._yield_chunk(is_last=False)

    def add_row(self, line: int, text: str, words: list[str]) -> Iterator[Event]:
        """Adds words that begin like a row."""
        if self._pending:
            yield from self._refuse_pending()
        facts = self._facts
        if facts is None or facts.has_footer:
            yield from self._begin_without_header(line)
        elif facts.named_placements not in (None, BOTH):
            yield self.make_refusal(
                line, text, "a line above names in-place first, but no columns: the order is unknown"
            )
            return
        elif not facts.columns.has_type and words[2] in DTYPES:
            yield from self._begin_without_header(line)
            assert self._facts is not None
            self._facts.columns = ColumnLayout()
            self._facts.warnings[:] = [  # instead of the warning of `_begin_without_header`
                "the header above these rows has no type column, so it is that of another table; the rows are read in "
                "nccl-tests' order, out of place first"
            ]
        yield from self._add_or_refuse(line, text, words)
        yield from self._yield_full_chunk()

    def refuse_wrapped_row(self) -> Iterator[Event]:
        """Refuses the row on the last line if it is short. Called if figures follow on the next line."""
        row, self._short_last_row = self._short_last_row, None
        if row is not None and self._entries and self._entries[-1] is row:
            self._entries.pop()
            yield self.make_refusal(row.line, row.text, "figures follow on the next line: the lines are wrapped")

    def continue_row(self, text: str, words: list[str]) -> bool:
        """Adds the words of a line (`text`) to the incomplete row. Returns false if no row is incomplete."""
        pending = self._pending
        if pending is None:
            return False
        pending.may_be_cut_within_word |= not pending.ends_with_blank and not text[:1].isspace()
        pending.ends_with_blank = text.rstrip("\r\n")[-1:].isspace()
        pending.words += words
        pending.continuations += 1
        facts = self._facts
        if facts is None or is_incomplete(pending.words, facts.columns):
            return True
        raw = None
        with suppress(NotARowError):
            raw = parse_row(pending.line, pending.text, pending.words, facts.columns, facts.group)
        if raw is None or pending.may_be_cut_within_word:
            pending.continuations = _MAX_CONTINUATIONS  # the next unrelated line refuses it
        else:
            self._pending = None
            self._entries.append(raw)
        return True

    def count_unrelated_line(self) -> Iterator[Event]:
        """Counts an unrelated line. An incomplete row is refused after too many of them."""
        self._short_last_row = None
        if self._pending:
            self._pending.continuations += 1
            if self._pending.continuations > _MAX_CONTINUATIONS:
                yield from self._refuse_pending()

    def starts_other_table(self, line: HeaderLine) -> bool:
        """True if a line begins another table than the open one."""
        facts = self._facts
        return line.begins_table and facts is not None and (self._has_rows or facts.has_footer)

    def refuse_rows_above_header(self, line: HeaderLine) -> Iterator[Event]:
        """Refuses the rows if a line belongs to their header, which must be above them: the log is newest first."""
        facts, entries = self._facts, self._entries
        if facts is None or facts.has_header or not entries:
            return
        if not line.is_units_line and not (line.begins_columns and are_descending(entries)):
            return
        self._entries, self._uniform_row_count = [], 0
        for row in single_rows(entries):
            yield self.make_refusal(
                row.line, row.text, "it stands above its header: the log is newest first; sort it by time"
            )

    def add_header_line(self, line_number: int, text: str, line: HeaderLine) -> bool:
        """Adds a line of a header or a footer. Returns false if the line is neither."""
        facts = self._facts
        if facts is None:
            facts = TableFacts(first_line=line_number)
            self._context.apply_to(facts)
        if not line.add_to(facts):
            return False
        caption = self._context.caption
        if facts.columns.backends and len(caption) == len(facts.columns.backends):
            facts.columns = facts.columns._replace(backends=caption)
        if text.strip("# "):  # an empty comment begins no table
            self._facts = facts
        return True

    def make_refusal(self, line: int, text: str, reason: str) -> Refusal:
        """Returns the refusal of a line that looks like a row of this table but is not one."""
        return Refusal(line=line, text=text.strip()[:_MAX_TEXT], reason=reason)

    def end_table(self) -> Iterator[Event]:
        """Ends the open table and yields its rest."""
        if self._pending:
            yield from self._refuse_pending()
        facts = self._facts
        if facts is not None and (self._has_rows or facts.program or "nThread" in facts.settings):
            yield from self._yield_chunk(is_last=True)
        if self._facts is not None:
            self._last_columns = self._facts.columns
        self._facts = self._inference = None
        self._entries, self._uniform_row_count = [], 0

    def _begin(self, line: int) -> None:
        self._facts = TableFacts(first_line=line)
        self._context.apply_to(self._facts)

    def _begin_without_header(self, line: int) -> Iterator[Event]:
        """Begins a table for a row that has no header or follows a footer, as in excerpts and mixed logs."""
        previous = self._facts
        yield from self.end_table()
        self._begin(line)
        assert self._facts is not None
        if previous is not None:
            self._facts.columns = previous.columns
            self._facts.warnings.append(
                "these rows follow the end of another table without a header of their own; tables may be mixed"
            )
        else:
            self._facts.columns = ColumnLayout()

    def _add_or_refuse(self, line: int, text: str, words: list[str]) -> Iterator[Event]:
        """Adds a row to the open table, makes it the incomplete row, or yields its refusal."""
        facts = self._facts
        assert facts is not None
        columns = facts.columns
        if is_incomplete(words, columns) and facts.has_header:
            self._pending = _PartialRow(line, text, words)
            return
        try:
            row = parse_row(line, text, words, columns, facts.group)
            self._entries.append(row)
            self._short_last_row = row if is_short(row) else None
        except NotARowError as error:
            if is_incomplete(words, columns):
                self._pending = _PartialRow(line, text, words)
            else:
                yield self.make_refusal(line, text, str(error))

    def _refuse_pending(self) -> Iterator[Event]:
        """Ends the wait for the rest of a row. Refuses the row, unless it has one placement as its header."""
        facts, pending, is_complete = self._facts, self._pending, self._has_complete_pending
        self._pending = None
        if pending is None:
            return
        reason = "the row is incomplete: some of its figures are missing"
        if facts is not None and is_complete:
            try:
                row = parse_row(pending.line, pending.text, pending.words, facts.columns, facts.group)
                self._entries.append(row)
            except NotARowError as error:
                reason = str(error)
            else:
                return
        yield self.make_refusal(pending.line, pending.text, reason)

    def _yield_chunk(self, *, is_last: bool) -> Iterator[Event]:
        facts = self._facts
        assert facts is not None
        self._inference = self._inference or TableInference(facts, self._claims.collective, self._source)
        rows, refused = self._inference.infer_rows(self._entries)
        self._entries, self._uniform_row_count = [], 0
        for refusal in refused:
            yield self.make_refusal(refusal.line, refusal.text, refusal.reason)
        warnings = [
            *facts.warnings,
            *(self._inference.closing_warnings() if is_last else []),
            *_singleton_warnings(facts, self._inference.identity.ranks),
        ]
        identity = self._inference.identity
        yield TableChunk(
            Table(
                format=_name_format(facts),
                first_line=facts.first_line,
                title=facts.title,
                program=facts.program,
                collective=identity.collective or (None if self._inference.is_mixed else facts.stated_collective),
                command=facts.command,
                program_version=facts.version,
                library=facts.library,
                ranks=identity.ranks,
                rank_list=tuple(facts.ranks),
                settings=facts.settings,
                rows=join_rows(rows, identity.collective, identity.ranks),
                complete=_is_complete(facts),
                end_reason=facts.end_reason,
                claimed_average_busbw_gbps=_parse_average(facts.average, self._inference.gbps_per_unit),
                claimed_out_of_bounds=facts.out_of_bounds,
                rank_zero_processes=len(facts.rank_zero_processes),
                warnings=tuple(dict.fromkeys(warnings)),
            ),
            is_last,
        )


def _is_complete(facts: TableFacts) -> bool | None:
    """True if the table has its footer. False if it ends early. None for an excerpt without header and footer."""
    if facts.end_reason:
        return False
    if facts.has_footer:
        return True
    has_run_header = bool(facts.program and facts.stated_collective) or "nThread" in facts.settings
    return False if has_run_header else None


def _parse_average(text: str | None, gbps_per_unit: float) -> float | None:
    """Returns the average of the footer in GB/s. None if it is missing or no finite number."""
    try:
        number = float(text) * gbps_per_unit if text else None
    except ValueError:
        return None
    return number if number is not None and number == number and abs(number) != float("inf") else None


def _singleton_warnings(facts: TableFacts, ranks: int | None) -> list[str]:
    process_count = len(facts.rank_zero_processes)
    if process_count == 1 and ranks == 1:
        return ["one rank: no data crosses a link, so busbw is 0 and algbw does not describe the machine"]
    if process_count > 1:
        return [
            f"{count_text(process_count, 'process', 'processes')} report rank 0: the processes did not find each "
            "other, and each measured alone (the singleton trap); build nccl-tests with MPI=1 and use its mpirun"
        ]
    return []


def _name_format(facts: TableFacts) -> str:
    """Names the program and the versions that print these columns."""
    columns = facts.columns
    if columns.backends:
        return "ubx_bench text"
    if facts.version:
        return f"{facts.version.split()[0]} text"
    if not columns.has_type:
        return "mscclpp-test text"
    if columns.has_one_placement and facts.has_header:
        return "nccom-test text"
    if facts.settings.get("time unit", "").startswith("ms") or columns.unit == "ms":
        return "nccl-tests text, 2.0 to 2.3"
    if columns.shows_error:
        return "nccl-tests text, 2.4 to 2.12"
    return "nccl-tests text, 2.13+" if facts.has_header else "nccl-tests text, without a header"
