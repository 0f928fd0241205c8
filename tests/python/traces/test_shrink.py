"""Shrunk traces have the same operations with smaller counts and times."""

import numpy as np
import pytest

from busbw.errors import UsageError
from busbw.traces.format import UNKNOWN_COUNT
from busbw.traces.models import load_model
from busbw.traces.shrink import shrink_trace


def test_counts_and_times_are_divided() -> None:
    trace = load_model("mixtral-8x7b-ep8", 2)
    shrunk = shrink_trace(trace, 1000)
    for before, after in zip(trace.ranks, shrunk.ranks, strict=True):
        for row, small in zip(before.operations.tolist(), after.operations.tolist(), strict=True):
            expected = dict(zip(before.operations.dtype.names or (), row, strict=True))
            for name in ("count", "enqueue_ns"):
                expected[name] = (expected[name] + 999) // 1000
            assert dict(zip(after.operations.dtype.names or (), small, strict=True)) == expected
        assert (after.operations["host_ns"] == UNKNOWN_COUNT).all()
    assert "divided by 1,000" in shrunk.problems[-1]
    assert shrunk.communicators == trace.communicators


def test_known_times_are_divided_and_unknown_ones_stay() -> None:
    trace = load_model("llama-7b-fsdp", 2)
    operations = trace.ranks[0].operations
    operations["device_start_ns"][0], operations["device_end_ns"][0], operations["host_ns"][0] = 5001, 7000, 11
    small = shrink_trace(trace, 10).ranks[0].operations
    assert small[["device_start_ns", "device_end_ns", "host_ns"]][0].tolist() == (501, 700, 2)
    assert small[["device_start_ns", "device_end_ns", "host_ns"]][1].tolist() == (0, 0, UNKNOWN_COUNT)


def test_a_factor_of_one_changes_nothing() -> None:
    trace = load_model("llama-7b-fsdp", 2)
    shrunk = shrink_trace(trace, 1)
    assert np.array_equal(shrunk.ranks[0].operations, trace.ranks[0].operations)
    assert shrunk.problems == trace.problems


def test_an_impossible_factor_is_refused() -> None:
    with pytest.raises(UsageError, match="0 is no factor"):
        shrink_trace(load_model("llama-7b-fsdp", 2), 0)
