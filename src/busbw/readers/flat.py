"""Tables from formats that have names for everything and no layout: JSON and CSV. One placement is one flat row.

The figures go through the same arithmetic as printed ones, as the text that their format has.
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
    """What the format has beyond the figures: statistics, samples."""

    @property
    def table(self) -> tuple[object, ...]:
        """What the rows of one table have in common."""
        return (self.name, self.variant, self.ranks)

    @property
    def row(self) -> tuple[object, ...]:
        """What the placements of one row have in common."""
        return (*self.table, self.size, self.elements, self.dtype, self.redop, self.root, self.cycle, self.group)


class FlatTableBuilder:
    """Puts flat rows together: two placements to a row, rows to tables."""

    def __init__(
        self, format_name: str, facts: TableFacts, claims: UserClaims, source: str, has_time: bool = True
    ) -> None:
        self._format = format_name
        self._facts = facts
        self._claims = claims
        self._source = source
        self._key: tuple[object, ...] | None = None
        self._settler: TableInference | None = None
        self._first_line = 0
        self._flats: list[list[FlatPlacement]] = []
        facts.columns = facts.columns._replace(cpu_time=not has_time)

    def add(self, flat: FlatPlacement) -> Iterator[Event]:
        """Takes the next one in the order of the file."""
        reason = _no_row(flat)
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
            yield from self._piece(is_last=False)
        self._flats.append([flat])

    def end(self) -> Iterator[Event]:
        """No more rows for this table."""
        if self._flats:
            yield from self._piece(is_last=True)
        self._settler = None

    def _piece(self, *, is_last: bool) -> Iterator[Event]:
        flats, self._flats = self._flats, []
        first = flats[0][0]
        facts = self._facts
        if self._settler is None:
            facts.first_line = self._first_line
            if collective := collectives.the_one_in(first.name):
                facts.stated_collective, facts.program = collective, facts.program or first.name
            if first.ranks:
                facts.claimed_gpus, facts.claimed_by = first.ranks, "the file"
            facts.columns = facts.columns._replace(
                placements=BOTH
                if any(flat.placement != "unstated" for group in flats for flat in group)
                else ("unstated",)
            )
            self._settler = TableInference(facts, self._claims.collective, self._source)
        rows, refused = self._settler.infer_rows([_raw(at, group) for at, group in enumerate(flats)])
        for refusal in refused:
            flat = flats[refusal.line][0]
            yield Refusal(line=flat.line, text=flat.text[:300], reason=refusal.reason)
        identity = self._settler.identity
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
                rows=tuple(_finished(row, flats[row.line]) for row in rows),
                claimed_average_busbw_gbps=float(facts.average) if facts.average else None,
                claimed_out_of_bounds=facts.out_of_bounds,
                warnings=tuple(facts.warnings) + tuple(self._settler.closing_warnings() if is_last else ()),
            ),
            is_last,
        )


def _no_row(flat: FlatPlacement) -> str:
    if not flat.size.isdecimal() or len(flat.size) > 18:
        return f'"{flat.size[:40]}" is no size'
    if flat.elements and (not flat.elements.isdecimal() or len(flat.elements) > 18):
        return f'"{flat.elements[:40]}" is no count'
    for word in (flat.side.time, flat.side.algbw, flat.side.busbw, flat.side.wrong):
        if word and not is_value(word):
            return f'"{word[:40]}" is no figure'
    if flat.root and not flat.root.lstrip("-").isdecimal():
        return f'"{flat.root[:40]}" is no root'
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


def _finished(row: Row, group: list[FlatPlacement]) -> Row:
    """With its line, its variant, and what its figures have beyond the arithmetic."""
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
