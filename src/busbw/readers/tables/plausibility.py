"""Figures that no measurement has: a record that holds one is damaged in that row.

The schema says what type a figure is, and this what it can be; every row that passes can be drawn, averaged and kept.
"""

from collections.abc import Iterable, Iterator

import msgspec

from busbw.logs import Figure, Refusal, Row
from busbw.readers.tables.events import Event, TableChunk

_LARGEST_COUNT = (1 << 63) - 1
"""Of bytes and elements: what 64 bits hold, and databases with them."""
_SMALLEST, _LARGEST = 1e-30, 1e15
"""Of times in us, rates in GB/s and their spread, where they are not zero; 1e15 us are thirty years."""


def refuse_impossible(events: Iterable[Event]) -> Iterator[Event]:
    """The events with every impossible measurement refused."""
    for event in events:
        if not isinstance(event, TableChunk):
            yield event
            continue
        kept: list[Row] = []
        is_whole = True
        for row in event.table.rows:
            reasons = _impossible(row)
            if not reasons:
                kept.append(row)
                continue
            is_whole = False
            yield from (Refusal(line=row.line, text="", reason=reason) for reason in reasons.values())
            # The other placement stands: it may be the one with wrong data.
            if rest := {name: figure for name, figure in row.figures.items() if reasons.keys().isdisjoint({name, ""})}:
                kept.append(msgspec.structs.replace(row, figures=rest))
        yield event if is_whole else TableChunk(msgspec.structs.replace(event.table, rows=tuple(kept)), event.is_last)


def _impossible(row: Row) -> dict[str, str]:
    """By placement what cannot be, in words; under the empty name what both have."""
    counts = {"size_bytes": row.size_bytes, "count": row.count, "ranks": row.ranks}
    for name, count in counts.items():
        if count is not None and not 0 <= count <= _LARGEST_COUNT:
            return {"": f"no {name} is {_short(count)}"}
    reasons = {name: _impossible_figure(figure) for name, figure in row.figures.items()}
    return {name: reason for name, reason in reasons.items() if reason}


def _impossible_figure(figure: Figure) -> str:
    """The first thing about it that cannot be; empty for what can."""
    values = {name: getattr(figure, name) for name in ("time_us", "cpu_time_us", "algbw_gbps", "busbw_gbps")}
    if stats := figure.stats:
        names = ("mean_us", "median_us", "p95_us", "p99_us", "min_us", "max_us", "stdev_us", "cv_percent")
        values |= {name: getattr(stats, name) for name in names}
        values |= dict(zip(("median_ci95_low_us", "median_ci95_high_us"), stats.median_ci95_us or (), strict=False))
    for name, value in values.items():
        if value is not None and not _is_plausible(value):
            return f"no {name} is {value:.6g}"
    counts = {"wrong_elements": figure.wrong_elements, "samples": stats.samples if stats else None}
    for name, count in counts.items():
        if count is not None and not 0 <= count <= _LARGEST_COUNT:
            return f"no {name} is {_short(count)}"
    if len(set(map(len, figure.samples_us))) > 1:
        return "samples_us has more iterations of one rank than of another"
    for samples in figure.samples_us:
        if not all(map(_is_plausible, samples)):
            return f"samples_us holds {min(samples):.6g} to {max(samples):.6g}"
    return ""


def _is_plausible(value: float) -> bool:
    return value == 0 or _SMALLEST <= value <= _LARGEST


def _short(count: int) -> str:
    return "negative" if count < 0 else "more than 64 bits hold"
