"""Lengths of unions and overlaps of time intervals.

Intervals may belong to sets, such as one set for each stream. A set is active while one of its intervals lasts.
"""

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Values: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]


class Depths(NamedTuple):
    """Time by the number of sets that are active."""

    busy: float
    """Time with at least one active set."""
    overlapped: float
    """Time with at least two active sets."""
    alone: Values
    """Time in which only this set is active, for each set."""
    total: Values
    """Time in which this set is active, for each set."""


def measure_uncovered(starts: Values, ends: Values) -> Values:
    """Returns the length of the part of each interval that no interval with an earlier start covers.

    The sum of these lengths is the length of the union.
    """
    order = np.argsort(starts, kind="stable")
    covered_to = np.concatenate([[-np.inf], np.maximum.accumulate(ends[order])[:-1]])
    lengths = np.empty(len(starts))
    lengths[order] = np.clip(ends[order] - np.maximum(starts[order], covered_to), 0, None)
    return lengths


def merge(starts: Values, ends: Values, max_gap: float = 0.0) -> tuple[Values, Values]:
    """Returns starts and ends of the union of the intervals. Gaps up to `max_gap` are closed."""
    if not len(starts):
        return starts, ends
    order = np.argsort(starts, kind="stable")
    starts, covered_to = starts[order], np.maximum.accumulate(ends[order])
    is_first = np.concatenate([[True], starts[1:] > covered_to[:-1] + max_gap])
    is_last = np.concatenate([is_first[1:], [True]])
    return starts[is_first], covered_to[is_last]


def measure_depths(starts: Values, ends: Values, sets: Indices, set_count: int) -> Depths:
    """Measures how long the sets are active alone and together. `sets`: set of each interval."""
    merged = [merge(starts[sets == index], ends[sets == index]) for index in range(set_count)]
    set_indices = np.repeat(np.arange(set_count), [len(set_starts) for set_starts, _ in merged])
    # At each start one more set is active, and at each end one less. The depth is constant between these times.
    times = np.concatenate([*(set_starts for set_starts, _ in merged), *(set_ends for _, set_ends in merged)])
    order = np.argsort(times, kind="stable")
    lengths = np.diff(times[order])
    signs = np.repeat([1, -1], len(set_indices))
    depth = np.cumsum(signs[order])[:-1]
    sum_of_active_indices = np.cumsum((signs * np.tile(set_indices, 2))[order])[:-1]
    is_alone = depth == 1
    index_of_active_set = sum_of_active_indices[is_alone]  # the sum has only one term
    alone: Values = np.bincount(index_of_active_set, weights=lengths[is_alone], minlength=set_count).astype(np.float64)
    return Depths(
        busy=float(lengths[depth > 0].sum()),
        overlapped=float(lengths[depth > 1].sum()),
        alone=alone,
        total=np.array([float((set_ends - set_starts).sum()) for set_starts, set_ends in merged]),
    )
