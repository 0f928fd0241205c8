"""Columns of a table of comm_ops: for each call its mean, its median until the last rank, and its slowest rank."""

from collections.abc import Sequence
from statistics import fmean

from busbw.logs import Figure, Row, Table
from busbw.terminal.tables import Cell, Column
from busbw.units import duration_text


def comm_ops_columns(table: Table, rows: Sequence[Row]) -> list[Column]:
    """Returns the columns. `rows`: those of the table that are shown."""
    figures = [next(iter(row.figures.values()), Figure()) for row in rows]
    medians_us = [figure.stats.median_us if figure.stats else None for figure in figures]
    slowest = [_slowest_rank(table, figure) for figure in figures]
    return [
        Column("call", [Cell(row.collective or "") for row in rows], right=False),
        Column("ranks", [Cell("" if row.ranks is None else str(row.ranks)) for row in rows]),
        Column("iters", [Cell(str(figure.stats.samples) if figure.stats else "") for figure in figures], weight=10),
        Column("mean", [Cell(_duration(figure.time_us)) for figure in figures]),
        Column("median", [Cell(_duration(median_us)) for median_us in medians_us]),
        Column("slowest", [Cell(time) for time, _ in slowest]),
        Column("slowest rank", [Cell(rank) for _, rank in slowest], right=False, weight=20),
        Column("wrong", [_wrong_cell(figure) for figure in figures], weight=25),
    ]


def _duration(time_us: float | None) -> str:
    return "" if time_us is None else duration_text(time_us)


def _slowest_rank(table: Table, figure: Figure) -> tuple[str, str]:
    """Returns the mean time and the name of the rank that takes longest. Empty without samples."""
    means_us = [fmean(samples_us) for samples_us in figure.samples_us if samples_us]
    if not means_us or len(means_us) < len(figure.samples_us):
        return "", ""
    rank = max(range(len(means_us)), key=means_us.__getitem__)
    host = next((each.host for each in table.rank_list if each.rank == rank), None)
    return duration_text(means_us[rank]), f"rank {rank}" + (f" on {host}" if host else "")


def _wrong_cell(figure: Figure) -> Cell:
    if figure.wrong_elements:
        return Cell(str(figure.wrong_elements), "bold red")
    return Cell("0" if figure.check == "checked" else "")
