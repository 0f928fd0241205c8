"""Reads published tables: one size per line, with bandwidths or latencies of one or more variants.

The header determines the meaning of a column. A bandwidth column with an unclear header is left out and named in a
warning. A missing time, algbw or busbw is derived and listed in `Figure.derived`. Printed speed-ups are recomputed.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from busbw.logs import Figure, Placement, Refusal, Row, Table
from busbw.readers import speedups
from busbw.readers.grids import CellGrid
from busbw.readers.tables import collectives
from busbw.readers.tables.context import DocumentContext, gpus_in
from busbw.readers.tables.events import Event, TableChunk, UserClaims
from busbw.readers.tables.quantities import DTYPES, PrintedNumber, parse_number, size_bytes

_SIZE_HEADER = re.compile(r"\b(?:size|bytes|payload|message|msg)\b", re.IGNORECASE)
_METRICS = (
    ("speedup", r"speed[\s-]?up|\bratio\b"),
    ("busbw", r"bus[\s_-]?(?:bw|bandwidth)"),
    ("algbw", r"alg(?:o|orithm)?[\s_-]?(?:bw|bandwidth)"),
    ("time", r"latency|time|duration"),
)
_METRIC_WORDS = re.compile("|".join(pattern for _, pattern in _METRICS), re.IGNORECASE)
_BANDWIDTH = re.compile(r"bandwidth|throughput|[GM]i?B/s|[GM]Bps|[GM]bps|[GM]b/s", re.IGNORECASE)
_UNIT = re.compile(
    r"(?<![A-Za-z])(us|µs|μs|usec|ms|msec|ns|s|sec|GB/s|GBps|Gbps|Gb/s|Gbit/s|MB/s|MBps|GiB/s)(?![A-Za-z])"
)
_TIMES_US = {"us": 1.0, "µs": 1.0, "μs": 1.0, "usec": 1.0, "ms": 1e3, "msec": 1e3, "ns": 1e-3, "s": 1e6, "sec": 1e6}
_RATES_GBPS = {
    "GB/s": 1.0,
    "GBps": 1.0,
    "Gbps": 0.125,
    "Gb/s": 0.125,
    "Gbit/s": 0.125,
    "MB/s": 1e-3,
    "MBps": 1e-3,
    "GiB/s": 2**30 / 1e9,
}
_IN_PLACE = re.compile(r"(?<!of-)(?<!of )\bin[\s-]place", re.IGNORECASE)
_OUT_OF_PLACE = re.compile(r"out[\s-]of[\s-]place", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


class MetricColumn(NamedTuple):
    """A column of figures."""

    at: int
    metric: str
    unit: str
    """Empty if the cells contain the unit."""
    variant: str | None
    placement: Placement
    text: str


class ColumnBlock(NamedTuple):
    """A column of sizes with its figure columns. Some tables have several such blocks side by side."""

    size_column: int
    columns: list[MetricColumn]
    collective: str | None
    dtype: str | None
    unclear: list[str]


def read_grid(grid: CellGrid, context: DocumentContext, claims: UserClaims) -> Iterator[Event]:
    """Yields the tables in the cells; nothing if the cells are not sizes and figures."""
    begin = _header_rows(grid)
    if not 0 < begin < len(grid.rows):
        return
    head = [cells for _, cells in grid.rows[:begin]]
    blocks = list(_blocks(head, context, claims))
    for block in blocks:
        if any(column.metric != "speedup" for column in block.columns):
            yield from _read_block(grid, begin, block, context)


def _header_rows(grid: CellGrid) -> int:
    """Returns the number of rows above the first size."""
    for at, (_, cells) in enumerate(grid.rows[:5]):
        if cells and size_bytes(cells[0]) is not None:
            return at
    return 0


def _blocks(head: list[list[str]], context: DocumentContext, claims: UserClaims) -> Iterator[ColumnBlock]:
    width = max(map(len, head))
    texts = [[row[at] for row in head if at < len(row)] for at in range(width)]
    sizes = [
        at for at, parts in enumerate(texts) if parts and _SIZE_HEADER.search(parts[-1]) and not _metric(parts[-1])
    ]
    if not sizes or sizes[0] != 0:
        return
    for first, end in zip(sizes, [*sizes[1:], width], strict=True):
        columns, unclear = [], []
        for at in range(first + 1, end):
            column = _column(at, texts[at], context)
            if column:
                columns.append(column)
            elif texts[at] and _BANDWIDTH.search(" ".join(texts[at])):
                unclear.append(" ".join(dict.fromkeys(texts[at])))
        words = " ".join(dict.fromkeys(part for at in range(first, end) for part in texts[at]))
        dtypes = {
            DTYPES[word.lower()] for word in _WORD.findall(words) if word.lower() in DTYPES and word.lower() != "int"
        }
        yield ColumnBlock(
            first,
            columns,
            claims.collective
            or collectives.single_collective_in(words)
            or collectives.single_collective_in(context.heading),
            next(iter(dtypes)) if len(dtypes) == 1 else None,
            unclear,
        )


def _metric(text: str) -> str | None:
    return next((name for name, pattern in _METRICS if re.search(pattern, text, re.IGNORECASE)), None)


def _column(at: int, parts: list[str], context: DocumentContext) -> MetricColumn | None:
    own = parts[-1] if parts else ""
    text = " ".join(dict.fromkeys(parts))
    metric = _metric(own) or _metric(text)
    if metric is None:
        return None
    unit = _UNIT.search(own) or _UNIT.search(text)
    placement: Placement = "unstated"
    if _OUT_OF_PLACE.search(text):
        placement = "out_of_place"
    elif _IN_PLACE.search(text) or context.in_place_only:
        placement = "in_place"
    return MetricColumn(at, metric, unit[1] if unit else "", _variant(own), placement, text)


def _variant(text: str) -> str | None:
    """Returns a column's header without metric, unit and placement, for example "Generic Kernel"."""
    for pattern in (_METRIC_WORDS, _UNIT, _IN_PLACE, _OUT_OF_PLACE):
        text = pattern.sub(" ", text)
    text = re.sub(r"\(\s*\)|\[\s*\]", " ", text)
    return " ".join(text.strip(" \t-\u2013\u2014:,;/()[]*_`").split()) or None


def _read_block(grid: CellGrid, begin: int, block: ColumnBlock, context: DocumentContext) -> Iterator[Event]:
    ranks = gpus_in(context.heading) or gpus_in(context.document)
    variants = list(dict.fromkeys(column.variant for column in block.columns if column.metric != "speedup"))
    rows: list[Row] = []
    checks = speedups.SpeedupChecks()
    for line, cells in grid.rows[begin:]:
        size = size_bytes(cells[block.size_column]) if block.size_column < len(cells) else None
        if size is None:
            if any(parse_number(cells[column.at]) for column in block.columns if column.at < len(cells)):
                yield _refusal(
                    line, cells, f'"{" ".join(cells[block.size_column : block.size_column + 1])[:40]}" is not a size'
                )
            continue
        claims: dict[str | None, float] = {}
        for column in block.columns:
            if column.metric == "speedup" and column.at < len(cells):
                claims |= checks.check(size, cells, column.at, column.text, block.columns)
        for variant in variants:
            figures, reason = _figures(cells, [c for c in block.columns if c.variant == variant], size, block, ranks)
            if reason:
                yield _refusal(line, cells, reason)
            elif figures:
                rows.append(
                    Row(
                        line=line,
                        collective=block.collective,
                        size_bytes=size,
                        dtype=block.dtype,
                        ranks=ranks,
                        variant=variant,
                        claimed_speedup=claims.get(variant),
                        figures=figures,
                    )
                )
    if not rows:
        return
    warnings = [*checks.warnings()]
    if block.unclear:
        warnings.append(f"left out: {', '.join(block.unclear)}: the header does not say if it is algbw or busbw")
    settings = {"sizes": "read as binary: 1 MB is 1,048,576 bytes"}
    if ranks:
        settings["ranks from"] = "the heading"
    yield TableChunk(
        Table(
            format="published table",
            first_line=grid.first_line,
            title=context.heading or context.document or None,
            collective=block.collective,
            ranks=ranks,
            settings=settings,
            rows=tuple(rows),
            warnings=tuple(warnings),
        )
    )


def _refusal(line: int, cells: list[str], reason: str) -> Refusal:
    return Refusal(line=line, text=" | ".join(cells)[:300], reason=reason)


def _figures(
    cells: list[str], columns: list[MetricColumn], size: int, block: ColumnBlock, ranks: int | None
) -> tuple[dict[Placement, Figure], str]:
    """Returns the figures of one variant, and the reason if a cell is invalid."""
    values: dict[Placement, dict[str, float]] = {}
    for column in columns:
        if column.metric == "speedup":
            continue
        cell = cells[column.at] if column.at < len(cells) else ""
        if cell.strip(" -\u2013\u2014*") in ("", "N/A", "n/a", "NA", "nan"):
            continue
        number = parse_number(cell)
        if number is None or number.value < 0:
            return {}, f'"{cell[:40]}" is not a number'
        value = in_base_unit(number, column)
        if value is None:
            return {}, f'"{cell[:40]}" has no unit of {column.metric}'
        values.setdefault(column.placement, {})[column.metric] = value
    figures = {}
    for placement, given in values.items():
        figures[placement] = _derived(given, size, block.collective, ranks)
    return figures, ""


def in_base_unit(number: PrintedNumber, column: MetricColumn) -> float | None:
    """Returns microseconds or GB/s; None if the unit does not fit the metric or a time has no unit."""
    unit = number.unit or column.unit
    scale = _TIMES_US.get(unit) if column.metric == "time" else _RATES_GBPS.get(unit or "GB/s")
    return None if scale is None else number.value * scale


def _derived(given: dict[str, float], size: int, collective: str | None, ranks: int | None) -> Figure:
    time, algbw, busbw = given.get("time"), given.get("algbw"), given.get("busbw")
    factor = collectives.factor(collective, ranks) if collective and ranks else None
    data = size if collective != "hypercube" else size * (ranks - 1) / ranks if ranks else None
    added: list[str] = []
    if algbw is None and busbw is not None and factor:
        algbw, added = busbw / factor, [*added, "algbw_gbps"]
    if algbw is None and time and data is not None:
        algbw, added = data / time / 1e3, [*added, "algbw_gbps"]
    if time is None and algbw and data is not None:
        time, added = data / algbw / 1e3, [*added, "time_us"]
    if busbw is None and algbw is not None and factor is not None:
        busbw, added = algbw * factor, [*added, "busbw_gbps"]
    return Figure(time_us=time, algbw_gbps=algbw, busbw_gbps=busbw, derived=tuple(added))
