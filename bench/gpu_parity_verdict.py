"""What the rounds of both programs say about one size: the ratio of their times, how sure it is, and whether it is met.

A round runs each program once; a run goes through its sizes several times (-N), and counts by the median of these
cycles and by the least of them. One thread that launches for several GPUs takes either of two times, and changes from
one to the other within a run: medians then differ by how much of a run was slow, the least do not.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from busbw.statistics.stats import SampleSummary, mean_difference, run_summary

LARGE_BYTES = 1 << 20
LARGE_MARGIN = 0.03
"""From 1 MiB on: so far above or below nccl-tests' time at most."""
SMALL_MARGIN = 0.02
"""Below: so far above it at most; less time is no fault."""
MEDIAN_MARGIN = 0.01
"""Of the median over the sizes from 1 MiB on."""
MET, NOT_MET, CANNOT_BE_TOLD = "met", "not met", "cannot be told"
_ALPHA = 0.05
_DRAWS = 2000
_MIN_ROUNDS = 3
"""Fewer cannot say how far the least of a program's runs lie apart."""


@dataclass(frozen=True)
class Estimate:
    """busbw's time over nccl-tests'; the interval holds the truth in 19 of 20 cases, None where rounds are too few."""

    ratio: float
    low: float | None = None
    high: float | None = None

    def verdict(self, least: float, greatest: float) -> str:
        """Whether the ratio lies within the limits, as far as the interval tells."""
        if self.low is None or self.high is None:
            return CANNOT_BE_TOLD
        if least <= self.low and self.high <= greatest:
            return MET
        return NOT_MET if self.high < least or self.low > greatest else CANNOT_BE_TOLD

    def half_width(self) -> float:
        """Of the interval; infinite where there is none."""
        return math.inf if self.low is None or self.high is None else (self.high - self.low) / 2


def limits(size_bytes: int) -> tuple[float, float]:
    """The least and the greatest ratio that a size may have."""
    return (1 - LARGE_MARGIN, 1 + LARGE_MARGIN) if size_bytes >= LARGE_BYTES else (0.0, 1 + SMALL_MARGIN)


def of_rounds(ours: Sequence[float], theirs: Sequence[float]) -> Estimate | None:
    """By geometric means over the rounds, with Welch's interval. None where a side shows no time."""
    if min(*ours, *theirs) <= 0:
        return None
    if min(len(ours), len(theirs)) < 2:
        return Estimate(statistics.geometric_mean(ours) / statistics.geometric_mean(theirs))
    found = mean_difference(run_summary(ours), run_summary(theirs), alpha=_ALPHA)
    return Estimate(math.exp(found.estimate), math.exp(found.low), math.exp(found.high))


def of_least(ours: Sequence[float], theirs: Sequence[float]) -> Estimate | None:
    """Of the shortest of each side; the interval is that of rounds drawn with replacement. None as above."""
    if min(*ours, *theirs) <= 0:
        return None
    ratio = min(ours) / min(theirs)
    if min(len(ours), len(theirs)) < _MIN_ROUNDS:
        return Estimate(ratio)
    chance = random.Random(0)
    drawn = sorted(
        min(chance.choices(ours, k=len(ours))) / min(chance.choices(theirs, k=len(theirs))) for _ in range(_DRAWS)
    )
    outside = round(_DRAWS * _ALPHA / 2)
    return Estimate(ratio, drawn[outside], drawn[-1 - outside])


@dataclass(frozen=True)
class Judged:
    """One row: a size, a placement, a way and a collective."""

    by_median: Estimate | None
    by_least: Estimate | None
    limits: tuple[float, float]

    def verdict(self) -> str:
        """By the medians of the rounds."""
        return self.by_median.verdict(*self.limits) if self.by_median else CANNOT_BE_TOLD

    def least_verdict(self) -> str:
        """By the least of all rounds."""
        return self.by_least.verdict(*self.limits) if self.by_least else CANNOT_BE_TOLD


def judged(row: dict[str, Any]) -> Judged:
    """A row of the results. Those of one cycle a round have no list of the least."""
    ours, theirs = row["busbw_us"], row["nccl_tests_us"]
    least = row.get("busbw_least_us", ours), row.get("nccl_tests_least_us", theirs)
    return Judged(of_rounds(ours, theirs), of_least(*least), limits(row["size_bytes"]))


def agrees_with_itself(times_us: Sequence[float], size_bytes: int) -> bool | None:
    """Whether a program's own rounds lie within the limit of each other; None where there are not two.

    What they do not, no other program's can be held to.
    """
    if len(times_us) < 2 or min(times_us) <= 0:
        return None
    return max(times_us) / min(times_us) <= limits(size_bytes)[1]


def median_over_sizes(rows: Sequence[dict[str, Any]]) -> Estimate | None:
    """Of each round that has all these rows the median of their ratios; over the rounds their mean."""
    rounds = min(len(row["busbw_us"]) for row in rows)
    medians = []
    for place in range(rounds):
        pairs = [(row["busbw_us"][place], row["nccl_tests_us"][place]) for row in rows]
        ratios = [ours / theirs for ours, theirs in pairs if ours > 0 and theirs > 0]
        if not ratios:
            return None
        medians.append(statistics.median(ratios))
    if len(medians) < 2:
        return Estimate(medians[0])
    found = mean_difference(run_summary(medians), SampleSummary(0.0, 0.0, 1.0), alpha=_ALPHA)
    return Estimate(math.exp(found.estimate), math.exp(found.low), math.exp(found.high))
