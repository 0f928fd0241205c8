"""What a verdict is: a grade per band with the figures that it rests on."""

from typing import Literal

from msgspec import Struct

from busbw.errors import ExitCode
from busbw.expect import ExpectedRange
from busbw.logs import Placement
from busbw.statistics.bands import BandName
from busbw.statistics.fit import CurveFeature, Fit

Grade = Literal["GOOD", "SLOW", "BROKEN", "UNSURE"]

EXIT_OF: dict[Grade, ExitCode] = {
    "GOOD": ExitCode.GOOD,
    "SLOW": ExitCode.SLOWER_THAN_DEMANDED,
    "BROKEN": ExitCode.WRONG_DATA,
    "UNSURE": ExitCode.ENVIRONMENT,
}
_WORST_FIRST: tuple[Grade, ...] = ("BROKEN", "SLOW", "UNSURE", "GOOD")


def worst(grades: list[Grade]) -> Grade:
    """The grade of several together; without any nothing is known."""
    return next((grade for grade in _WORST_FIRST if grade in grades), "UNSURE")


class JudgedFigure(Struct, kw_only=True, frozen=True):
    """One figure beside the range that it is held against."""

    size_bytes: int
    placement: Placement
    time_us: float
    busbw_gbps: float | None
    range_us: ExpectedRange
    outcome: Literal["inside", "slower", "faster", "unclear"]

    @property
    def ratio(self) -> float:
        """Measured over typical time; above 1 is slower."""
        return self.time_us / self.range_us.typical


class BandVerdict(Struct, kw_only=True, frozen=True):
    """One band of one series."""

    band: BandName
    grade: Grade
    reason: str
    judged: tuple[JudgedFigure, ...]
    worst: JudgedFigure
    """The one that is furthest beyond what is typical."""


class Verdict(Struct, kw_only=True, frozen=True):
    """What to think of one configuration of a log."""

    grade: Grade
    title: str
    """What was run: 'all_reduce float sum, 8 ranks'."""
    yardstick: str
    """What it was held against; 'nothing' where there was nothing."""
    reasons: tuple[str, ...] = ()
    """The sentences that the grade rests on, the weightiest first."""
    bands: tuple[BandVerdict, ...] = ()
    causes: tuple[str, ...] = ()
    """What it looks like, each with its figures; likely, not proven."""
    advice: tuple[str, ...] = ()
    """What to do next."""
    beside: tuple[str, ...] = ()
    """What is worth knowing and decides nothing: the nearest published figure, rows that were not checked."""
    fit: Fit | None = None
    half_bytes: float | None = None
    features: tuple[CurveFeature, ...] = ()
