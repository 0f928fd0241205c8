"""Compact form of rows without any special figure, from which a `Row` is made when it is needed.

Most rows of a long log are plain: the data of both placements is checked and right, and nothing else is known of them.
To make a `Row` with its figures for each takes about as long as to read it, and to store them takes longer.
"""

from collections.abc import Sequence

from msgspec import Struct

from busbw.logs import Figure, Row
from busbw.sequences import SequenceOnDemand


class PlainFigures(Struct, array_like=True, frozen=True, gc=False):
    """Figures of one placement with checked and right data."""

    time_us: float
    algbw_gbps: float
    busbw_gbps: float

    def figure(self) -> Figure:
        """Returns them as the figure of a row."""
        return Figure(
            time_us=self.time_us,
            algbw_gbps=self.algbw_gbps,
            busbw_gbps=self.busbw_gbps,
            check="checked",
            wrong_elements=0,
        )


class PlainRow(Struct, array_like=True, frozen=True, gc=False):
    """One row. The fields are those of `Row`."""

    line: int
    size_bytes: int
    count: int
    dtype: str
    redop: str | None
    root: int | None
    cycle: int
    out_of_place: PlainFigures
    in_place: PlainFigures

    def row(self, collective: str | None, ranks: int | None) -> Row:
        """Returns it as a row of a table with this collective and number of ranks."""
        return Row(
            line=self.line,
            collective=collective,
            size_bytes=self.size_bytes,
            count=self.count,
            dtype=self.dtype,
            redop=self.redop,
            root=self.root,
            ranks=ranks,
            cycle=self.cycle,
            figures={"out_of_place": self.out_of_place.figure(), "in_place": self.in_place.figure()},
        )


class PlainRows(SequenceOnDemand[Row]):
    """The rows of a table, all of which are plain."""

    def __init__(self, collective: str | None, ranks: int | None, plain_rows: Sequence[PlainRow]) -> None:
        super().__init__(len(plain_rows), lambda: tuple(row.row(collective, ranks) for row in plain_rows))
        self.content = (collective, ranks, plain_rows)
        """Arguments that make equal rows again."""


def join_rows(rows: Sequence[Row | PlainRow], collective: str | None, ranks: int | None) -> Sequence[Row]:
    """Returns the rows of a table: as `PlainRows` if all of them are or can be plain, otherwise as a tuple."""
    if any(isinstance(row, PlainRow) for row in rows):
        plain_rows = [row if isinstance(row, PlainRow) else _to_plain_row(row) for row in rows]
        known_rows = [row for row in plain_rows if row is not None]
        if len(known_rows) == len(rows):
            return PlainRows(collective, ranks, known_rows)
    return tuple(row.row(collective, ranks) if isinstance(row, PlainRow) else row for row in rows)


def _to_plain_row(row: Row) -> PlainRow | None:
    """Returns the plain form of a row. None if it has none."""
    placements = [
        PlainFigures(figure.time_us, figure.algbw_gbps, figure.busbw_gbps)
        for figure in row.figures.values()
        if figure.time_us is not None and figure.algbw_gbps is not None and figure.busbw_gbps is not None
    ]
    if len(placements) != 2 or row.count is None or row.dtype is None:
        return None
    plain_row = PlainRow(
        row.line, row.size_bytes, row.count, row.dtype, row.redop, row.root, row.cycle, placements[0], placements[1]
    )
    return plain_row if plain_row.row(row.collective, row.ranks) == row else None
