"""Verdicts on the configurations of a log: GOOD, SLOW, BROKEN or UNSURE, with the evidence.

`judge` (verdicts.py) judges a log. `grade.py` decides the grade of each configuration and of its bands of sizes.
"""

from busbw.judge.reference_comparison import ReferenceComparison, compare_with_reference
from busbw.judge.reference_selection import ReferenceSelection
from busbw.judge.types import EXIT_OF, GRADES, BandVerdict, Grade, JudgedConfiguration, JudgedFigure, Verdict, worst
from busbw.judge.verdicts import count_refused_rows, judge, judge_configurations

__all__ = [
    "EXIT_OF",
    "GRADES",
    "BandVerdict",
    "Grade",
    "JudgedConfiguration",
    "JudgedFigure",
    "ReferenceComparison",
    "ReferenceSelection",
    "Verdict",
    "compare_with_reference",
    "count_refused_rows",
    "judge",
    "judge_configurations",
    "worst",
]
