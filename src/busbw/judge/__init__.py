"""Whether a run is as fast as it should be: GOOD, SLOW, BROKEN or UNSURE, per band, with the evidence."""

from busbw.judge.reference_comparison import Beside, beside
from busbw.judge.types import EXIT_OF, BandVerdict, Grade, Judged, Verdict, worst
from busbw.judge.verdicts import Against, judge

__all__ = ["EXIT_OF", "Against", "BandVerdict", "Beside", "Grade", "Judged", "Verdict", "beside", "judge", "worst"]
