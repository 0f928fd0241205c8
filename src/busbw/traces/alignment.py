"""Aligns the sequences of calls of several ranks. Each rank should make the same calls in the same order."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.intp]
Signatures = NDArray[np.uint64]

_WINDOW, _MIN_WINDOW = 16, 4
"""Equal calls in sequence that prove an alignment, and their minimum at the end of a sequence."""
_MIN_RUN_RATIO = 2
"""Ratio of equal calls behind the best and the second best alignment."""
_MAX_GAP = 4096
_MAX_GAPS = 1000
_MAX_SHIFTS = 64


@dataclass(frozen=True, kw_only=True)
class CallSequence:
    """The calls of one rank."""

    signatures: Signatures
    """Numbers that are equal for calls that can be one operation."""
    indices: Indices
    """Indices of the calls in the operations of the rank."""
    gap_count: int
    """Maximum number of calls that are missing between others."""
    times_ns: NDArray[np.int64] | None
    """Unix times of the calls by the clock of the host. None: unknown."""


@dataclass(frozen=True, kw_only=True)
class Alignment:
    """The calls of all ranks as a table."""

    table: Indices
    """[calls, ranks]: index of the call in the operations of each rank; -1: absent or ambiguous."""
    difference: int | None
    """Number of calls before the first different ones, with which the table ends. None: all are equal."""
    bounds: list[tuple[int, int]]
    """First row and row behind the last one of each rank, before the table is cut."""


def align_sequences(sequences: Sequence[CallSequence]) -> Alignment:
    """Aligns the sequences to the longest one, preferably without gaps."""
    reference = max(sequences, key=lambda one: (not one.gap_count, len(one.indices)))
    length = max(len(one.indices) for one in sequences)
    table = np.full((length, len(sequences)), -1, np.intp)
    first: int | None = None
    bounds = []
    for column, own in enumerate(sequences):
        rows, difference = _align(reference, own)
        known = np.flatnonzero((rows >= 0) & (rows < length))
        table[rows[known], column] = own.indices[known]
        bounds.append((int(rows[known[0]]), int(rows[known[-1]]) + 1) if len(known) else (0, 0))
        if difference is not None and (first is None or difference < first):
            first = difference
    return Alignment(table=table[:first], difference=first, bounds=bounds)


def _align(reference: CallSequence, own: CallSequence) -> tuple[Indices, int | None]:
    """Returns the row of each call, which is that of the reference, and the number of calls before a difference."""
    model, calls = reference.signatures, own.signatures
    rows = np.arange(len(calls))
    shared = min(len(model), len(calls))
    differences = np.flatnonzero(calls[:shared] != model[:shared])
    if not len(differences) and len(calls) == len(model):
        return rows, None
    if reference.gap_count or own.gap_count:
        return _align_with_gaps(model, calls, reference.gap_count, own.gap_count), None
    shifts = [0] if not len(differences) else []
    for shift in _find_window(model, calls)[:_MAX_SHIFTS]:
        if 0 < shift <= len(model) - len(calls) and np.array_equal(model[shift : shift + len(calls)], calls):
            shifts.append(int(shift))
    if not shifts:
        return np.where(rows < differences[0], rows, -1), int(differences[0])
    if len(calls) and (times := reference.times_ns) is not None and own.times_ns is not None:
        first_ns = own.times_ns[0]
        shifts.sort(key=lambda shift: abs(int(times[shift] - first_ns)))
    return rows + shifts[0], None


def _find_window(sequence: Signatures, beginning: Signatures) -> Indices:
    """Returns the positions at which the sequence has the same calls as the beginning of another."""
    width = min(_WINDOW, len(beginning))
    positions = np.arange(max(0, len(sequence) - min(_MIN_WINDOW, width) + 1) if width else 0)
    for offset in range(width):
        places = np.minimum(positions + offset, len(sequence) - 1)
        positions = positions[(sequence[places] == beginning[offset]) | (places < positions + offset)]
    return positions


def _align_with_gaps(model: Signatures, calls: Signatures, model_gap: int, calls_gap: int) -> Indices:
    """Returns the rows of calls if at most so many calls are missing between others of each sequence.

    A gap is known only from the first difference behind it. The calls before it that would also be equal behind a gap
    are ambiguous, and get no row.
    """
    rows = np.full(len(calls), -1, np.intp)
    here = there = 0
    for _ in range(_MAX_GAPS):
        rest = min(len(calls) - here, len(model) - there)
        differences = np.flatnonzero(calls[here : here + rest] != model[there : there + rest])
        run = int(differences[0]) if len(differences) else rest
        rows[here : here + run] = np.arange(there, there + run)
        here, there = here + run, there + run
        gap = None if len(differences) else (len(model) - there, len(calls) - here)
        gap = gap or _find_gap(model[there:], calls[here:], model_gap, calls_gap)
        max_gap, tail = min(max(model_gap, calls_gap), _MAX_GAP), min(run, _WINDOW)
        lags = _find_window(model[there - tail + 1 : there + max_gap], model[there - tail : there]) + 1
        lags = lags[lags <= max_gap]
        ambiguous = run if len(lags) > _MAX_SHIFTS else 0
        for skipped, added in [
            *((lag, 0) for lag in lags[:_MAX_SHIFTS].tolist()),
            *([gap] if gap and any(gap) else []),
        ]:
            ambiguous = max(ambiguous, _count_equal_ends(calls[: here + added], model[: there + skipped], run))
        rows[here - ambiguous : here] = -1
        if gap is None:
            break
        here, there = here + gap[1], there + gap[0]
        if here >= len(calls) or there >= len(model):
            break
    return rows


def _count_equal_ends(left: Signatures, right: Signatures, max_count: int) -> int:
    """Returns the number of calls, up to this one, in which the ends of two sequences are equal."""
    count = min(max_count, len(left), len(right))
    unequal = np.flatnonzero(left[len(left) - count :] != right[len(right) - count :])
    return count - (int(unequal[-1]) + 1 if len(unequal) else 0)


def _find_gap(model: Signatures, calls: Signatures, model_gap: int, calls_gap: int) -> tuple[int, int] | None:
    """Returns how many calls to skip in each sequence, or None if that is ambiguous.

    Behind the correct gap, the sequences are equal for longer than behind any other.
    """
    runs: list[tuple[int, int, int]] = []
    for is_added, longer, shorter, max_gap in ((0, model, calls, calls_gap), (1, calls, model, model_gap)):
        for gap in _find_window(longer[: min(max_gap, _MAX_GAP) + _WINDOW], shorter).tolist():
            if gap <= max_gap:
                length = min(len(longer) - gap, len(shorter))
                unequal = np.flatnonzero(longer[gap : gap + length] != shorter[:length])
                runs.append((int(unequal[0]) if len(unequal) else length, is_added, gap))
    runs.sort(reverse=True)
    if not runs or (len(runs) > 1 and runs[0][0] < _MIN_RUN_RATIO * runs[1][0]):
        return None
    _, is_added, gap = runs[0]
    return (0, gap) if is_added else (gap, 0)
