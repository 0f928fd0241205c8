"""Types of verdicts: grades with the figures that support them. Field names are keys of `busbw check --json`.

A yardstick is a set of time ranges that figures are judged by. A band is a range of sizes: latency, middle or plateau.
"""

from typing import Literal

from msgspec import Struct

from busbw.errors import ExitCode
from busbw.expect import Expectation, ExpectedRange
from busbw.logs.late_ranks import LateRank
from busbw.logs.log import Placement
from busbw.statistics.bands import BandName
from busbw.statistics.fit import CurveFeature, Fit
from busbw.units import number_text, size_text

Grade = Literal["GOOD", "SLOW", "BROKEN", "UNSURE"]

Outcome = Literal["inside", "slower", "faster", "unclear", "undecided"]
"""Outcome of the comparison of one figure with its range.

unclear: the measurement is too imprecise to tell inside from slower. undecided: the time is inside the range, but such
a wide range also contains the times of a fault."""

EXIT_OF: dict[Grade, ExitCode] = {
    "GOOD": ExitCode.GOOD,
    "SLOW": ExitCode.SLOWER_THAN_DEMANDED,
    "BROKEN": ExitCode.WRONG_DATA,
    "UNSURE": ExitCode.ENVIRONMENT,
}
"""Exit code of `busbw check` by grade."""
BAD_FACTOR = 2.0
"""A figure inside its range is `undecided`, not `inside`, if it takes this many times the typical time or more.

The usual faults at least halve the speed or double the latency: a lost NIC or rail of two, a PCIe slot with half of its
lanes, a ring instead of the switch over slow links, no GPUDirect RDMA. A range that reaches this factor contains the
times of such a fault, so it cannot show that a figure is healthy."""
WIDE_RANGE_FACTOR = 1.1
"""A range is wide if its slow end is more than this many times its typical time.

In a wide range, verdicts state the distance of a figure from the typical one. In a narrower range they do not, because
two healthy runs differ by up to 10 % above 8 KiB (`_RUN_VARIATION_BY_BAND` in judge/yardstick.py)."""
_MAX_FEATURES = 3
"""Maximum number of `Verdict.features` that are named, the deepest first."""
GRADES: tuple[Grade, ...] = ("BROKEN", "SLOW", "UNSURE", "GOOD")
"""Every grade, the worst first."""


def worst(grades: list[Grade]) -> Grade:
    """Returns the worst of several grades. UNSURE if the list is empty."""
    return next((grade for grade in GRADES if grade in grades), "UNSURE")


ReasonKind = Literal[
    "wrong_data", "no_rows", "one_rank", "mixed_runs", "contradiction", "no_times", "unknown_collective",
    "unknown_traffic", "unknown_ranks", "unknown_system", "other_system", "no_expectation", "no_reference_figures",
    "not_comparable", "other_sizes", "band", "slow_group", "impossible_busbw", "ended_early", "refused_rows",
    "assumed_nics", "in_range",
]  # fmt: skip


class Reason(Struct, frozen=True):
    """Reason for a grade."""

    kind: ReasonKind
    text: str
    remedy: str = ""
    """Next step for the user. Empty if no step helps."""


class JudgedFigure(Struct, kw_only=True, frozen=True, gc=False):
    """One figure, the range of the yardstick at its size, and the outcome of their comparison."""

    size_bytes: int
    placement: Placement
    time_us: float
    busbw_gbps: float | None
    """Bandwidth in GB/s. None if the log has none."""
    range_us: ExpectedRange
    """Expected time at this size, or the time of the reference."""
    outcome: Outcome

    @property
    def ratio(self) -> float:
        """Measured time over typical time. Above 1 is slower."""
        return self.time_us / self.range_us.typical

    @property
    def excess_ratio(self) -> float:
        """Measured time over the slow end of the range. Above 1 is beyond the range."""
        return self.time_us / self.range_us.high

    @property
    def is_in_slow_part(self) -> bool:
        """True if the range is wide and the figure is slower than typical. Verdicts then state the distance."""
        return self.range_us.high > WIDE_RANGE_FACTOR * self.range_us.typical and self.ratio > 1

    def distance_text(self, *, as_time: bool) -> str:
        """Distance from the typical figure, of the time or of the busbw: '19 % below typical'."""
        percent = self._distance_percent(as_time=as_time)
        return f"{abs(percent)} % {'above' if percent > 0 else 'below'} typical" if percent else "typical"

    def signed_distance_text(self, *, as_time: bool) -> str:
        """Distance from the typical figure for a column of a table, of the time or of the busbw: '-19 %'.

        A busbw that rounds to -100 % is a fraction of the typical busbw instead: '1/300'.
        """
        percent = self._distance_percent(as_time=as_time)
        if percent == -100:
            return f"1/{self.ratio:.0f}"
        return f"{percent:+} %" if percent else "0 %"

    def _distance_percent(self, *, as_time: bool) -> int:
        distance = self.ratio - 1 if as_time else 1 / self.ratio - 1
        return round(distance * 100)


class BandVerdict(Struct, kw_only=True, frozen=True):
    """Verdict on one band of one series."""

    band: BandName
    grade: Grade
    reason: str
    """Sentence that explains the grade."""
    slow_sizes_bytes: tuple[int, ...] = ()
    """Sizes at which every placement is slower than its range."""
    judged: tuple[JudgedFigure, ...]
    """All figures of the band."""
    worst: JudgedFigure
    """Figure with the highest `excess_ratio`."""

    @property
    def is_shown_as_time(self) -> bool:
        """True if the worst figure is shown as time instead of busbw: in the latency band, or if it has no busbw."""
        return self.band == "latency" or not self.worst.busbw_gbps


class Verdict(Struct, kw_only=True, frozen=True):
    """Verdict on one configuration of a log."""

    grade: Grade
    reason_kind: ReasonKind
    """Kind of the first reason."""
    title: str
    """Description of the configuration: 'all_reduce float sum, 8 ranks'."""
    yardstick: str
    """Name of the yardstick, or 'nothing'."""
    reasons: tuple[str, ...] = ()
    """Reasons for the grade, the most important first."""
    bands: tuple[BandVerdict, ...] = ()
    """Verdict per band that has sizes. Empty if nothing could be judged."""
    causes: tuple[str, ...] = ()
    """Likely causes with the figures that suggest them, the strongest evidence first. Each names what would confirm it.
    """
    advice: tuple[str, ...] = ()
    """Next steps for the user."""
    late_ranks: tuple[LateRank, ...] = ()
    """Ranks that the others waited for at several sizes. Empty also if the log does not state them."""
    beside: tuple[str, ...] = ()
    """Notes that do not affect the grade, such as the nearest published figure and unchecked rows."""
    fit: Fit | None = None
    """Latency and bandwidth fitted to one placement. None if no fit is possible, or if the caller needs none."""
    half_bytes: float | None = None
    """Interpolated size that first reaches half of the maximum busbw. None if already the smallest size does, or if
    unknown."""
    features: tuple[CurveFeature, ...] = ()
    """Dips, cliffs and steps of the curve. Empty also if the caller needs none."""

    def labeled_sentences(self) -> list[tuple[str, str]]:
        """Returns all findings in reading order, each with its label."""
        sentences = [("because", text) for text in self.reasons]
        sentences += [("late rank", late.text) for late in self.late_ranks]
        sentences += [("looks like", text) for text in self.causes]
        sentences += [("next", text) for text in self.advice]
        if self.fit:
            half_text = f"; half of its best busbw at {size_text(round(self.half_bytes))}" if self.half_bytes else ""
            latency_us = self.fit.latency_us
            latency_text = "" if latency_us is None else f"latency {number_text(latency_us, 3)} us and "
            figures = f"{latency_text}busbw {number_text(self.fit.bandwidth_gbps)} GB/s"
            sentences.append(("the sweep", f"{figures} by fit (error {self.fit.error:.0%}){half_text}"))
        for feature in sorted(self.features, key=lambda feature: -feature.depth)[:_MAX_FEATURES]:
            text = f"{feature.kind} at {size_text(feature.size_bytes)}: {feature.evidence}; likely {feature.likely}"
            sentences.append(("notice", text))
        return sentences + [("also", text) for text in self.beside]


class JudgedConfiguration(Struct, kw_only=True, frozen=True):
    """One configuration of a log: the rows that differ only in size and pass. None means unknown."""

    log: str
    """Path of the log as given by the user, or '-' for standard input."""
    table: int
    """Number of the table in its log, from 1."""
    start_time: str | None
    """Start of the run, as the log states it."""
    collective: str | None
    """'all_reduce', ..."""
    dtype: str | None = None
    redop: str | None = None
    """Reduction operator. None also if the collective does not reduce."""
    root: int | None = None
    """Root rank. None also if the collective has no root."""
    ranks: int | None
    group: int = 0
    """Group of ranks under NCCL_TESTS_SPLIT."""
    variant: str | None = None
    """Library or kernel, if the table compares several."""
    hosts: tuple[str, ...] = ()
    """Hosts of the group. Empty if the log does not list its ranks."""
    system: str | None
    """Name of the system that the expectation is for."""
    verdict: Verdict
    expectation: Expectation | None = None
    """Expected time and busbw at the sizes of the configuration. None if the system or the traffic is unknown."""

    @property
    def grade(self) -> Grade:
        """Grade of the verdict."""
        return self.verdict.grade
