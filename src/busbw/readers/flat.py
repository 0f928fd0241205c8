"""Builds tables from formats with named fields: JSON and CSV. Their readers pass one `FlatPlacement` per placement.

A `FlatPlacement` also has the fields of its row, such as the size. The figures stay text, so that they pass the same
arithmetic checks as those of printed tables (inference.py).
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from busbw.logs import Figure, Placement, Refusal, Row, Table
from busbw.readers.tables import collectives
from busbw.readers.tables.events import CHUNK_ROWS, Event, TableChunk, UserClaims
from busbw.readers.tables.headers import TableFacts
from busbw.readers.tables.inference import TableInference
from busbw.readers.tables.layouts import BOTH, PlacementText, RawRow
from busbw.readers.tables.quantities import DTYPES, REDOPS, is_value

_MISSING = PlacementText("N/A", "N/A", "N/A", "N/A")


class FlatPlacement(NamedTuple):
    """One placement of one row, as text."""

    line: int
    format_text: Callable[[], str]
    """Returns the line or object, for the message on a refused row."""
    size: str
    """The size column, in bytes."""
    figure_texts: PlacementText
    placement: Placement = "unstated"
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
    extra_figure_fields: dict[str, Any] = {}  # noqa: RUF012
    """Additional fields of `Figure` that the format has, for example statistics and samples."""

    @property
    def table_key(self) -> tuple[object, ...]:
        """Values that the rows of one table share."""
        return (self.name, self.variant, self.ranks)

    @property
    def row_key(self) -> tuple[object, ...]:
        """Values that both placements of one row share."""
        return (*self.table_key, self.size, self.elements, self.dtype, self.redop, self.root, self.cycle, self.group)


class FlatTableBuilder:
    """Combines up to two placements into a row, and rows into tables.

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
        self._rows: list[list[FlatPlacement]] = []
        facts.columns = facts.columns._replace(has_cpu_time=not has_time)

    def add(self, flat: FlatPlacement) -> Iterator[Event]:
        """Adds the next placement in file order. Yields finished chunks and refusals."""
        reason = _reject_reason(flat)
        if reason:
            yield Refusal(line=flat.line, text=flat.format_text()[:300], reason=reason)
            return
        last_row = self._rows[-1] if self._rows else []
        is_same_row = bool(last_row) and last_row[0].row_key == flat.row_key
        if is_same_row and flat.placement not in {earlier.placement for earlier in last_row}:
            last_row.append(flat)
            return
        if flat.table_key != self._table_key:
            yield from self.end_table()
            self._table_key, self._first_line = flat.table_key, flat.line
        elif len(self._rows) >= CHUNK_ROWS:
            yield from self._yield_chunk(is_last=False)
        self._rows.append([flat])

    def end_table(self) -> Iterator[Event]:
        """Yields the rest of the current table."""
        if self._rows:
            yield from self._yield_chunk(is_last=True)
        self._inference = None

    def _yield_chunk(self, *, is_last: bool) -> Iterator[Event]:
        placements_by_row, self._rows = self._rows, []
        first = placements_by_row[0][0]
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
                flat.placement != "unstated" for placements in placements_by_row for flat in placements
            )
            facts.columns = facts.columns._replace(placements=BOTH if has_placements else ("unstated",))
            self._inference = TableInference(facts, self._claims.collective, self._source)
        # The index takes the place of the line number, so that each result finds its placements again.
        rows, refused = self._inference.infer_rows(
            [_make_raw_row(index, placements) for index, placements in enumerate(placements_by_row)]
        )
        for refusal in refused:
            flat = placements_by_row[refusal.line][0]
            yield Refusal(line=flat.line, text=flat.format_text()[:300], reason=refusal.reason)
        identity = self._inference.identity
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
                rows=tuple(_with_extra_fields(row, placements_by_row[row.line]) for row in rows),
                claimed_average_busbw_gbps=float(facts.average) if facts.average else None,
                claimed_out_of_bounds=facts.out_of_bounds,
                warnings=tuple(facts.warnings) + tuple(self._inference.closing_warnings() if is_last else ()),
            ),
            is_last,
        )


def _reject_reason(flat: FlatPlacement) -> str:
    """Returns why a field is invalid. Empty if all are valid."""
    if not flat.size.isdecimal() or len(flat.size) > 18:
        return f'"{flat.size[:40]}" is not a size'
    if flat.elements and (not flat.elements.isdecimal() or len(flat.elements) > 18):
        return f'"{flat.elements[:40]}" is not a count'
    for text in (flat.figure_texts.time, flat.figure_texts.algbw, flat.figure_texts.busbw, flat.figure_texts.wrong):
        if text and not is_value(text):
            return f'"{text[:40]}" is not a number'
    if flat.root and not flat.root.lstrip("-").isdecimal():
        return f'"{flat.root[:40]}" is not a root rank'
    return ""


def _make_raw_row(index: int, placements: list[FlatPlacement]) -> RawRow:
    first = placements[0]
    by_placement = {flat.placement: flat.figure_texts for flat in placements}
    placement_texts: tuple[PlacementText, ...]
    if "unstated" in by_placement:
        placement_texts = (by_placement["unstated"],)
    else:
        placement_texts = tuple(by_placement.get(placement, _MISSING) for placement in BOTH)
    root = int(first.root) if first.root and len(first.root) < 10 else -1
    return RawRow(
        line=index,
        text="",  # a message on the row has the text of its placement
        size=int(first.size),
        elements=int(first.elements or 0),
        dtype=DTYPES.get(first.dtype),
        redop=first.redop if first.redop in REDOPS and first.redop != "none" else None,
        root=root if root >= 0 else None,
        placement_texts=placement_texts,
        timestamp=None,
        group=first.group,
    )


def _with_extra_fields(row: Row, placements: list[FlatPlacement]) -> Row:
    """Adds the line, the variant and the additional fields of the figures to a row."""
    figures: dict[Placement, Figure] = {}
    for placement, figure in row.figures.items():
        extra_fields = next((flat.extra_figure_fields for flat in placements if flat.placement == placement), {})
        figures[placement] = msgspec.structs.replace(figure, **extra_fields) if extra_fields else figure
    first = placements[0]
    return msgspec.structs.replace(
        row,
        line=first.line,
        figures=figures,
        variant=first.variant,
        count=int(first.elements) if first.elements else None,
        cycle=int(first.cycle) if first.cycle.isdecimal() and first.cycle != "0" else row.cycle,
    )
