"""What a comparison says: per size a speed-up, how sure it is, and a verdict with its reason.

The speed-up is B's speed over A's: the time of A over the time of B, and just so busbw of B over busbw of A. Above 1
B is faster. It is never the mean over unlike sizes.
"""

from enum import Enum
from typing import Literal

from msgspec import Struct

from busbw.logs import Placement


class ChangeVerdict(str, Enum):
    """What can be said of B against A at one size."""

    SAME = "SAME"
    """Whatever difference there is, it is smaller than the stated resolution."""
    FASTER = "FASTER"
    """B is faster, and a neighbour agrees."""
    SLOWER = "SLOWER"
    """B is slower, and a neighbour agrees."""
    UNCLEAR = "UNCLEAR"
    """The data allow none of the three; the reason says why and what would help."""


Basis = Literal["blocks", "runs", "iterations", "means"]
"""What counts as one independent observation, from the strongest evidence to the weakest: quadruples of interleaved
blocks (`busbw ab`), whole runs, stretches of iterations within few runs, single figures."""


TimeQuantity = Literal["device_time_us", "median_us", "time_us", "algbw_gbps", "busbw_gbps"]
"""A field of `SideFigures`."""


class PointKey(Struct, kw_only=True, frozen=True, order=True):
    """What two rows must have in common to be compared. Null: unknown, or not applicable, on both sides."""

    collective: str | None
    dtype: str | None = None
    redop: str | None = None
    root: int | None = None
    ranks: int | None = None
    group: int = 0
    placement: Placement = "unstated"
    size_bytes: int


class Side(Struct, kw_only=True, frozen=True):
    """One of the two that are compared."""

    label: str
    """Short: 'A' or the variant's name."""
    source: str
    """A path, or the words that describe a side of `busbw ab`."""
    library: str | None = None
    runs: int = 1
    """Runs that its figures come from."""


class SideFigures(Struct, kw_only=True, frozen=True):
    """One side's figures at one point, by its log's own rule; over several runs the median of each."""

    time_us: float | None = None
    algbw_gbps: float | None = None
    busbw_gbps: float | None = None
    median_us: float | None = None
    """Over iterations, of the slowest rank of each; over several runs their median. Null without samples. On
    GPUs they may be by the device's clock, without launching, so where a device tells its time these stand for none."""
    device_time_us: float | None = None
    """Over several runs their median. Null where no device tells."""
    samples: int = 0
    """Iterations behind the figures; 0 where only means are known."""
    runs: int = 1
    """Runs, cycles or blocks behind the figures."""
    wrong_elements: int | None = None
    """Null unless checked."""


class SizeResult(Struct, kw_only=True, frozen=True):
    """The comparison at one point; where both sides have the device's time, one of it and one of the time paid."""

    point: PointKey
    a: SideFigures
    b: SideFigures
    speedup: float | None = None
    """B's speed over A's; null where no figure is common to both."""
    interval: tuple[float, float] | None = None
    """Of the speed-up, at the level that `Comparison.level_text` describes; null where there are only means."""
    rounding: tuple[float, float] | None = None
    """Where only means are known: the bounds that the printed digits leave for the speed-up."""
    compared: TimeQuantity = "median_us"
    """What the speed-up is of."""
    basis: Basis
    verdict: ChangeVerdict
    reason: str
    """One sentence."""
    claimed_speedup: float | None = None
    """What the log itself says it is."""
    claim_agrees: bool | None = None
    """Whether that follows from the log's own figures; null without a claim."""


class Difference(Struct, kw_only=True, frozen=True):
    """A setting that is not the same on both sides."""

    what: str
    a: str | None
    b: str | None


class Comparison(Struct, kw_only=True, frozen=True):
    """B against A."""

    a: Side
    b: Side
    results: tuple[SizeResult, ...]
    """By collective, type, placement and size."""
    resolution: float
    """The smallest relative change that matters: 0.05 is 5 %."""
    method: tuple[str, ...]
    """How the intervals were made and what they assume: one sentence each."""
    level_text: str
    """What the intervals promise: '99 % for all sizes together'."""
    wrong_data: tuple[str, ...] = ()
    """Sentences about wrong data on either side; they come before every other word on this comparison."""
    warnings: tuple[str, ...] = ()
    only_in_a: tuple[PointKey, ...] = ()
    only_in_b: tuple[PointKey, ...] = ()
    differences: tuple[Difference, ...] = ()
    """Settings, libraries and environment that differ: what may have caused a change."""

    def count(self, verdict: ChangeVerdict) -> int:
        """How many points have this verdict."""
        return sum(result.verdict is verdict for result in self.results)

    @property
    def changed(self) -> tuple[SizeResult, ...]:
        """The points that are faster or slower."""
        return tuple(
            result for result in self.results if result.verdict in (ChangeVerdict.FASTER, ChangeVerdict.SLOWER)
        )
