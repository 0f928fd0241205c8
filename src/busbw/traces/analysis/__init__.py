"""Analysis of a trace: operations, late ranks, overlap, and the changes that would save most."""

from busbw.traces.analysis.analyze import analyze
from busbw.traces.analysis.prepare import prepare_trace
from busbw.traces.analysis.timeline import make_timeline
from busbw.traces.analysis.types import OperationRow, RankRow, TraceAnalysis

__all__ = ["OperationRow", "RankRow", "TraceAnalysis", "analyze", "make_timeline", "prepare_trace"]
