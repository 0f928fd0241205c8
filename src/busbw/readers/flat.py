"""Builds tables from formats with named fields: JSON and CSV. One placement is one flat row.

The figures stay text and pass the same arithmetic checks as those of printed tables.
"""

from collections.abc import Iterator
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
    text: str
    size: str
    side: PlacementText
    placement: Placement = "unstated"
    name: str = ""
    elements: str = ""
    """The count column."""
    dtype: str = ""
    redop: str = ""
    root: str = ""
    cycle: str = "0"
    group: int = 0
    ranks: int | None = None
    variant: str | None = None
    figure: dict[str, Any] = {}  # noqa: RUF012
    """Additional fields of `Figure` that the format has, for example statistics and samples."""

    @property
    def table(self) -> tuple[object, ...]:
        """Values that the rows of one table share."""
        return (self.name, self.variant, self.ranks)

    @property
    def row(self) -> tuple[object, ...]:
        """Values that both placements of one row share."""
        return (*self.table, self.size, self.elements, self.dtype, self.redop, self.root, self.cycle, self.group)


class FlatTableBuilder:
    """Combines up to two placements into a row, and rows into tables."""

    def __init__(
        self, format_name: str, facts: TableFacts, claims: UserClaims, source: str, has_time: bool = True
    ) -> None:
        self._format = format_name
        self._facts = facts
        self._claims = claims
        self._source = source
        self._key: tuple[object, ...] | None = None
        self._inference: TableInference | None = None
        self._first_line = 0
        self._flats: list[list[FlatPlacement]] = []
        facts.columns = facts.columns._replace(cpu_time=not has_time)

    def add(self, flat: FlatPlacement) -> Iterator[Event]:
        """Adds the next placement in file order. Yields finished chunks and refusals."""
        reason = _reject_reason(flat)
        if reason:
            yield Refusal(line=flat.line, text=flat.text[:300], reason=reason)
            return
        last = self._flats[-1] if self._flats else []
        if last and last[0].row == flat.row and all(other.placement != flat.placement for other in last):
            last.append(flat)
            return
        if flat.table != self._key:
            yield from self.end()
            self._key, self._first_line = flat.table, flat.line
        elif len(self._flats) >= CHUNK_ROWS:
            yield from self._chunk(is_last=False)
        self._flats.append([flat])

    def end(self) -> Iterator[Event]:
        """Yields the rest of the current table."""
        if self._flats:
            yield from self._chunk(is_last=True)
        self._inference = None

    def _chunk(self, *, is_last: bool) -> Iterator[Event]:
        flats, self._flats = self._flats, []
        first = flats[0][0]
        facts = self._facts
        if self._inference is None:
            facts.first_line = self._first_line
            if collective := collectives.single_collective_in(first.name):
                facts.stated_collective, facts.program = collective, facts.program or first.name
            if first.ranks:
                facts.claimed_gpus, facts.claimed_by = first.ranks, "the file"
            facts.columns = facts.columns._replace(
                placements=BOTH
                if any(flat.placement != "unstated" for group in flats for flat in group)
                else ("unstated",)
            )
            self._inference = TableInference(facts, self._claims.collective, self._source)
        rows, refused = self._inference.infer_rows([_raw(at, group) for at, group in enumerate(flats)])
        for refusal in refused:
            flat = flats[refusal.line][0]
            yield Refusal(line=flat.line, text=flat.text[:300], reason=refusal.reason)
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
                rows=tuple(_with_extra_fields(row, flats[row.line]) for row in rows),
                claimed_average_busbw_gbps=float(facts.average) if facts.average else None,
                claimed_out_of_bounds=facts.out_of_bounds,
                warnings=tuple(facts.warnings) + tuple(self._inference.closing_warnings() if is_last else ()),
            ),
            is_last,
        )


def _reject_reason(flat: FlatPlacement) -> str:
    if not flat.size.isdecimal() or len(flat.size) > 18:
        return f'"{flat.size[:40]}" is not a size'
    if flat.elements and (not flat.elements.isdecimal() or len(flat.elements) > 18):
        return f'"{flat.elements[:40]}" is not a count'
    for word in (flat.side.time, flat.side.algbw, flat.side.busbw, flat.side.wrong):
        if word and not is_value(word):
            return f'"{word[:40]}" is not a number'
    if flat.root and not flat.root.lstrip("-").isdecimal():
        return f'"{flat.root[:40]}" is not a root rank'
    return ""


def _raw(at: int, group: list[FlatPlacement]) -> RawRow:
    first = group[0]
    by_placement = {flat.placement: flat.side for flat in group}
    sides: tuple[PlacementText, ...]
    if "unstated" in by_placement:
        sides = (by_placement["unstated"],)
    else:
        sides = tuple(by_placement.get(placement, _MISSING) for placement in BOTH)
    root = int(first.root) if first.root and len(first.root) < 10 else -1
    return RawRow(
        line=at,
        text=first.text,
        size=int(first.size),
        elements=int(first.elements or 0),
        dtype=DTYPES.get(first.dtype),
        redop=first.redop if first.redop in REDOPS and first.redop != "none" else None,
        root=root if root >= 0 else None,
        sides=sides,
        timestamp=None,
        group=first.group,
    )


def _with_extra_fields(row: Row, group: list[FlatPlacement]) -> Row:
    """Adds the line, the variant and the additional fields of the figures to a row."""
    figures: dict[Placement, Figure] = {}
    for placement, figure in row.figures.items():
        more = next((flat.figure for flat in group if flat.placement == placement), {})
        figures[placement] = msgspec.structs.replace(figure, **more) if more else figure
    first = group[0]
    return msgspec.structs.replace(
        row,
        line=first.line,
        figures=figures,
        variant=first.variant,
        count=int(first.elements) if first.elements else None,
        cycle=int(first.cycle) if first.cycle.isdecimal() and first.cycle != "0" else row.cycle,
    )
