"""Smaller copy of a trace, so that a laptop can replay it in seconds."""

from dataclasses import replace

import numpy as np

from busbw.errors import UsageError
from busbw.traces.format import UNKNOWN_COUNT
from busbw.traces.model import Operations, Trace


def shrink_trace(trace: Trace, factor: int) -> Trace:
    """Returns a trace with all counts and times divided by `factor`, rounded up. Unknown values stay unknown.

    Raises:
        UsageError: The factor is less than 1.
    """
    if factor < 1:
        raise UsageError(f"{factor} is no factor to shrink a trace", remedy="use 1 or more")
    note = f"Counts and times are divided by {factor:,}, so the result does not predict the time of the job."
    ranks = tuple(replace(rank, operations=_shrink(rank.operations, factor)) for rank in trace.ranks)
    return replace(trace, ranks=ranks, problems=(*trace.problems, *([note] if factor > 1 else [])))


def _shrink(operations: Operations, factor: int) -> Operations:
    shrunk: Operations = operations.copy()
    for name in ("count", "enqueue_ns", "device_start_ns", "device_end_ns"):
        shrunk[name] = -(-operations[name].astype(np.int64) // factor)
    is_known = operations["host_ns"] != UNKNOWN_COUNT
    shrunk["host_ns"][is_known] = -(-operations["host_ns"][is_known].astype(np.int64) // factor)
    return shrunk
