"""Result of a comparison: for each size a speed-up, its interval, and a verdict with its reason.

The speed-up is B's speed over A's: time of A over time of B, or busbw of B over busbw of A. If it is above 1, B is
faster. It is never averaged over different sizes. Field names are keys of the JSON output.
"""

from enum import Enum
from typing import Literal

from msgspec import Struct

from busbw.logs.log import PLACEMENT_WORDS, Placement
from busbw.units import count_text

NO_INTERVALS = "no intervals"
"""Text of `Comparison.level_text` if no result can have a confidence interval."""


class ChangeVerdict(str, Enum):
    """Verdict on B against A at one size."""

    SAME = "SAME"
    """No change is visible, and any difference is at most the stated resolution."""
    FASTER = "FASTER"
    """B is faster, and a neighbor agrees if there is one."""
    SLOWER = "SLOWER"
    """B is slower, and a neighbor agrees if there is one."""
    UNCLEAR = "UNCLEAR"
    """The data support none of the three. `SizeResult.reason` has the cause."""


Basis = Literal["blocks", "runs", "iterations", "means"]
"""Unit that counts as one independent observation, from the strongest evidence to the weakest: quadruples of
interleaved blocks (`busbw ab`), whole runs, stretches of consecutive iterations within few runs, single figures."""


TimeQuantity = Literal["device_time_us", "median_us", "time_us", "algbw_gbps", "busbw_gbps"]
"""Field of `SideFigures` that is compared. A bandwidth replaces a time that is unknown or printed less precisely."""


def change_text(change: float) -> str:
    """Text of a relative change: "5 %", or "a factor of 2.25" from 100 % on."""
    return f"{change * 100:.3g} %" if change < 1 else f"a factor of {1 + change:g}"


class PointKey(Struct, kw_only=True, frozen=True, order=True):
    """A point: one size of one configuration and placement. None: not stated or not applicable."""

    collective: str | None
    dtype: str | None = None
    redop: str | None = None
    root: int | None = None
    ranks: int | None = None
    group: int = 0
    system: str | None = None
    """Description of the system, to tell the systems of a configuration apart. None if the configuration has one system
    per side and these two are paired."""
    placement: Placement = "unstated"
    test_ranks: int | None = None
    """Number of ranks in the test of comm_ops. Of these, `ranks` make the call."""
    together: bool = False
    """True for times that were measured while another operation ran (--with)."""
    size_bytes: int

    @property
    def is_call(self) -> bool:
        """True for a call of comm_ops, which has no size."""
        return self.test_ranks is not None

    @property
    def configuration_text(self) -> str:
        """Description without the size: "all_reduce float sum 8 ranks out of place", "init/create 8 ranks"."""
        parts = [self.collective or "unknown collective"]
        if not self.is_call:  # all calls of comm_ops have the same type and operator
            parts += filter(None, [self.dtype, self.redop])
        if self.root is not None and self.root >= 0:
            parts.append(f"root {self.root}")
        if self.ranks is not None:
            is_part = self.test_ranks not in (None, self.ranks)
            parts.append(f"{self.ranks} of {self.test_ranks} ranks" if is_part else count_text(self.ranks, "rank"))
        if self.group:
            parts.append(f"group {self.group}")
        if self.system is not None:
            parts.append(f"({self.system})")
        parts += [PLACEMENT_WORDS[self.placement], "together" if self.together else ""]
        return " ".join(filter(None, parts))


class Side(Struct, kw_only=True, frozen=True):
    """One of the two compared sides."""

    label: str
    """Short name: 'A' or the variant's name."""
    source: str
    """Path of the log, or the description of a side of `busbw ab`."""
    library: str | None = None
    runs: int = 1
    """Number of runs that the figures come from."""


class SideFigures(Struct, kw_only=True, frozen=True):
    """Figures of one side at one point. Times and bandwidths are medians over the runs and their cycles."""

    time_us: float | None = None
    algbw_gbps: float | None = None
    busbw_gbps: float | None = None
    median_us: float | None = None
    """Median over iterations of the slowest rank's time. None if a run has no samples.

    With device times, `device_time_us` and `time_us` are compared instead: the samples may exclude launch time."""
    device_time_us: float | None = None
    """Time of an operation if all ranks begin together. None if unknown."""
    samples: int = 0
    """Number of iterations with samples; 0 if only means are known."""
    runs: int = 1
    """Number of runs or blocks that the figures come from."""
    wrong_elements: int | None = None
    """Number of wrong elements. None if no data were checked."""
    algorithm: str | None = None
    """Algorithm and protocol: 'ring/ll128'. None if unknown, or if the runs or blocks differ."""


class SizeResult(Struct, kw_only=True, frozen=True):
    """Comparison of one quantity at one point. With device times, a point has two: device time and program time."""

    point: PointKey
    a: SideFigures
    b: SideFigures
    speedup: float | None = None
    """B's speed over A's. None without a common figure."""
    interval: tuple[float, float] | None = None
    """Confidence interval of the speed-up at the level of `Comparison.level_text`. None for the basis `means`, or if it
    is too wide."""
    rounding: tuple[float, float] | None = None
    """Bounds of the speed-up from rounding of the printed digits. Only for the basis `means`."""
    compared: TimeQuantity = "median_us"
    """Quantity of the speed-up."""
    basis: Basis
    verdict: ChangeVerdict
    reason: str
    """One sentence."""
    threshold: float | None = None
    """Relative change that FASTER and SLOWER must exceed, because the runs are few: 0.05 is 5 %. None if there are
    enough runs, so that the interval alone decides."""
    claimed_speedup: float | None = None
    """Speed-up that a row of the log states itself, such as 1.25. None if the row states none."""
    claim_agrees: bool | None = None
    """True if the stated speed-up agrees with the printed figures of the log. None without a stated speed-up, or if
    the computed one does not come from printed figures."""

    @property
    def is_changed(self) -> bool:
        """True if B is faster or slower."""
        return self.verdict in (ChangeVerdict.FASTER, ChangeVerdict.SLOWER)

    @property
    def explanation(self) -> str:
        """The reason, and the algorithms if they are known and differ."""
        if self.a.algorithm and self.b.algorithm and self.a.algorithm != self.b.algorithm:
            return f"{self.reason} A ran {self.a.algorithm}, B {self.b.algorithm}."
        return self.reason


class SettingDifference(Struct, kw_only=True, frozen=True):
    """A setting that differs between the sides."""

    what: str
    """Name of the setting."""
    a: str | None
    """Value on side A. None if not stated."""
    b: str | None


class Comparison(Struct, kw_only=True, frozen=True):
    """Comparison of B against A."""

    a: Side
    b: Side
    results: tuple[SizeResult, ...]
    """Ordered by collective, type, placement and size."""
    resolution: float
    """Largest relative difference that is SAME: 0.05 is 5 %."""
    method: tuple[str, ...]
    """Sentences on how the intervals are computed and on their assumptions."""
    level_text: str
    """Confidence level of the intervals: '99 % for all sizes together', or NO_INTERVALS."""
    wrong_data: tuple[str, ...] = ()
    """Sentences about wrong data on either side. Show them first."""
    warnings: tuple[str, ...] = ()
    only_in_a: tuple[PointKey, ...] = ()
    only_in_b: tuple[PointKey, ...] = ()
    differences: tuple[SettingDifference, ...] = ()
    """Settings, libraries and environment variables that differ and may explain a change."""

    @property
    def has_intervals(self) -> bool:
        """True if the results can have confidence intervals."""
        return self.level_text != NO_INTERVALS

    def count(self, verdict: ChangeVerdict) -> int:
        """Number of results with this verdict."""
        return sum(result.verdict is verdict for result in self.results)

    @property
    def changed(self) -> tuple[SizeResult, ...]:
        """Results that are faster or slower."""
        return tuple(result for result in self.results if result.is_changed)
