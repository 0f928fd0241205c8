"""Builds tables from formats with named fields: JSON and CSV. Their readers pass one `RowFields` per object or line.

The figures stay text, so that they pass the same arithmetic checks as those of printed tables (inference.py).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from operator import attrgetter
from types import MappingProxyType
from typing import Any

import msgspec

from busbw.logs.log import Placement, Refusal, Table
from busbw.logs.plain_rows import join_rows
from busbw.readers.tables import collectives
from busbw.readers.tables.events import CHUNK_ROWS, Event, TableChunk, UserClaims
from busbw.readers.tables.facts import TableFacts
from busbw.readers.tables.inference import Entry, TableInference
from busbw.readers.tables.layouts import BOTH, PlacementText, RawRow
from busbw.readers.tables.quantities import DTYPES, REDOPS, is_value
from busbw.readers.tables.uniform_rows import UniformRows

_MISSING = PlacementText("N/A", "N/A", "N/A", "N/A")


class RowFields(msgspec.Struct, kw_only=True, frozen=True, gc=False):
    """Fields of one row, as text. In some formats, each placement of a row has its own object or line."""

    line: int
    format_text: Callable[[Placement], str]
    """Returns the line or object with a placement, for the message on a refused row."""
    size: str
    """The size column, in bytes."""
    figure_texts: dict[Placement, PlacementText]
    name: str = ""
    """Text that may name the collective."""
    elements: str = ""
    """The count column."""
    dtype: str = ""
    redop: str = ""
    root: str = ""
    cycle: str = "0"
    group: int = 0
    ranks: int | None = None
    variant: str | None = None
    """Backend or kernel, if the file compares several."""
    extra_figure_fields: dict[Placement, dict[str, Any]] = {}
    """Additional fields of `Figure` that the format has, for example statistics and samples."""

    @property
    def table_key(self) -> tuple[object, ...]:
        """Values that the rows of one table share."""
        return (self.name, self.variant, self.ranks)

    def is_continued_by(self, other: "RowFields") -> bool:
        """True if the next object or line has the other placement of this row."""
        return self.figure_texts.keys().isdisjoint(other.figure_texts) and _row_key(self) == _row_key(other)

    def text_of(self, placement: Placement) -> str:
        """Returns the text of the message on a refused placement."""
        return self.format_text(placement)[:300]


_row_key = attrgetter("name", "variant", "ranks", "size", "elements", "dtype", "redop", "root", "cycle", "group")
"""Returns the values that both placements of one row share."""


class TableBuilder:
    """Combines rows into tables.

    Args:
        format_name: Name of the format for `Table.format`.
        facts: Facts about the file that apply to all of its tables.
        claims: Facts that the user states.
        source: Name of the log for errors.
        has_cpu_time: True if the times are CPU times (-C).
        table_fields: Fields of `Table` that only the document states, such as its start time.
    """

    def __init__(
        self,
        format_name: str,
        facts: TableFacts,
        claims: UserClaims,
        source: str,
        *,
        has_cpu_time: bool = False,
        table_fields: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self._format = format_name
        self._facts = facts
        self._claims = claims
        self._source = source
        self._table_fields = table_fields
        self._inference: TableInference | None = None
        self._first_row: RowFields | None = None
        """First row of the table."""
        self._last_row: RowFields | None = None
        """Last row, if the next object or line may have its other placement."""
        self._entries: list[Entry] = []
        """Rows of the next chunk before the last row."""
        self._row_count = 0
        """Number of rows in `_entries`."""
        facts.columns = facts.columns._replace(has_cpu_time=has_cpu_time)

    def add(self, row: RowFields) -> Iterator[Event]:
        """Adds the next object or line in file order. Yields finished chunks and refusals."""
        reasons = {placement: _reject_reason(row, texts) for placement, texts in row.figure_texts.items()}
        if any(reasons.values()):
            for placement, reason in reasons.items():
                if reason:
                    yield Refusal(line=row.line, text=row.text_of(placement), reason=reason)
            row = _without_placements(row, reasons)
        if not row.figure_texts:
            return
        if self._last_row is not None and self._last_row.is_continued_by(row):
            self._last_row = join_placements(self._last_row, row)
            return
        yield from self._begin_row(row)
        self._last_row = row

    def is_continued_by(self, row: RowFields) -> bool:
        """True if the next object or line has the other placement of the last row."""
        return self._last_row is not None and self._last_row.is_continued_by(row)

    def add_uniform_rows(self, rows: UniformRows, first_row: RowFields) -> Iterator[Event]:
        """Adds consecutive uniform rows of one table. `first_row` is the first of them. Yields finished chunks."""
        yield from self._begin_row(first_row)
        free_count = CHUNK_ROWS - self._row_count
        if len(rows.lines) > free_count:
            for part in rows.split(free_count):
                yield from self.add_uniform_rows(part, first_row)  # it only names their table
            return
        self._entries.append(rows)
        self._row_count += len(rows.lines)

    def _begin_row(self, row: RowFields) -> Iterator[Event]:
        """Ends the current table or chunk if the next row does not belong to it."""
        self._end_row()
        if self._first_row is None or row.table_key != self._first_row.table_key:
            yield from self.end_table()
            self._first_row = row
        elif self._row_count >= CHUNK_ROWS:
            yield from self._yield_chunk(self._first_row, is_last=False)

    def _end_row(self) -> None:
        if self._last_row is not None:
            self._entries.append(make_raw_row(self._last_row))
            self._row_count += 1
            self._last_row = None

    def end_table(self) -> Iterator[Event]:
        """Yields the rest of the current table."""
        self._end_row()
        if self._entries and self._first_row is not None:
            yield from self._yield_chunk(self._first_row, is_last=True)
        self._inference = None

    def _yield_chunk(self, first_row: RowFields, *, is_last: bool) -> Iterator[Event]:
        entries, self._entries, self._row_count = self._entries, [], 0
        if self._inference is None:
            # Each table has its own facts, because inference adds settings.
            facts = replace(self._facts, first_line=first_row.line, settings=dict(self._facts.settings))
            if collective := collectives.single_collective_in(first_row.name):
                facts.stated_collective = collective
                facts.program = facts.program or first_row.name
            if first_row.ranks:
                facts.claimed_gpus = first_row.ranks
                facts.claimed_by = "the file"
            has_placements = any(isinstance(entry, UniformRows) or len(entry.placement_texts) > 1 for entry in entries)
            facts.columns = facts.columns._replace(
                placements=BOTH if has_placements else ("unstated",),
                omits_operator=not first_row.redop,
                omits_root=not first_row.root,
            )
            self._inference = TableInference(facts, self._claims.collective, self._source)
        facts = self._inference.facts
        rows, refused = self._inference.infer_rows(entries)
        yield from refused
        identity = self._inference.identity
        table = Table(
            format=self._format,
            first_line=facts.first_line,
            program=facts.program,
            collective=identity.collective,
            command=facts.command,
            program_version=facts.version,
            library=facts.library,
            ranks=identity.ranks,
            rank_list=tuple(facts.ranks),
            settings=facts.settings,
            rows=join_rows(rows, identity.collective, identity.ranks),
            claimed_average_busbw_gbps=float(facts.average) if facts.average else None,
            claimed_out_of_bounds=facts.out_of_bounds,
            warnings=tuple(facts.warnings) + tuple(self._inference.closing_warnings() if is_last else ()),
        )
        yield TableChunk(msgspec.structs.replace(table, **self._table_fields), is_last)


def _reject_reason(row: RowFields, texts: PlacementText) -> str:
    """Returns why a field of one placement is invalid. Empty if all are valid."""
    if not row.size.isdecimal() or len(row.size) > 18:
        return f'"{row.size[:40]}" is not a size'
    if row.elements and (not row.elements.isdecimal() or len(row.elements) > 18):
        return f'"{row.elements[:40]}" is not a count'
    for text in (texts.time, texts.algbw, texts.busbw, texts.wrong):
        if text and not is_value(text):
            return f'"{text[:40]}" is not a number'
    if row.root and not row.root.lstrip("-").isdecimal():
        return f'"{row.root[:40]}" is not a root rank'
    return ""


def _without_placements(row: RowFields, reasons: dict[Placement, str]) -> RowFields:
    """Returns the row without the placements that have a reason for their refusal."""
    valid_texts = {placement: texts for placement, texts in row.figure_texts.items() if not reasons[placement]}
    valid_fields = {
        placement: fields for placement, fields in row.extra_figure_fields.items() if placement in valid_texts
    }
    return msgspec.structs.replace(row, figure_texts=valid_texts, extra_figure_fields=valid_fields)


def join_placements(row: RowFields, other: RowFields) -> RowFields:
    """Returns the row with the placements of both."""
    return msgspec.structs.replace(
        row,
        figure_texts=row.figure_texts | other.figure_texts,
        extra_figure_fields=row.extra_figure_fields | other.extra_figure_fields,
    )


def make_raw_row(fields: RowFields) -> RawRow:
    """Returns a row in the form of the full parser."""
    texts = fields.figure_texts
    placement_texts: tuple[PlacementText, ...]
    if "unstated" in texts:
        placement_texts = (texts["unstated"],)
    else:
        placement_texts = tuple(texts.get(placement, _MISSING) for placement in BOTH)
    root = int(fields.root) if fields.root and len(fields.root) < 10 else -1
    return RawRow(
        line=fields.line,
        text=fields.text_of(next(iter(texts))),
        size=int(fields.size),
        elements=int(fields.elements) if fields.elements else None,
        dtype=DTYPES.get(fields.dtype),
        redop=fields.redop if fields.redop in REDOPS and fields.redop != "none" else None,
        root=root if root >= 0 else None,
        placement_texts=placement_texts,
        timestamp=None,
        group=fields.group,
        variant=fields.variant,
        cycle=int(fields.cycle) if fields.cycle.isdecimal() else 0,
        figure_fields=fields.extra_figure_fields,
    )
