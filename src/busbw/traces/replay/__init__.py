"""Converts a step of a trace to a replay program, the input of `busbw-engine replay` (schema/trace.md)."""

from busbw.traces.replay.program import ReplayOperation, ReplayProgram, make_program

__all__ = ["ReplayOperation", "ReplayProgram", "make_program"]
