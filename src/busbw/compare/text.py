"""Terminal output of `busbw compare` and `busbw ab`: wrong data, tables of results, a summary, and notes."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.text import Text

from busbw.collectives import COMM_OPS
from busbw.compare.result import ChangeVerdict, Comparison, PointKey, SettingDifference, Side, SizeResult, TimeQuantity
from busbw.terminal import Cell, Column, table_lines
from busbw.units import count_text, plain, size_text

_STYLES = {
    ChangeVerdict.FASTER: "green",
    ChangeVerdict.SLOWER: "red",
    ChangeVerdict.SAME: "",
    ChangeVerdict.UNCLEAR: "yellow",
}
_MAX_DIFFERENCES = 12
"""Maximum number of differing settings that are listed."""
_MAX_VALUE_CHARACTERS = 60
"""Maximum length of a setting's value."""
_MIN_WIDTH_WITH_REASONS = 118
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
    output = [Text(f"WRONG DATA: {sentence}", style="bold red") for sentence in comparison.wrong_data]
    if comparison.wrong_data:
        output.append(Text("The speeds below are of runs with wrong results.", style="bold red"))
    output += [_side_text(comparison.a, "A"), _side_text(comparison.b, "B")]
    for title, results in groupby(comparison.results, key=_table_title):
        output += [Text(), Text(plain(title), style="bold"), *_table_lines(list(results), width)]
    output.append(Text())
    output += [Text(plain(sentence)) for sentence in summary(comparison)]
    output += _note_lines(comparison)
    return output


def summary(comparison: Comparison) -> list[str]:
    """Returns a sentence for each verdict of each table, and the sentences on speed-ups that the log states."""
    sentences = []
    for verdict in ChangeVerdict:
        for title, results_of_table in groupby(comparison.results, key=_table_title):
            results = list(results_of_table)
            indices = [index for index, result in enumerate(results) if result.verdict is verdict]
            if indices:
                unit = "call" if results[0].point.is_call else "size"
                share_text = f"{len(indices)} of {count_text(len(results), unit)}"
                ranges = [results[first : last + 1] for first, last in _consecutive_ranges(indices)]
                sentences.append(f"{verdict.value} at {share_text}, {title}: {'; '.join(map(_range_text, ranges))}.")
    return [*sentences, *claim_sentences(comparison)]


def step_sentences(comparison: Comparison) -> list[str]:
    """Returns a sentence on each time of a replayed step: "With B your step is 3.1 % shorter (2.7 to 3.4)."."""
    sentences = []
    for result in comparison.results:
        step = "step by the device's clock" if result.compared == "device_time_us" else "step"
        if not (result.is_changed and result.speedup and result.interval):
            sentences.append(f"With B the time of your {step} is {result.verdict.value}: {result.reason}")
            continue
        change, sign = ("shorter", 1) if result.verdict is ChangeVerdict.FASTER else ("longer", -1)
        percent = sign * _shortened_percent(result.speedup)
        low, high = sorted(sign * _shortened_percent(bound) for bound in result.interval)
        sentences.append(f"With B your {step} is {percent:.1f} % {change} ({low:.1f} to {high:.1f}).")
    return sentences


def _shortened_percent(speedup: float) -> float:
    """Returns by how many percent of A's time B's time is shorter. Negative if B's time is longer."""
    return (1 - 1 / speedup) * 100


def claim_sentences(comparison: Comparison) -> list[str]:
    """Returns one sentence on the speed-ups that the log states. Empty if the log states no speed-up."""
    claims = [result for result in comparison.results if result.claim_agrees is not None]
    if not claims:
        return []
    wrong_claims = [result for result in claims if not result.claim_agrees]
    right_count = len(claims) - len(wrong_claims)
    sentence = (
        f"Of {count_text(len(claims), 'speed-up')} that the log states, {right_count} agree with its figures "
        f"and {len(wrong_claims)} do not"
    )
    if wrong_claims:
        sentence += ": " + "; ".join(
            f"{result.point.collective or 'unknown collective'} {size_text(result.point.size_bytes)} states "
            f"{result.claimed_speedup:.2f}x, its figures give {result.speedup or 0:.2f}x"
            for result in wrong_claims
        )
    return [f"{sentence}."]


def _consecutive_ranges(indices: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yields the first and last index of each range of consecutive indices: (1, 3) and (7, 7) for 1, 2, 3, 7."""
    first = last = indices[0]
    for index in indices[1:]:
        if index != last + 1:
            yield first, last
            first = index
        last = index
    yield first, last


def _range_text(results: Sequence[SizeResult]) -> str:
    """Text of adjacent rows of a table and the range of their speed-ups: "1 MiB to 8 MiB (1.100x to 1.200x)"."""
    first, last = _label(results[0].point), _label(results[-1].point)
    rows_text = first if len(results) == 1 else f"{first} to {last}"
    speedups = [result.speedup for result in results if result.speedup is not None]
    if not speedups:
        return rows_text
    low, high = f"{min(speedups):.3f}x", f"{max(speedups):.3f}x"
    speedups_text = low if low == high else f"{low} to {high}"
    return f"{rows_text} ({speedups_text})"


def _side_text(side: Side, letter: str) -> Text:
    text = Text(f"{letter}  ")
    if side.label != letter:
        text.append(plain(f"{side.label}, "))
    text.append(plain(side.source))
    if side.library:
        text.append(plain(f"  {side.library}"), style="dim")
    if side.runs > 1:
        text.append(f"  {side.runs} runs", style="dim")
    return text


def _table_title(result: SizeResult) -> str:
    """Title of a result's table. Results with the same title share a table, as do all calls of comm_ops."""
    title = COMM_OPS if result.point.is_call else result.point.configuration_text
    return title + (", device time" if result.compared == "device_time_us" else "")


def _label(point: PointKey) -> str:
    """Label of a point's row, unique in its table."""
    return point.configuration_text if point.is_call else size_text(point.size_bytes)


def _label_column(results: Sequence[SizeResult]) -> Column:
    is_call = results[0].point.is_call
    labels = [Cell(plain(_label(result.point))) for result in results]
    return Column("call" if is_call else "size", labels, is_number=not is_call)


def _table_lines(results: Sequence[SizeResult], width: int) -> list[Text]:
    quantities = [result.compared for result in results]
    quantity = max(quantities, key=quantities.count)  # the columns of all rows show the most frequent quantity
    columns = [
        _label_column(results),
        Column(f"A {_UNITS[quantity]}", [Cell(_number_text(getattr(result.a, quantity))) for result in results]),
        Column(f"B {_UNITS[quantity]}", [Cell(_number_text(getattr(result.b, quantity))) for result in results]),
        Column("speed-up", [Cell(_speedup_text(result.speedup)) for result in results]),
        Column("interval", [Cell(_interval_text(result)) for result in results]),
        Column("claimed", [Cell(_claim_text(result)) for result in results]),
        Column("verdict", [Cell(result.verdict.value, _STYLES[result.verdict]) for result in results], is_number=False),
    ]
    reasons = Column("because", [Cell(result.explanation.rstrip("."), "dim") for result in results], is_number=False)
    return table_lines([*columns, reasons] if width >= _MIN_WIDTH_WITH_REASONS else columns, width)


def _speedup_text(speedup: float | None) -> str:
    return "-" if speedup is None else f"{speedup:.3f}x"


def _interval_text(result: SizeResult) -> str:
    return f"{result.interval[0]:.3f} - {result.interval[1]:.3f}" if result.interval else ""


def _claim_text(result: SizeResult) -> str:
    if result.claimed_speedup is None:
        return ""
    return f"{result.claimed_speedup:.2f}x" + (" (no)" if result.claim_agrees is False else "")


def _number_text(value: float | None) -> str:
    """Text with four significant digits and all digits before the decimal point."""
    if value is None:
        return "-"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:#.4g}"


def _note_lines(comparison: Comparison) -> list[Text]:
    notes = [*comparison.method]
    if comparison.has_intervals:
        notes.append(f"Intervals: {comparison.level_text}.")
    notes += [*unpaired_points_sentences(comparison), *comparison.warnings]
    output = [Text(plain(note), style="dim") for note in notes]
    if comparison.differences:
        output += [Text(), Text("Also different:", style="dim")]
        shown = comparison.differences[:_MAX_DIFFERENCES]
        output += [Text(plain(f"  {_difference_text(difference)}"), style="dim") for difference in shown]
        if hidden_count := len(comparison.differences) - len(shown):
            output.append(Text(f"  and {hidden_count} more; --json has all", style="dim"))
    return output


def unpaired_points_sentences(comparison: Comparison) -> list[str]:
    """Returns a sentence for each side with points that the other side lacks."""
    return [
        f"Only in {side} and not compared: {_points_text(points)}."
        for side, points in (("A", comparison.only_in_a), ("B", comparison.only_in_b))
        if points
    ]


def _points_text(points: Sequence[PointKey]) -> str:
    """Text of the configurations of these points, each with its first and last size and the number of points."""
    points_by_configuration: dict[str, list[PointKey]] = {}
    for point in points:
        points_by_configuration.setdefault(point.configuration_text, []).append(point)
    texts = []
    for configuration, own_points in points_by_configuration.items():
        text = f"{configuration} {size_text(own_points[0].size_bytes)}"
        if len(own_points) > 1:
            text += f" to {size_text(own_points[-1].size_bytes)} ({len(own_points)})"
        texts.append(text)
    return "; ".join(texts)


def _difference_text(difference: SettingDifference) -> str:
    return f"{difference.what}: {_shorten(difference.a)} against {_shorten(difference.b)}"


def _shorten(value: str | None) -> str:
    if value is None:
        return "unstated"
    return value if len(value) <= _MAX_VALUE_CHARACTERS else f"{value[: _MAX_VALUE_CHARACTERS - 3]}..."
