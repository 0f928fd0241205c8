"""Reads published tables: one size per line, with bandwidths or latencies of one or more variants.

line_reader.py passes the cells. The header determines the metric of a column (published_columns.py): time, algbw,
busbw or speed-up. A bandwidth column with an unclear header is left out and named in a warning. A missing time, algbw
or busbw is derived and listed in `Figure.derived`. Printed speed-ups are recomputed (speedups.py).
"""

import re
from collections.abc import Iterator

from busbw.collectives import algbw_factor, bandwidth_ratio
from busbw.logs.log import Figure, Placement, Refusal, Row, Table
from busbw.readers.other_tables import speedups
from busbw.readers.other_tables.grids import CellGrid
from busbw.readers.other_tables.published_columns import MetricColumn, Subtable, parse_subtables
from busbw.readers.tables.context import DocumentContext, gpus_in
from busbw.readers.tables.events import Event, TableChunk, UserClaims
from busbw.readers.tables.quantities import PrintedNumber, parse_number, parse_size
from busbw.units import bandwidth_gbps, transfer_time_us

_US_PER_UNIT = {"us": 1.0, "µs": 1.0, "μs": 1.0, "usec": 1.0, "ms": 1e3, "msec": 1e3, "ns": 1e-3, "s": 1e6, "sec": 1e6}
_GBPS_PER_UNIT = {
    "GB/s": 1.0,
    "GBps": 1.0,
    "Gbps": 0.125,
    "Gb/s": 0.125,
    "Gbit/s": 0.125,
    "MB/s": 1e-3,
    "MBps": 1e-3,
    "GiB/s": 2**30 / 1e9,
}
_NODES_TIMES_GPUS = re.compile(
    r"\b(\d{1,6})\s*(?:nodes?\s*)?[x\u00d7*]\s*(\d{1,6})\s*(?:GPUs?|ranks?)\b", re.IGNORECASE
)
_PER_NODE = re.compile(r"\bper\s+node\b|/\s*node\b", re.IGNORECASE)
_VARIANT_RANKS = re.compile(r"\b(\d{1,6})\s*(?:x\s*)?(GPUs?|ranks?|nodes?)\b", re.IGNORECASE)
_ANY_UNIT = "T"
"""Unit with which a fraction, such as 0.5, is a size too. Large sizes in bytes would be too large with it."""
MAX_HEADER_ROWS = 4
"""Maximum number of rows above the first size."""


def read_published_tables(grid: CellGrid, context: DocumentContext, claims: UserClaims) -> Iterator[Event]:
    """Yields the tables in the cells; nothing if the cells are not sizes and figures."""
    header_row_count = _count_header_rows(grid)
    if not 0 < header_row_count < len(grid.rows):
        return
    header_rows = [cells for _, cells in grid.rows[:header_row_count]]
    subtables = [
        subtable
        for subtable in parse_subtables(header_rows, context, claims)
        if any(column.metric != "speedup" for column in subtable.columns)
    ]
    widths = sorted({len(cells) for cells in header_rows})
    if subtables and len(widths) > 1:
        for line, cells in grid.rows[header_row_count:]:
            reason = f"the rows of the header have {widths[0]} to {widths[-1]} columns: the columns are unclear"
            yield _make_refusal(line, cells, reason)
        return
    for subtable in subtables:
        yield from _read_subtable(grid, header_row_count, subtable, context)


def find_header(grid: CellGrid) -> list[tuple[int, list[str]]]:
    """Returns the rows above the first size. Empty if the table begins with a size, or has no size in its beginning."""
    return grid.rows[: _count_header_rows(grid)]


def begins_with_size(grid: CellGrid) -> bool:
    """True if the first row begins with a size, so that the header is not part of the table."""
    return parse_size(grid.rows[0][1][0]) is not None


def _count_header_rows(grid: CellGrid) -> int:
    """Returns the number of rows above the first size; 0 if no size follows the longest header."""
    for index, (_, cells) in enumerate(grid.rows[: MAX_HEADER_ROWS + 1]):
        if cells and (parse_size(cells[0]) is not None or parse_size(cells[0], _ANY_UNIT) is not None):
            return index
    return 0


def _read_subtable(
    grid: CellGrid, header_row_count: int, subtable: Subtable, context: DocumentContext
) -> Iterator[Event]:
    """Yields the refused rows of a subtable, and then its table."""
    heading_ranks = gpus_in(context.heading) or gpus_in(context.first_heading)
    variants = list(dict.fromkeys(column.variant for column in subtable.columns if column.metric != "speedup"))
    rows: list[Row] = []
    speedup_checks = speedups.SpeedupChecks()
    for line, cells in grid.rows[header_row_count:]:
        size_cell = cells[subtable.size_column] if subtable.size_column < len(cells) else ""
        size = parse_size(size_cell, subtable.size_unit)
        if size is None:
            if any(parse_number(cells[column.position]) for column in subtable.columns if column.position < len(cells)):
                yield _make_refusal(line, cells, f'"{size_cell[:40]}" is not a size')
            continue
        claimed_speedups: dict[str | None, float] = {}
        for column in subtable.columns:
            if column.metric == "speedup" and column.position < len(cells):
                claimed_speedups |= speedup_checks.check(size, cells, column.position, column.header, subtable.columns)
        for variant in variants:
            ranks = _ranks_of_variant(variant, heading_ranks)
            columns = [column for column in subtable.columns if column.variant == variant]
            figures, reason = _parse_figures(cells, columns, size, subtable, ranks)
            if reason:
                yield _make_refusal(line, cells, reason)
            elif figures:
                rows.append(
                    Row(
                        line=line,
                        collective=subtable.collective,
                        size_bytes=size,
                        dtype=subtable.dtype,
                        ranks=ranks,
                        variant=variant,
                        claimed_speedup=claimed_speedups.get(variant),
                        figures=figures,
                    )
                )
    if rows:
        # A variant may have another number of ranks than the heading. Then no number is that of the table.
        table_ranks = heading_ranks if all(row.ranks == heading_ranks for row in rows) else None
        yield TableChunk(_make_table(grid, subtable, context, table_ranks, rows, speedup_checks.warnings()))


def _ranks_of_variant(variant: str | None, heading_ranks: int | None) -> int | None:
    """Returns the number of ranks in the header of a column: "16 GPUs", "2 x 8 GPUs". Otherwise that of the heading."""
    text = variant or ""
    if product := _NODES_TIMES_GPUS.search(text):
        return int(product[1]) * int(product[2])
    match = _VARIANT_RANKS.search(text)
    if match is None or _PER_NODE.search(text):
        return heading_ranks
    return None if match[2].lower().startswith("node") else int(match[1])  # the GPUs of a node are not known


def _make_table(
    grid: CellGrid,
    subtable: Subtable,
    context: DocumentContext,
    ranks: int | None,
    rows: list[Row],
    speedup_warnings: list[str],
) -> Table:
    warnings = [*speedup_warnings]
    if subtable.unclear:
        warnings.append(f"left out: {', '.join(subtable.unclear)}: the header does not say if it is algbw or busbw")
    settings = {"sizes": "read as binary: 1 MB is 1,048,576 bytes"}
    if ranks:
        settings["ranks from"] = "the heading"
    return Table(
        format="published table",
        first_line=grid.first_line,
        title=context.heading or context.first_heading or None,
        collective=subtable.collective,
        ranks=ranks,
        settings=settings,
        rows=tuple(rows),
        warnings=tuple(warnings),
    )


def _make_refusal(line: int, cells: list[str], reason: str) -> Refusal:
    return Refusal(line=line, text=" | ".join(cells)[:300], reason=reason)


def _parse_figures(
    cells: list[str], columns: list[MetricColumn], size: int, subtable: Subtable, ranks: int | None
) -> tuple[dict[Placement, Figure], str]:
    """Returns the figures of one variant in a row, and the reason if a cell is invalid (empty if all are valid)."""
    values: dict[Placement, dict[str, float]] = {}
    for column in columns:
        if column.metric == "speedup":
            continue
        cell = cells[column.position] if column.position < len(cells) else ""
        if cell.strip(" -\u2013\u2014*") in ("", "N/A", "n/a", "NA", "nan"):
            continue
        number = parse_number(cell)
        if number is None or number.value < 0:
            return {}, f'"{cell[:40]}" is not a number'
        value = _convert_to_base_unit(number, column)
        if value is None:
            return {}, f'"{cell[:40]}" has no unit of {column.metric}'
        values.setdefault(column.placement, {})[column.metric] = value
    figures = {
        placement: _derive_missing(stated, size, subtable.collective, ranks) for placement, stated in values.items()
    }
    return figures, ""


def _convert_to_base_unit(number: PrintedNumber, column: MetricColumn) -> float | None:
    """Returns microseconds or GB/s; None if the unit does not fit the metric or a time has no unit."""
    unit = number.unit or column.unit
    scale = _US_PER_UNIT.get(unit) if column.metric == "time" else _GBPS_PER_UNIT.get(unit or "GB/s")
    return None if scale is None else number.value * scale


def _derive_missing(stated: dict[str, float], size: int, collective: str | None, ranks: int | None) -> Figure:
    """Returns a figure with the stated values (us and GB/s) and those that follow from them."""
    time, algbw, busbw = stated.get("time"), stated.get("algbw"), stated.get("busbw")
    ratio = bandwidth_ratio(collective, ranks)  # busbw / algbw
    factor = algbw_factor(collective, ranks)  # algbw / (size / time)
    derived: list[str] = []
    if algbw is None and busbw is not None and ratio:
        algbw = busbw / ratio
        derived.append("algbw_gbps")
    if algbw is None and time and factor is not None:
        algbw = bandwidth_gbps(size, time, factor)
        derived.append("algbw_gbps")
    if time is None and algbw and factor is not None:
        time = transfer_time_us(size, algbw, factor)
        derived.append("time_us")
    if busbw is None and algbw is not None and ratio is not None:
        busbw = algbw * ratio
        derived.append("busbw_gbps")
    return Figure(time_us=time, algbw_gbps=algbw, busbw_gbps=busbw, derived=tuple(derived))
