"""Verdicts as a page shows them: the grade, a line of evidence for each band, and the sentences."""

from collections.abc import Iterable
from dataclasses import replace

from busbw import judge
from busbw.report.axes import number
from busbw.report.page import Badge, BandEvidence, NamedValue, Sparkline, SummaryLine, VerdictView
from busbw.units import count_text, size_text

_MAX_FEATURES = 3


def verdict_view(verdict: judge.Verdict, glance: Sparkline | None = None) -> VerdictView:
    """One verdict."""
    notes = [NamedValue("because", text) for text in verdict.reasons]
    notes += [NamedValue("looks like", text) for text in verdict.causes]
    notes += [NamedValue("next", text) for text in verdict.advice]
    if verdict.fit:
        half = f"; half of its best busbw at {size_text(round(verdict.half_bytes))}" if verdict.half_bytes else ""
        notes.append(
            NamedValue(
                "the sweep",
                f"latency {verdict.fit.latency_us:.3g} us and busbw {verdict.fit.bandwidth_gbps:.4g} GB/s by fit "
                f"(error {verdict.fit.error:.0%}){half}",
            )
        )
    for one in sorted(verdict.features, key=lambda feature: -feature.depth)[:_MAX_FEATURES]:
        notes.append(
            NamedValue("notice", f"{one.kind} at {size_text(one.size_bytes)}: {one.evidence}; likely {one.likely}")
        )
    notes += [NamedValue("also", text) for text in verdict.beside]
    return VerdictView(
        badge=Badge.of(verdict.grade),
        title=verdict.title,
        yardstick=verdict.yardstick,
        bands=tuple(map(_band, verdict.bands)),
        notes=tuple(notes),
        glance=glance,
    )


def _band(band: judge.BandVerdict) -> BandEvidence:
    sizes = [one.size_bytes for one in band.judged]
    worst, limits = band.worst, band.worst.range_us
    if band.band == "latency" or not worst.busbw_gbps:
        measured = f"{number(worst.time_us)} us"
        expected = f"{number(limits.low)} to {number(limits.high)} us"
    else:
        per_us = worst.busbw_gbps * worst.time_us
        measured = f"{number(worst.busbw_gbps)} GB/s"
        expected = f"{number(per_us / limits.high)} to {number(per_us / limits.low)} GB/s"
    return BandEvidence(
        band=band.band,
        badge=Badge.of(band.grade),
        sizes=f"{size_text(min(sizes))} to {size_text(max(sizes))}" if len(set(sizes)) > 1 else size_text(sizes[0]),
        worst_at=size_text(worst.size_bytes),
        measured=measured,
        expected=expected,
        ratio=f"x{worst.ratio:.2f}",
        reason=band.reason,
    )


def summary_lines(entries: Iterable[tuple[str, str, VerdictView]]) -> tuple[SummaryLine, ...]:
    """A line for each (anchor, title, verdict); those without evidence that give the same reason share one."""
    lines: list[SummaryLine] = []
    merged: dict[tuple[str, str], int] = {}
    for anchor, title, verdict in entries:
        key = (verdict.badge.word, verdict.reason)
        if not verdict.bands and verdict.badge.word == "UNSURE" and key in merged:
            line = lines[merged[key]]
            lines[merged[key]] = replace(line, glance=None, also=(*line.also, title))
            continue
        merged.setdefault(key, len(lines))
        bands = tuple((band.band, band.badge) for band in verdict.bands)
        lines.append(SummaryLine(verdict.badge, title, anchor, bands, verdict.reason, verdict.glance))
    return tuple(lines)


def headline(grades: list[judge.Grade], logs: int) -> str:
    """What all of it comes to, in a sentence."""
    total = len(grades)
    what = f"{count_text(total, 'configuration')} in {count_text(logs, 'log')}"
    parts = [
        f"{number} {words if number != 1 else one}"
        for grade, words, one in (
            ("BROKEN", "have wrong data", "has wrong data"),
            ("SLOW", "are slower than they should be", "is slower than it should be"),
            ("GOOD", "are as fast as they should be", "is as fast as it should be"),
            ("UNSURE", "cannot be judged", "cannot be judged"),
        )
        if (number := grades.count(grade))  # type: ignore[arg-type]
    ]
    return f"{what}: {', '.join(parts)}."
