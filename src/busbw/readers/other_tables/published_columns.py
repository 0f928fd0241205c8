"""Parses the header of a published table: the metric, unit, variant and placement of each column."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from busbw.logs.log import Placement
from busbw.readers.tables.collectives import single_collective_in
from busbw.readers.tables.context import DocumentContext
from busbw.readers.tables.events import UserClaims
from busbw.readers.tables.quantities import DTYPES

_SIZE_HEADER = re.compile(r"\b(?:size|bytes|payload|message|msg)\b", re.IGNORECASE)
_ELEMENTS = re.compile(r"\belem(?:ent)?s?\b", re.IGNORECASE)
"""Sizes in elements are not read: their number of bytes is not known."""
_SIZE_UNIT = re.compile(r"(?<![A-Za-z0-9])(?<![0-9] )([KMGT])i?B(?![A-Za-z/])", re.IGNORECASE)
"""Unit of the sizes, but not that of a number, as in "8 B to 1 GB"."""
_METRICS = (
    ("speedup", re.compile(r"speed[\s-]?up|\bratio\b", re.IGNORECASE)),
    ("busbw", re.compile(r"bus[\s_-]?(?:bw|bandwidth)", re.IGNORECASE)),
    ("algbw", re.compile(r"alg(?:o|orithm)?[\s_-]?(?:bw|bandwidth)", re.IGNORECASE)),
    ("time", re.compile(r"latency|time|duration", re.IGNORECASE)),
)
"""Metrics with their patterns. The first metric that fits a header is used: "busbw ratio" is a speed-up."""
_METRIC_WORDS = re.compile("|".join(pattern.pattern for _, pattern in _METRICS), re.IGNORECASE)
_BANDWIDTH = re.compile(r"bandwidth|throughput|[GM]i?B/s|[GM]Bps|[GM]bps|[GM]b/s", re.IGNORECASE)
"""A bandwidth of any kind. Only algbw and busbw are metrics, because other bandwidths cannot be interpreted."""
_UNIT = re.compile(
    r"(?<![A-Za-z])(us|µs|μs|usec|ms|msec|ns|s|sec|GB/s|GBps|Gbps|Gb/s|Gbit/s|MB/s|MBps|GiB/s)(?![A-Za-z])"
)
_IN_PLACE = re.compile(r"\bin[\s-]place", re.IGNORECASE)
_OUT_OF_PLACE = re.compile(r"out[\s-]of[\s-]place", re.IGNORECASE)
_EMPTY_BRACKETS = re.compile(r"\(\s*\)|\[\s*\]")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_HEADER_DTYPES = {word: dtype for word, dtype in DTYPES.items() if word != "int"}
"""Element types by their names in a header. "int" is left out, because it may abbreviate another word."""


class MetricColumn(NamedTuple):
    """A column of figures."""

    position: int
    """Position in a row, from 0."""
    metric: str
    """Name in `_METRICS`."""
    unit: str
    """Empty if the header has none; then the cells may have one."""
    variant: str | None
    """Library or kernel that the column belongs to. None if the header names none."""
    placement: Placement
    header: str
    """The whole header of the column."""


class Subtable(NamedTuple):
    """A column of sizes with its figure columns. Some published tables have several side by side."""

    size_column: int
    columns: list[MetricColumn]
    collective: str | None
    dtype: str | None
    size_unit: str
    """K, M, G or T if the header of the sizes states a unit, as in "Size (MB)". Otherwise empty."""
    unclear: list[str]
    """Headers of bandwidth columns that do not say if they are algbw or busbw."""


def parse_subtables(header_rows: list[list[str]], context: DocumentContext, claims: UserClaims) -> Iterator[Subtable]:
    """Yields the subtables that the header rows describe. Yields nothing if the first column has no sizes."""
    width = max(map(len, header_rows))
    # The texts above each column, from top to bottom.
    header_parts = [[row[index] for row in header_rows if index < len(row)] for index in range(width)]
    size_columns = [index for index, parts in enumerate(header_parts) if parts and _is_size_header(parts[-1])]
    if not size_columns or size_columns[0] != 0:
        return
    for first, end in zip(size_columns, [*size_columns[1:], width], strict=True):
        columns, unclear = [], []
        for index in range(first + 1, end):
            column = _parse_column(index, header_parts[index], context)
            if column:
                columns.append(column)
            elif _BANDWIDTH.search(" ".join(header_parts[index])):
                unclear.append(_join_distinct(header_parts[index]))
        header_text = _join_distinct(part for index in range(first, end) for part in header_parts[index])
        lower_words = [word.lower() for word in _WORD.findall(header_text)]
        dtypes = {_HEADER_DTYPES[word] for word in lower_words if word in _HEADER_DTYPES}
        named_collective = single_collective_in(header_text)
        yield Subtable(
            size_column=first,
            columns=columns,
            collective=claims.collective or named_collective or single_collective_in(context.heading),
            dtype=dtypes.pop() if len(dtypes) == 1 else None,
            size_unit=size_unit[1] if (size_unit := _SIZE_UNIT.search(header_parts[first][-1])) else "",
            unclear=unclear,
        )


def _join_distinct(parts: Iterable[str]) -> str:
    """Joins the texts of header cells. A text is in several cells if the cell of a title spans rows or columns."""
    return " ".join(dict.fromkeys(parts))


def _is_size_header(text: str) -> bool:
    is_size = _SIZE_HEADER.search(text) is not None and _ELEMENTS.search(text) is None
    return is_size and _find_metric(text) is None


def _find_metric(text: str) -> str | None:
    return next((name for name, pattern in _METRICS if pattern.search(text)), None)


def _parse_column(index: int, parts: list[str], context: DocumentContext) -> MetricColumn | None:
    last_part = parts[-1] if parts else ""  # the header row directly above the figures
    whole_header = _join_distinct(parts)
    metric = _find_metric(last_part) or _find_metric(whole_header)
    if metric is None:
        return None
    unit = _UNIT.search(last_part) or _UNIT.search(whole_header)
    placement: Placement = "unstated"
    if _OUT_OF_PLACE.search(whole_header):
        placement = "out_of_place"
    elif _IN_PLACE.search(whole_header) or context.in_place_only:
        placement = "in_place"
    return MetricColumn(index, metric, unit[1] if unit else "", _parse_variant(last_part), placement, whole_header)


def _parse_variant(text: str) -> str | None:
    """Returns a column's header without metric, unit and placement, for example "Generic Kernel"."""
    for pattern in (_METRIC_WORDS, _UNIT, _IN_PLACE, _OUT_OF_PLACE):
        text = pattern.sub(" ", text)
    text = _EMPTY_BRACKETS.sub(" ", text)
    return " ".join(text.strip(" \t-\u2013\u2014:,;/()[]*_`").split()) or None
