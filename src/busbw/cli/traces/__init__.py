"""View of a trace in a terminal, for `busbw show`."""

from busbw.cli.traces.trace_view import print_trace

__all__ = ["print_trace"]
