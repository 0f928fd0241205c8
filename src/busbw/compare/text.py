"""Terminal output of a comparison: wrong data first, then a table per configuration and a summary."""

from collections.abc import Iterator, Sequence
from itertools import groupby

import msgspec
from rich.text import Text

from busbw.compare.result import ChangeVerdict, Comparison, Difference, PointKey, Side, SizeResult, TimeQuantity
from busbw.logs import PLACEMENT_WORDS
from busbw.terminal import Cell, Column, lines
from busbw.units import count_text, plain, size_text

_STYLES = {
    ChangeVerdict.FASTER: "green",
    ChangeVerdict.SLOWER: "red",
    ChangeVerdict.SAME: "",
    ChangeVerdict.UNCLEAR: "yellow",
}
_MAX_DIFFERENCES = 12
_MAX_CHARACTERS = 60
_WIDE = 118
"""Minimum width in characters for the column of reasons."""

_UNITS: dict[TimeQuantity, str] = {
    "device_time_us": "device us",
    "median_us": "median us",
    "time_us": "us",
    "algbw_gbps": "GB/s alg",
    "busbw_gbps": "GB/s bus",
}


def render(comparison: Comparison, *, width: int) -> list[Text]:
    """Returns the lines of the whole comparison. Tables fit the width; the caller wraps the text."""
    parts = [Text(f"WRONG DATA: {line}", style="bold red") for line in comparison.wrong_data]
    if comparison.wrong_data:
        parts.append(Text("The speeds below are of runs with wrong results.", style="bold red"))
    parts += [_side(comparison.a, "A"), _side(comparison.b, "B")]
    for line, results in groupby(comparison.results, key=_title):
        parts += [Text(), Text(plain(line), style="bold"), *_table(list(results), width)]
    parts.append(Text())
    parts += [Text(plain(sentence)) for sentence in summary(comparison)]
    parts += _notes(comparison)
    return parts


def summary(comparison: Comparison) -> list[str]:
    """Returns one sentence for each verdict and configuration. Sizes are never averaged."""
    sentences = []
    for verdict in ChangeVerdict:
        for line, results in groupby(comparison.results, key=_title):
            members = list(results)
            chosen = [i for i, result in enumerate(members) if result.verdict is verdict]
            if chosen:
                sentences.append(
                    f"{verdict.value} at {len(chosen)} of {count_text(len(members), 'size')}, {line}: "
                    + "; ".join(_stretch(members[first : last + 1]) for first, last in _index_stretches(chosen))
                )
    claims = [result for result in comparison.results if result.claim_agrees is not None]
    wrong = [result for result in claims if result.claim_agrees is False]
    if claims:
        sentences.append(
            f"Of {count_text(len(claims), 'speed-up')} that the log states, {len(claims) - len(wrong)} agree with its "
            f"figures and {len(wrong)} do not" + (": " + "; ".join(_claim(result) for result in wrong) if wrong else "")
        )
    return [f"{sentence}." for sentence in sentences]


def _claim(result: SizeResult) -> str:
    return (
        f"{_point_text(result.point)} states {result.claimed_speedup:.2f}x, its figures give {result.speedup or 0:.2f}x"
    )


def _point_text(point: PointKey) -> str:
    return f"{point.collective or 'unknown collective'} {size_text(point.size_bytes)}"


def _index_stretches(indices: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yields the first and last index of each stretch of consecutive indices."""
    first = last = indices[0]
    for index in indices[1:]:
        if index != last + 1:
            yield first, last
            first = index
        last = index
    yield first, last


def _stretch(results: Sequence[SizeResult]) -> str:
    sizes = [size_text(result.point.size_bytes) for result in (results[0], results[-1])]
    speedups = sorted(result.speedup for result in results if result.speedup is not None)
    span = sizes[0] if len(results) == 1 else f"{sizes[0]} to {sizes[1]}"
    if not speedups:
        return span
    ends = list(dict.fromkeys(f"{value:.3f}x" for value in (speedups[0], speedups[-1])))
    return f"{span} ({' to '.join(ends)})"


def _side(side: Side, letter: str) -> Text:
    text = Text(f"{letter}  ")
    if side.label != letter:
        text.append(plain(f"{side.label}, "))
    text.append(plain(side.source))
    if side.library:
        text.append(plain(f"  {side.library}"), style="dim")
    if side.runs > 1:
        text.append(f"  {side.runs} runs", style="dim")
    return text


def _configuration(point: PointKey) -> str:
    words = [point.collective or "unknown collective", point.dtype, point.redop]
    if point.root is not None and point.root >= 0:
        words.append(f"root {point.root}")
    if point.ranks is not None:
        words.append(count_text(point.ranks, "rank"))
    if point.group:
        words.append(f"group {point.group}")
    words.append(PLACEMENT_WORDS[point.placement])
    return " ".join(filter(None, words))


def _title(result: SizeResult) -> str:
    """Title of a result's table. Results with the same title share a table."""
    return _configuration(result.point) + (", device time" if result.compared == "device_time_us" else "")


def _table(results: Sequence[SizeResult], width: int) -> list[Text]:
    name = max((result.compared for result in results), key=[result.compared for result in results].count)
    columns = [
        Column("size", [Cell(size_text(result.point.size_bytes)) for result in results]),
        Column(f"A {_UNITS[name]}", [Cell(_number(getattr(result.a, name))) for result in results]),
        Column(f"B {_UNITS[name]}", [Cell(_number(getattr(result.b, name))) for result in results]),
        Column("B/A", [Cell(_times(result.speedup)) for result in results]),
        Column("interval", [Cell(_interval(result)) for result in results]),
        Column("claimed", [Cell(_claim_cell(result)) for result in results]),
        Column("verdict", [Cell(result.verdict.value, _STYLES[result.verdict]) for result in results], right=False),
    ]
    reasons = Column("because", [Cell(result.reason.rstrip("."), "dim") for result in results], right=False)
    return lines([*columns, reasons] if width >= _WIDE else columns, width)


def _times(speedup: float | None) -> str:
    return "-" if speedup is None else f"{speedup:.3f}x"


def _interval(result: SizeResult) -> str:
    return f"{result.interval[0]:.3f} - {result.interval[1]:.3f}" if result.interval else ""


def _claim_cell(result: SizeResult) -> str:
    if result.claimed_speedup is None:
        return ""
    return f"{result.claimed_speedup:.2f}x" + ("" if result.claim_agrees else " (no)")


def _number(value: float | None) -> str:
    """Text with four significant digits and all digits before the decimal point."""
    if value is None:
        return "-"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:#.4g}"


def _notes(comparison: Comparison) -> list[Text]:
    notes = [*comparison.method]
    if comparison.level_text != "no intervals":
        notes.append(f"Intervals: {comparison.level_text}.")
    for side, points in (("A", comparison.only_in_a), ("B", comparison.only_in_b)):
        if points:
            notes.append(f"Only in {side} and not compared: {_points(points)}.")
    notes += comparison.warnings
    parts = [Text(plain(note), style="dim") for note in notes]
    if comparison.differences:
        parts += [Text(), Text("Also different:", style="dim")]
        shown = comparison.differences[:_MAX_DIFFERENCES]
        parts += [Text(plain(f"  {_difference(each)}"), style="dim") for each in shown]
        if more := len(comparison.differences) - len(shown):
            parts.append(Text(f"  and {more} more; --json has all", style="dim"))
    return parts


def _points(points: Sequence[PointKey]) -> str:
    lines: dict[str, list[PointKey]] = {}
    for point in points:
        lines.setdefault(_configuration(msgspec.structs.replace(point, size_bytes=0)), []).append(point)
    return "; ".join(
        f"{line} {size_text(members[0].size_bytes)}"
        + (f" to {size_text(members[-1].size_bytes)} ({len(members)})" if len(members) > 1 else "")
        for line, members in lines.items()
    )


def _difference(each: Difference) -> str:
    return f"{each.what}: {_short(each.a)} against {_short(each.b)}"


def _short(value: str | None) -> str:
    if value is None:
        return "unstated"
    return value if len(value) <= _MAX_CHARACTERS else f"{value[: _MAX_CHARACTERS - 3]}..."
