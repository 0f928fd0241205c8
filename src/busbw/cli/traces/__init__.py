"""Views of traces and replays in a terminal, for `busbw show` and `busbw replay`."""

from busbw.cli.traces.replay_view import CallComparison, ReplayComparison, print_replay
from busbw.cli.traces.trace_view import print_trace

__all__ = ["CallComparison", "ReplayComparison", "print_replay", "print_trace"]
