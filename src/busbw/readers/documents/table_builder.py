"""Builds tables from formats with named fields: JSON and CSV. Their readers pass one `RowFields` per object or line.

The figures stay text, so that they pass the same arithmetic checks as those of printed tables (inference.py).
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from busbw.logs import Figure, Placement, Refusal, Row, Table
from busbw.readers.tables import collectives
from busbw.readers.tables.events import CHUNK_ROWS, Event, TableChunk, UserClaims
from busbw.readers.tables.facts import TableFacts
from busbw.readers.tables.inference import Entry, TableInference
from busbw.readers.tables.layouts import BOTH, PlacementText, RawRow
from busbw.readers.tables.plain_rows import PlainColumns, join_rows
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

    def refuse(self, placement: Placement, reason: str) -> Refusal:
        """Returns the refusal of a placement."""
        return Refusal(line=self.line, text=self.format_text(placement)[:300], reason=reason)


_row_key = attrgetter("name", "variant", "ranks", "size", "elements", "dtype", "redop", "root", "cycle", "group")
"""Returns the values that both placements of one row share."""


class UniformFields(UniformRows, frozen=True, gc=False):
    """Uniform rows of a document. Their `lines` are indices among the rows of a chunk."""

    source_lines: list[int]
    """Line number of each row."""

    @abstractmethod
    def row_fields(self, position: int) -> RowFields:
        """Parses one row on its own. It is needed if the row is refused, or decides about its table."""

    def raw_row(self, index: int) -> RawRow:
        """Returns one row in the form of the full parser."""
        return _make_raw_row(self.lines[index], self.row_fields(index))


class TableBuilder:
    """Combines rows into tables.

    Args:
        format_name: Name of the format for `Table.format`.
        facts: Facts about the file that apply to all of its tables.
        claims: Facts that the user states.
        source: Name of the log for errors.
        has_time: False if the times are CPU times (-C).
    """

    def __init__(
        self, format_name: str, facts: TableFacts, claims: UserClaims, source: str, has_time: bool = True
    ) -> None:
        self._format = format_name
        self._facts = facts
        self._claims = claims
        self._source = source
        self._table_key: tuple[object, ...] | None = None
        self._inference: TableInference | None = None
        self._first_line = 0
        self._rows: list[RowFields | UniformFields] = []
        """Rows of the next chunk. Uniform rows are repeated for each of them, so that an index finds the row."""
        facts.columns = facts.columns._replace(has_cpu_time=not has_time)

    def add(self, row: RowFields) -> Iterator[Event]:
        """Adds the next object or line in file order. Yields finished chunks and refusals."""
        reasons = {placement: _reject_reason(row, texts) for placement, texts in row.figure_texts.items()}
        if any(reasons.values()):
            for placement, reason in reasons.items():
                if reason:
                    yield row.refuse(placement, reason)
            row = _without_placements(row, reasons)
        if not row.figure_texts:
            return
        last_row = self._rows[-1] if self._rows else None
        if isinstance(last_row, RowFields) and last_row.is_continued_by(row):
            self._rows[-1] = _join_placements(last_row, row)
            return
        yield from self._begin_row(row.table_key, row.line)
        self._rows.append(row)

    def add_uniform_rows(self, rows: UniformFields, table_key: tuple[object, ...]) -> Iterator[Event]:
        """Adds consecutive uniform rows, which share their `RowFields.table_key`. Yields finished chunks."""
        yield from self._begin_row(table_key, rows.source_lines[0])
        first_index, count = len(self._rows), len(rows.lines)
        rows = msgspec.structs.replace(rows, lines=list(range(first_index, first_index + count)))
        self._rows += [rows] * count

    def _begin_row(self, table_key: tuple[object, ...], line: int) -> Iterator[Event]:
        """Ends the current table or chunk if the next row does not belong to it."""
        if table_key != self._table_key:
            yield from self.end_table()
            self._table_key, self._first_line = table_key, line
        elif len(self._rows) >= CHUNK_ROWS:
            yield from self._yield_chunk(is_last=False)

    def end_table(self) -> Iterator[Event]:
        """Yields the rest of the current table."""
        if self._rows:
            yield from self._yield_chunk(is_last=True)
        self._inference = None

    def _yield_chunk(self, *, is_last: bool) -> Iterator[Event]:
        all_rows, self._rows = self._rows, []
        first = _fields_at(all_rows, 0)
        facts = self._facts
        if self._inference is None:
            facts.first_line = self._first_line
            if collective := collectives.single_collective_in(first.name):
                facts.stated_collective = collective
                facts.program = facts.program or first.name
            if first.ranks:
                facts.claimed_gpus = first.ranks
                facts.claimed_by = "the file"
            has_placements = any(
                isinstance(row, UniformFields) or row.figure_texts.keys() != {"unstated"} for row in all_rows
            )
            facts.columns = facts.columns._replace(placements=BOTH if has_placements else ("unstated",))
            self._inference = TableInference(facts, self._claims.collective, self._source)
        # The index takes the place of the line number, so that each result finds its `RowFields` again.
        rows, refused = self._inference.infer_rows(list(_make_entries(all_rows)))
        for refusal in refused:
            fields = _fields_at(all_rows, refusal.line)
            yield fields.refuse(next(iter(fields.figure_texts)), refusal.reason)
        identity = self._inference.identity
        finished_rows = [_finish(row, all_rows) for row in rows]
        yield TableChunk(
            Table(
                format=self._format,
                first_line=self._first_line,
                program=facts.program,
                collective=identity.collective,
                command=facts.command,
                program_version=facts.version,
                library=facts.library,
                ranks=identity.ranks,
                rank_list=tuple(facts.ranks),
                settings=facts.settings,
                rows=join_rows(finished_rows, identity.collective, identity.ranks),
                claimed_average_busbw_gbps=float(facts.average) if facts.average else None,
                claimed_out_of_bounds=facts.out_of_bounds,
                warnings=tuple(facts.warnings) + tuple(self._inference.closing_warnings() if is_last else ()),
            ),
            is_last,
        )


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


def _join_placements(row: RowFields, other: RowFields) -> RowFields:
    """Returns the row with the placements of both."""
    return msgspec.structs.replace(
        row,
        figure_texts=row.figure_texts | other.figure_texts,
        extra_figure_fields=row.extra_figure_fields | other.extra_figure_fields,
    )


def _make_raw_row(index: int, fields: RowFields) -> RawRow:
    texts = fields.figure_texts
    placement_texts: tuple[PlacementText, ...]
    if "unstated" in texts:
        placement_texts = (texts["unstated"],)
    else:
        placement_texts = tuple(texts.get(placement, _MISSING) for placement in BOTH)
    root = int(fields.root) if fields.root and len(fields.root) < 10 else -1
    return RawRow(
        line=index,
        text="",  # a message on the row has the text of its `RowFields`
        size=int(fields.size),
        elements=int(fields.elements or 0),
        dtype=DTYPES.get(fields.dtype),
        redop=fields.redop if fields.redop in REDOPS and fields.redop != "none" else None,
        root=root if root >= 0 else None,
        placement_texts=placement_texts,
        timestamp=None,
        group=fields.group,
    )


def _fields_at(rows: Sequence[RowFields | UniformFields], index: int) -> RowFields:
    row = rows[index]
    return row if isinstance(row, RowFields) else row.row_fields(index - row.lines[0])


def _line_at(rows: Sequence[RowFields | UniformFields], index: int) -> int:
    row = rows[index]
    return row.line if isinstance(row, RowFields) else row.source_lines[index - row.lines[0]]


def _make_entries(rows: Sequence[RowFields | UniformFields]) -> Iterator[Entry]:
    """Yields the rows for their inference."""
    for index, row in enumerate(rows):
        if isinstance(row, RowFields):
            yield _make_raw_row(index, row)
        elif index == row.lines[0]:
            yield row


def _finish(row: Row | PlainColumns, all_rows: Sequence[RowFields | UniformFields]) -> Row | PlainColumns:
    """Adds what inference does not need to a row, or to several, that inference returned."""
    if isinstance(row, PlainColumns):
        return msgspec.structs.replace(row, lines=[_line_at(all_rows, index) for index in row.lines])
    return _with_extra_fields(row, _fields_at(all_rows, row.line))


def _with_extra_fields(row: Row, fields: RowFields) -> Row:
    """Adds the line, the variant and the additional fields of the figures to a row."""
    figures: dict[Placement, Figure] = dict(row.figures)
    for placement, extra_fields in fields.extra_figure_fields.items():
        if placement in figures:
            figures[placement] = msgspec.structs.replace(figures[placement], **extra_fields)
    return msgspec.structs.replace(
        row,
        line=fields.line,
        figures=figures,
        variant=fields.variant,
        count=int(fields.elements) if fields.elements else None,
        cycle=int(fields.cycle) if fields.cycle.isdecimal() and fields.cycle != "0" else row.cycle,
    )
