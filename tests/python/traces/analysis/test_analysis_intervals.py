"""Lengths of unions and overlaps, compared with a count of unit intervals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.traces.analysis.intervals import measure_depths, measure_uncovered, merge

INTERVALS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12), st.integers(0, 2)), min_size=1, max_size=30)


def cells(intervals: list[tuple[int, int, int]], chosen: int | None = None) -> set[int]:
    """Unit intervals that intervals, or those of one set, cover."""
    return {
        cell for start, length, number in intervals if chosen in (None, number) for cell in range(start, start + length)
    }


def arrays(intervals: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    starts, lengths, sets = (np.array(values) for values in zip(*intervals, strict=True))
    return starts.astype(float), (starts + lengths).astype(float), sets


@given(INTERVALS)
def test_union(intervals: list[tuple[int, int, int]]) -> None:
    starts, ends, _ = arrays(intervals)
    assert measure_uncovered(starts, ends).sum() == len(cells(intervals))
    merged_starts, merged_ends = merge(starts, ends)
    assert (merged_ends - merged_starts).sum() == len(cells(intervals))
    assert (merged_starts[1:] > merged_ends[:-1]).all()


@given(INTERVALS)
def test_depths(intervals: list[tuple[int, int, int]]) -> None:
    measured = measure_depths(*arrays(intervals), 3)
    by_set = [cells(intervals, number) for number in range(3)]
    counts = {cell: sum(cell in covered for covered in by_set) for cell in cells(intervals)}
    assert measured.busy == len(counts)
    assert measured.overlapped == sum(count > 1 for count in counts.values())
    assert measured.total.tolist() == [len(covered) for covered in by_set]
    assert measured.alone.tolist() == [sum(counts[cell] == 1 for cell in covered) for covered in by_set]


def test_small_gaps_are_closed() -> None:
    starts, ends = merge(np.array([0.0, 11.0, 30.0]), np.array([10.0, 20.0, 40.0]), max_gap=1.0)
    assert starts.tolist() == pytest.approx([0, 30])
    assert ends.tolist() == pytest.approx([20, 40])
