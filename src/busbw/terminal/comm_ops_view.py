"""View of a table of comm_ops: for each call mean and median, over all ranks and of the slowest rank."""

from collections.abc import Sequence
from itertools import chain
from statistics import fmean, median
from typing import NamedTuple

from rich.text import Text

from busbw.collectives import COMM_OPS
from busbw.logs.log import Figure, Row, Table
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
        slowest = [_find_slowest_rank(self._table, figure) for figure in figures]
        return [
            Column("call", [plain(row.collective or "") for row in rows], is_number=False),
            Column("ranks", [_ranks_text(row) for row in rows]),
            Column("iters", [figure.stats.samples if figure.stats else None for figure in figures], weight=10),
            Column("mean", [_optional_duration_text(figure.time_us) for figure in figures]),
            Column("median", [_optional_duration_text(_median_us(figure)) for figure in figures]),
            Column("slowest", [_optional_duration_text(rank.mean_us) for rank in slowest]),
            Column("its median", [_optional_duration_text(rank.median_us) for rank in slowest], weight=15),
            Column("slowest rank", [rank.name for rank in slowest], is_number=False, weight=20),
            Column("wrong", [_wrong_cell(figure) for figure in figures], weight=25),
        ]

    def plots(self, _width: int) -> list[str | Text]:
        """Returns no plot, because calls have no common axis."""
        return []


def _median_us(figure: Figure) -> float | None:
    """Returns the median over the samples of all ranks. None without samples."""
    samples_us = list(chain(*figure.samples_us))
    return median(samples_us) if samples_us else None


def _ranks_text(row: Row) -> str:
    """Number of ranks that make the call. If the test has more ranks, also their number: "2 of 4"."""
    if row.ranks is None:
        return ""
    if row.lifecycle is None or row.lifecycle.test_ranks == row.ranks:
        return str(row.ranks)
    return f"{row.ranks} of {row.lifecycle.test_ranks}"


def _optional_duration_text(time_us: float | None) -> str:
    return "" if time_us is None else duration_text(time_us)


class _SlowestRank(NamedTuple):
    """The rank with the longest mean time. Empty if it is unknown."""

    mean_us: float | None = None
    median_us: float | None = None
    name: str = ""


def _find_slowest_rank(table: Table, figure: Figure) -> _SlowestRank:
    # The slowest rank is unknown if any rank lacks samples.
    if not figure.samples_us or not all(figure.samples_us):
        return _SlowestRank()
    means_us = [fmean(samples_us) for samples_us in figure.samples_us]
    rank = max(range(len(means_us)), key=means_us.__getitem__)
    host = next((listed.host for listed in table.rank_list if listed.rank == rank), None)
    name = f"rank {rank}" + (f" on {host}" if host else "")
    return _SlowestRank(means_us[rank], median(figure.samples_us[rank]), name)


def _wrong_cell(figure: Figure) -> Cell:
    if figure.wrong_elements:
        return Cell(str(figure.wrong_elements), "bold red")
    return Cell("0" if figure.check == "checked" else "")
