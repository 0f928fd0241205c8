"""The page of unusual traces: none fails, and unknown values are empty and never NaN."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from report_pages import Parsed
from synthetic_traces import make_trace, select_operations

from busbw.report import build_trace, render
from busbw.system import find
from busbw.traces.analysis import analyze, make_timeline, prepare_trace
from busbw.traces.format import DeviceClock, Flag, Operations
from busbw.traces.model import Trace


def cut(trace: Trace, change: Callable[[Operations], Operations], ranks: int = 4) -> Trace:
    """Changes the operations of the first ranks."""
    changed = (replace(one, operations=change(one.operations.copy())) for one in trace.ranks[:ranks])
    return replace(trace, ranks=(*changed, *trace.ranks[ranks:]))


def set_field(field: str, value: int) -> Callable[[Operations], Operations]:
    def change(operations: Operations) -> Operations:
        operations[field] = value
        return operations

    return change


JOB = make_trace(ranks=4)
UNUSUAL = {
    "one rank without operations": cut(JOB, lambda operations: operations[:0], ranks=1),
    "no operations": cut(JOB, lambda operations: operations[:0]),
    "one operation": cut(JOB, lambda operations: operations[:1]),
    "one of four ranks": replace(JOB, ranks=JOB.ranks[:1]),
    "a job of one rank": make_trace(ranks=1),
    "unknown members": replace(
        JOB, communicators=tuple(replace(one, members=(None,) * 4) for one in JOB.communicators)
    ),
    "clocks that cannot be aligned": make_trace(
        ranks=4, steps=2, device_clock=DeviceClock.GPU, clock_offsets_ns=[0, 10**9, 5 * 10**9, 7]
    ),
    "captured operations": cut(JOB, set_field("flags", Flag.CAPTURED)),
    "ends before starts": cut(JOB, set_field("device_end_ns", 1)),
    "no elements": cut(JOB, set_field("count", 0)),
}


@pytest.mark.parametrize("name", UNUSUAL)
@pytest.mark.parametrize("system", [None, "h100-sxm", "host"])
def test_a_page(name: str, system: str | None) -> None:
    prepared = prepare_trace(UNUSUAL[name])
    analysis = analyze(prepared, system=find(system) if system else None)
    page = Parsed(render(build_trace(analysis, make_timeline(prepared, analysis))))
    assert "nan" not in page.words.lower()
    assert analysis.findings == ()


def test_the_timeline_is_of_a_rank_with_the_steps_of_the_job() -> None:
    trace = make_trace(ranks=4, steps=20)
    trace = select_operations(trace, 0, lambda operations: np.arange(len(operations)) < 4)
    prepared = prepare_trace(trace)
    timeline = make_timeline(prepared, analyze(prepared))
    assert timeline is not None
    assert timeline.title.startswith("Timeline of step")
