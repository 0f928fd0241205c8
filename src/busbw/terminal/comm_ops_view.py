"""View of a table of comm_ops: for each call mean and median, over all ranks and of the slowest rank."""

from collections.abc import Sequence
from itertools import chain
from statistics import fmean, median
from typing import NamedTuple

from rich.text import Text

from busbw.collectives import COMM_OPS
from busbw.logs import Figure, Row, Table
from busbw.terminal.tables import Cell, Column
from busbw.units import duration_text, plain


class CommOpsView:
    """View of a table of comm_ops: each row is a call of a communicator's life."""

    title = COMM_OPS

    def __init__(self, table: Table) -> None:
        self._table = table

    def columns(self, rows: Sequence[Row]) -> list[Column]:
        """Returns the columns of these rows of the table."""
        figures = [next(iter(row.figures.values()), Figure()) for row in rows]
        medians_us = [
            median(samples_us) if (samples_us := list(chain(*figure.samples_us))) else None for figure in figures
        ]
        slowest = [_find_slowest_rank(self._table, figure) for figure in figures]
        return [
            Column("call", [Cell(plain(row.collective or "")) for row in rows], right=False),
            Column("ranks", [Cell(_ranks_text(row)) for row in rows]),
            Column("iters", [Cell(str(figure.stats.samples) if figure.stats else "") for figure in figures], weight=10),
            Column("mean", [Cell(_duration(figure.time_us)) for figure in figures]),
            Column("median", [Cell(_duration(median_us)) for median_us in medians_us]),
            Column("slowest", [Cell(_duration(rank.mean_us)) for rank in slowest]),
            Column("its median", [Cell(_duration(rank.median_us)) for rank in slowest], weight=15),
            Column("slowest rank", [Cell(rank.name) for rank in slowest], right=False, weight=20),
            Column("wrong", [_wrong_cell(figure) for figure in figures], weight=25),
        ]

    def plots(self, _width: int) -> list[str | Text]:
        """Returns no plot, because calls have no common axis."""
        return []


def _ranks_text(row: Row) -> str:
    """Number of ranks that make the call, and that of the test if it is larger: "2 of 4"."""
    if row.ranks is None or row.lifecycle is None or row.lifecycle.test_ranks == row.ranks:
        return "" if row.ranks is None else str(row.ranks)
    return f"{row.ranks} of {row.lifecycle.test_ranks}"


def _duration(time_us: float | None) -> str:
    return "" if time_us is None else duration_text(time_us)


class _SlowestRank(NamedTuple):
    """The rank with the longest mean time. Empty without samples."""

    mean_us: float | None = None
    median_us: float | None = None
    name: str = ""


def _find_slowest_rank(table: Table, figure: Figure) -> _SlowestRank:
    means_us = [fmean(samples_us) for samples_us in figure.samples_us if samples_us]
    if not means_us or len(means_us) < len(figure.samples_us):
        return _SlowestRank()
    rank = max(range(len(means_us)), key=means_us.__getitem__)
    host = next((listed.host for listed in table.rank_list if listed.rank == rank), None)
    name = f"rank {rank}" + (f" on {host}" if host else "")
    return _SlowestRank(means_us[rank], median(figure.samples_us[rank]), name)


def _wrong_cell(figure: Figure) -> Cell:
    if figure.wrong_elements:
        return Cell(str(figure.wrong_elements), "bold red")
    return Cell("0" if figure.check == "checked" else "")
