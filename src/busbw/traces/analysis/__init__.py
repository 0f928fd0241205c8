"""Analysis of a trace: operations, late ranks, overlap, and the changes that would save most."""

from busbw.traces.analysis.analyze import analyze
from busbw.traces.analysis.types import (
    Change,
    CommunicatorGroup,
    Finding,
    OperationRow,
    RankRow,
    StepTimes,
    TraceAnalysis,
)

__all__ = [
    "Change",
    "CommunicatorGroup",
    "Finding",
    "OperationRow",
    "RankRow",
    "StepTimes",
    "TraceAnalysis",
    "analyze",
]
