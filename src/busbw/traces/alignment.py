"""Aligns the sequences of calls of several ranks. Each rank should make the same calls in the same order."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.intp]
Signatures = NDArray[np.uint64]

_WINDOW = 16
"""Equal calls in sequence that prove an alignment."""
_MAX_GAP = 4096
_MAX_GAPS = 1000
_MAX_SHIFTS = 64


@dataclass(frozen=True)
class Sequences:
    """The calls of each rank, in lists with one item per rank."""

    signatures: Sequence[Signatures]
    """Numbers that are equal for calls that can be one operation."""
    indices: Sequence[Indices]
    """Indices of the calls in the operations of the rank."""
    has_gaps: Sequence[bool]
    """True if calls of the rank may be missing at any place."""
    times_ns: Sequence[NDArray[np.int64] | None]
    """Times of the calls, by clocks that differ by less than the ranks' recordings. None: unknown."""

    def join(self, other: "Sequences") -> "Sequences":
        """Returns the sequences of both."""
        return Sequences(
            [*self.signatures, *other.signatures],
            [*self.indices, *other.indices],
            [*self.has_gaps, *other.has_gaps],
            [*self.times_ns, *other.times_ns],
        )


@dataclass(frozen=True)
class Alignment:
    """The calls of all ranks as a table."""

    table: Indices
    """[calls, ranks]: index of the call in the operations of each rank; -1: absent or ambiguous."""
    difference: int | None
    """Number of equal calls before the first different ones, with which the table ends. None: all are equal."""
    begins: list[int]
    """First row of each rank, before the table is cut."""
    ends: list[int]
    """Row behind the last one of each rank."""


def align_sequences(sequences: Sequences) -> Alignment:
    """Aligns sequences to the longest one, preferably without gaps."""
    signatures = sequences.signatures
    reference = max(range(len(signatures)), key=lambda one: (not sequences.has_gaps[one], len(signatures[one])))
    length = max(map(len, signatures))
    table = np.full((length, len(signatures)), -1, np.intp)
    differences, begins, ends = [], [], []
    for column, indices in enumerate(sequences.indices):
        rows, difference = _align(sequences, reference, column)
        is_known = (rows >= 0) & (rows < length)
        table[rows[is_known], column] = indices[is_known]
        begins.append(int(rows[is_known][0]) if is_known.any() else 0)
        ends.append(int(rows[is_known][-1]) + 1 if is_known.any() else 0)
        differences += [difference] if difference is not None else []
    first = min(differences, default=None)
    return Alignment(table[:first], first, begins, ends)


def _align(sequences: Sequences, reference: int, column: int) -> tuple[Indices, int | None]:
    """Returns the row of each call, which is that of the reference, and the first call that differs."""
    model, own = sequences.signatures[reference], sequences.signatures[column]
    rows = np.arange(len(own))
    shared = min(len(model), len(own))
    differences = np.flatnonzero(own[:shared] != model[:shared])
    if not len(differences) and len(own) == len(model):
        return rows, None
    if sequences.has_gaps[reference] or sequences.has_gaps[column]:
        return _align_with_gaps(model, own), None
    shifts = [0] if not len(differences) else []
    for shift in _find_window(model, own)[:_MAX_SHIFTS]:
        if 0 < shift <= len(model) - len(own) and np.array_equal(model[shift : shift + len(own)], own):
            shifts.append(int(shift))
    if not shifts:
        return np.where(rows < differences[0], rows, -1), int(differences[0])
    model_times, own_times = sequences.times_ns[reference], sequences.times_ns[column]
    if model_times is None or own_times is None or not len(own):
        return rows + shifts[0], None
    return rows + min(shifts, key=lambda shift: abs(int(model_times[shift] - own_times[0]))), None


def _find_window(sequence: Signatures, beginning: Signatures) -> Indices:
    """Returns the positions at which the sequence has the same calls as the beginning of another."""
    width = min(_WINDOW, len(beginning), len(sequence))
    if not width:
        return np.zeros(0, np.intp)
    positions = np.arange(len(sequence) - width + 1)
    for offset in range(width):
        positions = positions[sequence[positions + offset] == beginning[offset]]
    return positions


def _align_with_gaps(model: Signatures, own: Signatures) -> Indices:
    """Returns the rows of calls if calls of either rank are missing.

    A gap is known only from the first difference behind it. The calls before it that would be equal on both sides of
    the gap are ambiguous, and get no row.
    """
    rows = np.full(len(own), -1, np.intp)
    here, there = 0, 0
    for _ in range(_MAX_GAPS):
        rest = min(len(own) - here, len(model) - there)
        differences = np.flatnonzero(own[here : here + rest] != model[there : there + rest])
        run = int(differences[0]) if len(differences) else rest
        rows[here : here + run] = np.arange(there, there + run)
        here, there = here + run, there + run
        skipped, added = len(model) - there, len(own) - here
        if len(differences):
            behind = _find_window(model[there : there + _MAX_GAP], own[here:])
            own_behind = _find_window(own[here : here + _MAX_GAP], model[there:])
            if len(behind) and (not len(own_behind) or behind[0] <= own_behind[0]):
                skipped, added = int(behind[0]), 0
            elif len(own_behind):
                skipped, added = 0, int(own_behind[0])
        if skipped or added:
            length = min(run, here + added, there + skipped)
            own_end, model_end = own[: here + added], model[: there + skipped]
            unequal = np.flatnonzero(own_end[len(own_end) - length :] != model_end[len(model_end) - length :])
            rows[here - length + (int(unequal[-1]) + 1 if len(unequal) else 0) : here] = -1
        here, there = here + added, there + skipped
        if here >= len(own) or there >= len(model):
            break
    return rows
