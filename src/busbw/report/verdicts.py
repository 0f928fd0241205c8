"""Views of verdicts for the page: grade, evidence for each band, and notes."""

from collections.abc import Iterable
from dataclasses import replace

from busbw import judge
from busbw.report.axes import number
from busbw.report.page import Badge, BandEvidence, NamedValue, Sparkline, SummaryLine, VerdictView
from busbw.units import count_text, size_text


def verdict_view(verdict: judge.Verdict, sparkline: Sparkline | None = None) -> VerdictView:
    """Makes the view of one verdict."""
    return VerdictView(
        badge=Badge.of(verdict.grade),
        title=verdict.title,
        yardstick=verdict.yardstick,
        bands=tuple(map(_band_evidence, verdict.bands)),
        notes=tuple(NamedValue(label, text) for label, text in verdict.labeled_sentences()),
        sparkline=sparkline,
        worst_ratio=max((band.worst.ratio for band in verdict.bands), default=None),
        obstacle=verdict.reason_kind if verdict.grade == "UNSURE" and not verdict.bands else None,
    )


def _band_evidence(verdict: judge.BandVerdict) -> BandEvidence:
    """Makes the texts of one band. Measured and expected are times or busbw, see `is_shown_as_time`."""
    sizes = [figure.size_bytes for figure in verdict.judged]
    worst, range_us = verdict.worst, verdict.worst.range_us
    busbw_gbps = None if verdict.is_shown_as_time else worst.busbw_gbps
    if not busbw_gbps:
        measured = f"{number(worst.time_us)} us"
        expected = f"{number(range_us.low)} to {number(range_us.high)} us"
    else:
        # Busbw is inversely proportional to time, so the slow end of the time range is the low end of the busbw.
        low_gbps = busbw_gbps * worst.time_us / range_us.high
        high_gbps = busbw_gbps * worst.time_us / range_us.low
        measured = f"{number(busbw_gbps)} GB/s"
        expected = f"{number(low_gbps)} to {number(high_gbps)} GB/s"
    has_one_size = len(set(sizes)) == 1
    return BandEvidence(
        band=verdict.band,
        badge=Badge.of(verdict.grade),
        sizes=size_text(sizes[0]) if has_one_size else f"{size_text(min(sizes))} to {size_text(max(sizes))}",
        worst_at=size_text(worst.size_bytes),
        measured=measured,
        expected=expected,
        distance=worst.signed_distance_text(as_time=verdict.is_shown_as_time),
        reason=verdict.reason,
    )


def summary_lines(entries: Iterable[tuple[str, str, VerdictView]]) -> tuple[SummaryLine, ...]:
    """Makes a line for each (anchor, title, verdict), the worst first.

    Verdicts with the same kind of obstacle share a line. The line has the reason of the first verdict. `also` has the
    other verdicts.
    """
    lines: list[SummaryLine] = []
    index_by_obstacle: dict[str, int] = {}
    for anchor, title, verdict in entries:
        shared_index = index_by_obstacle.get(verdict.obstacle) if verdict.obstacle else None
        if shared_index is not None:
            lines[shared_index] = _add_to_line(lines[shared_index], title, verdict)
            continue
        if verdict.obstacle:
            index_by_obstacle[verdict.obstacle] = len(lines)
        bands = tuple((band.band, band.badge) for band in verdict.bands)
        lines.append(
            SummaryLine(verdict.badge, title, anchor, bands, verdict.reason, verdict.sparkline, verdict.worst_ratio)
        )
    return tuple(sorted(lines, key=severity_key))


def _add_to_line(line: SummaryLine, title: str, verdict: VerdictView) -> SummaryLine:
    """Returns the line with one more configuration, and with its reason if that differs."""
    text = title if verdict.reason == line.reason else f"{title}: {verdict.reason}"
    return replace(line, sparkline=None, also=(*line.also, text))


def severity_key(line: SummaryLine) -> tuple[int, float]:
    """Sort key of a summary line: the worst grade first, and within a grade the greatest ratio of times."""
    severity = [Badge.of(grade) for grade in judge.GRADES].index(line.badge)
    return severity, -(line.worst_ratio or 0.0)


def headline(grades: list[judge.Grade], logs: int) -> str:
    """Summarizes all grades in a sentence. `logs`: number of logs."""
    configuration_count = len(grades)
    subject = f"{count_text(configuration_count, 'configuration')} in {count_text(logs, 'log')}"
    parts = [
        f"{count} {plural if count != 1 else singular}"
        for grade, plural, singular in (
            ("BROKEN", "have wrong data", "has wrong data"),
            ("SLOW", "are slower than expected", "is slower than expected"),
            ("GOOD", "are as fast as expected", "is as fast as expected"),
            ("UNSURE", "cannot be judged", "cannot be judged"),
        )
        if (count := grades.count(grade))  # type: ignore[arg-type]
    ]
    return f"{subject}: {', '.join(parts)}."
