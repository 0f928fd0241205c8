"""Plausibility limits for the figures of busbw's records, and for the statistics in nccl-tests' JSON.

The schema checks the types of figures, and this module checks their values. In records, a placement with
a figure outside the limits is refused as damaged. Every accepted row can then be plotted, averaged and stored.
"""

from collections.abc import Iterable, Iterator

import msgspec

from busbw.logs.log import Figure, Refusal, Row
from busbw.readers.tables.events import Event, TableChunk

_MAX_COUNT = (1 << 63) - 1
"""Maximum number of bytes or elements: the largest signed 64-bit integer, which is also the limit of SQLite."""
_MIN_FIGURE, _MAX_FIGURE = 1e-30, 1e15
"""Limits for nonzero times in us, rates in GB/s and their spread; 1e15 us is about 30 years."""

_BOTH_PLACEMENTS = ""
"""Key of a reason that is not about one placement."""


def refuse_implausible(events: Iterable[Event]) -> Iterator[Event]:
    """Yields the events, with every implausible measurement refused."""
    for event in events:
        if not isinstance(event, TableChunk):
            yield event
            continue
        plausible_rows: list[Row] = []
        are_all_plausible = True
        for row in event.table.rows:
            reasons = _implausible_reasons(row)
            if not reasons:
                plausible_rows.append(row)
                continue
            are_all_plausible = False
            yield from (Refusal(line=row.line, text="", reason=reason) for reason in reasons.values())
            # If only one placement is implausible, the other one is kept, because it may report wrong data.
            if _BOTH_PLACEMENTS not in reasons:
                figures = {placement: figure for placement, figure in row.figures.items() if placement not in reasons}
                if figures:
                    plausible_rows.append(msgspec.structs.replace(row, figures=figures))
        yield (
            event
            if are_all_plausible
            else TableChunk(msgspec.structs.replace(event.table, rows=tuple(plausible_rows)), event.is_last)
        )


def _implausible_reasons(row: Row) -> dict[str, str]:
    """Returns the reasons by placement, or one for `_BOTH_PLACEMENTS`."""
    counts = {"size_bytes": row.size_bytes, "count": row.count, "ranks": row.ranks}
    for name, count in counts.items():
        if count is not None and not 0 <= count <= _MAX_COUNT:
            return {_BOTH_PLACEMENTS: f"{name} cannot be {_invalid_count_text(count)}"}
    reasons = {name: implausible_figure_reason(figure) for name, figure in row.figures.items()}
    return {name: reason for name, reason in reasons.items() if reason}


def implausible_figure_reason(figure: Figure) -> str:
    """Returns the first implausible value as text; empty if all are plausible."""
    values = {name: getattr(figure, name) for name in ("time_us", "cpu_time_us", "algbw_gbps", "busbw_gbps")}
    if stats := figure.stats:
        names = ("mean_us", "median_us", "p95_us", "p99_us", "min_us", "max_us", "stdev_us", "cv_percent")
        values |= {name: getattr(stats, name) for name in names}
        values |= dict(zip(("median_ci95_low_us", "median_ci95_high_us"), stats.median_ci95_us or (), strict=False))
    for name, value in values.items():
        if value is not None and not _is_plausible(value):
            return f"{name} cannot be {value:.6g}"
    if stats and not stats.min_us <= stats.median_us <= stats.max_us:
        return f"median_us cannot be {stats.median_us:.6g} from {stats.min_us:.6g} to {stats.max_us:.6g}"
    counts = {"wrong_elements": figure.wrong_elements, "samples": stats.samples if stats else None}
    for name, count in counts.items():
        if count is not None and not 0 <= count <= _MAX_COUNT:
            return f"{name} cannot be {_invalid_count_text(count)}"
    if len(set(map(len, figure.samples_us))) > 1:
        return "samples_us has different numbers of iterations per rank"
    for samples in figure.samples_us:
        if not all(map(_is_plausible, samples)):
            return f"samples_us cannot range from {min(samples):.6g} to {max(samples):.6g}"
    return ""


def _is_plausible(value: float) -> bool:
    return value == 0 or _MIN_FIGURE <= value <= _MAX_FIGURE


def _invalid_count_text(count: int) -> str:
    return "negative" if count < 0 else "larger than a 64-bit integer"
