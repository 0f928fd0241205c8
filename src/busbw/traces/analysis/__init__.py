"""Analysis of a trace: operations, late ranks, overlap, and the changes that would save most."""

from busbw.traces.analysis.analyze import analyze
from busbw.traces.analysis.prepare import PreparedTrace, prepare_trace
from busbw.traces.analysis.timeline import Timeline, make_timeline
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
    "PreparedTrace",
    "RankRow",
    "StepTimes",
    "Timeline",
    "TraceAnalysis",
    "analyze",
    "make_timeline",
    "prepare_trace",
]
