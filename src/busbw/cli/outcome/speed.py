"""Sentence about the speed of a run. `busbw run` and `busbw launch` print it next to the sentence about the data.

The sentence is the verdict of `busbw check` on the record, in one line.
"""

from collections.abc import Sequence

from busbw.judge import BandVerdict, JudgedFigure, Verdict, worst
from busbw.units import count_text, number_text, plain, size_text


def speed_sentence(verdicts: Sequence[Verdict]) -> str:
    """Returns the sentence: the worst grade with its figure, or the reason why the speed is not judged."""
    grade = worst([verdict.grade for verdict in verdicts])
    worst_verdicts = [verdict for verdict in verdicts if verdict.grade == grade]
    if not worst_verdicts or worst_verdicts[0].reason_kind == "no_rows":
        return "Speed: not judged: nothing was measured."
    if grade == "BROKEN":
        return "Speed: not judged: the data are wrong."
    if not any(verdict.bands for verdict in verdicts):
        # Details and remedies follow the first colon. Only `busbw check` shows them.
        reason = worst_verdicts[0].reasons[0].partition(": ")[0]
        return f"Speed: not judged: {plain(reason)}."
    shown = worst_verdicts[0]
    place = ""
    if len(verdicts) > 1:
        configurations = f"{len(worst_verdicts)} of {count_text(len(verdicts), 'configuration')}"
        place = f" in {configurations}, such as {plain(shown.title)}"
    return f"Speed: {grade}{place}: {plain(_evidence_text(shown))}."


def _evidence_text(verdict: Verdict) -> str:
    """Returns the figure of the band with the largest sizes that has the verdict's grade.

    For UNSURE, or without such a band, returns the reason. If the largest sizes have another grade than UNSURE, their
    grade and figure follow the reason.
    """
    band = next((band for band in reversed(verdict.bands) if band.grade == verdict.grade), None)
    if verdict.grade != "UNSURE" and band is not None:
        return f"{_figure_of(band)} ({verdict.yardstick})"
    reason = verdict.reasons[0]
    largest = verdict.bands[-1] if verdict.bands else None
    if largest is None or largest.grade == "UNSURE":
        return reason
    return f"{reason}; {largest.band} {largest.grade}: {_figure_of(largest)} ({verdict.yardstick})"


def _figure_of(band: BandVerdict) -> str:
    measured, expected = figure_texts(band.worst, as_time=band.is_shown_as_time)
    _number, _space, unit = measured.partition(" ")
    return f"{measured} at {size_text(band.worst.size_bytes)}, expected {expected} {unit}"


def figure_texts(figure: JudgedFigure, *, as_time: bool) -> tuple[str, str]:
    """Returns the measured figure, and the expected range without its unit: as time, or as busbw if it is known."""
    limits = figure.range_us
    if as_time or not figure.busbw_gbps:
        return f"{_figure_text(figure.time_us, 4)} us", _range_text(limits.low, limits.high)
    # At one size the product of busbw and time is constant. So the limits of the time are limits of busbw, too.
    product = figure.busbw_gbps * figure.time_us
    return f"{_figure_text(figure.busbw_gbps, 4)} GB/s", _range_text(product / limits.high, product / limits.low)


def _range_text(low: float, high: float) -> str:
    return f"{_figure_text(low, 3)} - {_figure_text(high, 3)}"


def _figure_text(value: float, digits: int) -> str:
    """Text with this number of significant digits. Figures below 0.01 have only two, because they need more zeros."""
    if value < 0.01:
        digits = 2
    return number_text(value, digits)
