"""Verdicts on one size from the rounds of both programs: the ratio of the times, its interval, and the limits.

A round runs each program once. A run repeats its sizes several times (cycles, -N) and gives two times per size: the
median and the minimum of its cycles. One thread that launches for several GPUs alternates between a fast and a slow
mode within a run. The medians then depend on the share of slow cycles; the minimums do not.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from busbw.statistics.stats import Interval, SampleSummary, mean_difference, run_summary

LARGE_BYTES = 1 << 20
LARGE_MARGIN = 0.03
"""From 1 MiB on: maximum deviation from nccl-tests' time, in both directions."""
SMALL_MARGIN = 0.02
"""Below 1 MiB: maximum excess over nccl-tests' time; a shorter time is allowed."""
MEDIAN_MARGIN = 0.01
"""Maximum deviation of the median over the sizes from 1 MiB on."""
MET, NOT_MET, CANNOT_BE_TOLD = "met", "not met", "cannot be told"
_ALPHA = 0.05
"""Intervals have the confidence level 1 - _ALPHA."""
_DRAWS = 2000
"""Number of bootstrap samples."""
_MIN_ROUNDS = 3
"""Minimum number of rounds for an interval of the minimums."""


@dataclass(frozen=True)
class Estimate:
    """busbw's time / nccl-tests' time, with its 95 % interval. The interval is None for too few rounds."""

    ratio: float
    low: float | None = None
    high: float | None = None

    def verdict(self, minimum: float, maximum: float) -> str:
        """Returns MET or NOT_MET if the whole interval is within or outside the limits, otherwise CANNOT_BE_TOLD."""
        if self.low is None or self.high is None:
            return CANNOT_BE_TOLD
        if minimum <= self.low and self.high <= maximum:
            return MET
        is_outside = self.high < minimum or self.low > maximum
        return NOT_MET if is_outside else CANNOT_BE_TOLD

    def half_width(self) -> float:
        """Half-width of the interval. Infinite without an interval."""
        if self.low is None or self.high is None:
            return math.inf
        return (self.high - self.low) / 2


def limits(size_bytes: int) -> tuple[float, float]:
    """Returns the minimum and maximum ratio of a size."""
    if size_bytes >= LARGE_BYTES:
        return 1 - LARGE_MARGIN, 1 + LARGE_MARGIN
    return 0.0, 1 + SMALL_MARGIN


def estimate_by_median(ours: Sequence[float], theirs: Sequence[float]) -> Estimate | None:
    """Returns the ratio of geometric means over the rounds, with Welch's interval. None if a time is 0."""
    if min(*ours, *theirs) <= 0:
        return None
    if min(len(ours), len(theirs)) < 2:
        return Estimate(statistics.geometric_mean(ours) / statistics.geometric_mean(theirs))
    return _ratio_estimate(mean_difference(run_summary(ours), run_summary(theirs), alpha=_ALPHA))


def estimate_by_minimum(ours: Sequence[float], theirs: Sequence[float]) -> Estimate | None:
    """Returns the ratio of the minimums, with a bootstrap interval over rounds. None if a time is 0."""
    if min(*ours, *theirs) <= 0:
        return None
    ratio = min(ours) / min(theirs)
    if min(len(ours), len(theirs)) < _MIN_ROUNDS:
        return Estimate(ratio)
    generator = random.Random(0)

    def draw_minimum(times_us: Sequence[float]) -> float:
        return min(generator.choices(times_us, k=len(times_us)))

    drawn_ratios = sorted(draw_minimum(ours) / draw_minimum(theirs) for _ in range(_DRAWS))
    outside = round(_DRAWS * _ALPHA / 2)  # number of drawn ratios beyond each end of the interval
    return Estimate(ratio, drawn_ratios[outside], drawn_ratios[-1 - outside])


@dataclass(frozen=True)
class RowVerdict:
    """Estimates and limits of one row: a size, a placement, a launch mode and a collective."""

    by_median: Estimate | None
    by_minimum: Estimate | None
    limits: tuple[float, float]

    def verdict(self) -> str:
        """Returns the verdict by the medians of the rounds."""
        return self.by_median.verdict(*self.limits) if self.by_median else CANNOT_BE_TOLD

    def minimum_verdict(self) -> str:
        """Returns the verdict by the minimums of the rounds."""
        return self.by_minimum.verdict(*self.limits) if self.by_minimum else CANNOT_BE_TOLD


def evaluate_row(row: dict[str, Any]) -> RowVerdict:
    """Evaluates a row of the results. A row with one cycle per round has no list of minimums."""
    ours, theirs = row["busbw_us"], row["nccl_tests_us"]
    our_minimums, their_minimums = row.get("busbw_least_us", ours), row.get("nccl_tests_least_us", theirs)
    return RowVerdict(
        by_median=estimate_by_median(ours, theirs),
        by_minimum=estimate_by_minimum(our_minimums, their_minimums),
        limits=limits(row["size_bytes"]),
    )


def agrees_with_itself(times_us: Sequence[float], size_bytes: int) -> bool | None:
    """True if a program's own rounds agree within the limit. None for fewer than two rounds or a time of 0.

    If its own rounds disagree, the limit cannot be required of the other program.
    """
    if len(times_us) < 2 or min(times_us) <= 0:
        return None
    return max(times_us) / min(times_us) <= limits(size_bytes)[1]


def median_over_sizes(rows: Sequence[dict[str, Any]]) -> Estimate | None:
    """Returns the geometric mean over the rounds of the median ratio over the rows. None if a round has no ratio."""
    rounds = min(len(row["busbw_us"]) for row in rows)
    medians = []
    for round_index in range(rounds):
        pairs = [(row["busbw_us"][round_index], row["nccl_tests_us"][round_index]) for row in rows]
        ratios = [ours / theirs for ours, theirs in pairs if ours > 0 and theirs > 0]
        if not ratios:
            return None
        medians.append(statistics.median(ratios))
    if len(medians) < 2:
        return Estimate(medians[0])
    exact_one = SampleSummary(0.0, 0.0, 1.0)  # logarithm 0 without variance: the ratios are compared with 1
    return _ratio_estimate(mean_difference(run_summary(medians), exact_one, alpha=_ALPHA))


def _ratio_estimate(log_ratio: Interval) -> Estimate:
    """Converts an interval of the logarithm of a ratio."""
    return Estimate(math.exp(log_ratio.estimate), math.exp(log_ratio.low), math.exp(log_ratio.high))
