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


@dataclass(frozen=True, kw_only=True)
class CallSequence:
    """The calls of one rank."""

    signatures: Signatures
    """Numbers that are equal for calls that can be one operation."""
    indices: Indices
    """Indices of the calls in the operations of the rank."""
    has_gaps: bool
    """True if calls may be missing at any place."""
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
    reference = max(sequences, key=lambda one: (not one.has_gaps, len(one.indices)))
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
    if reference.has_gaps or own.has_gaps:
        return _align_with_gaps(model, calls), None
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
    width = min(_WINDOW, len(beginning), len(sequence))
    positions = np.arange(len(sequence) - width + 1 if width else 0)
    for offset in range(width):
        positions = positions[sequence[positions + offset] == beginning[offset]]
    return positions


def _align_with_gaps(model: Signatures, calls: Signatures) -> Indices:
    """Returns the rows of calls if calls of either rank are missing.

    A gap is known only from the first difference behind it. The calls before it that would be equal on both sides of
    the gap are ambiguous, and get no row.
    """
    rows = np.full(len(calls), -1, np.intp)
    here = there = 0
    for _ in range(_MAX_GAPS):
        rest = min(len(calls) - here, len(model) - there)
        differences = np.flatnonzero(calls[here : here + rest] != model[there : there + rest])
        run = int(differences[0]) if len(differences) else rest
        rows[here : here + run] = np.arange(there, there + run)
        here, there = here + run, there + run
        skipped, added = len(model) - there, len(calls) - here
        if len(differences):
            in_model = _find_window(model[there : there + _MAX_GAP], calls[here:])
            in_calls = _find_window(calls[here : here + _MAX_GAP], model[there:])
            nearest = min(
                [(int(found[0]), found is in_model) for found in (in_model, in_calls) if len(found)], default=None
            )
            if nearest:
                skipped, added = (nearest[0], 0) if nearest[1] else (0, nearest[0])
        if skipped or added:
            length = min(run, here + added, there + skipped)
            unequal = np.flatnonzero(
                calls[here + added - length : here + added] != model[there + skipped - length : there + skipped]
            )
            rows[here - length + (int(unequal[-1]) + 1 if len(unequal) else 0) : here] = -1
        here, there = here + added, there + skipped
        if here >= len(calls) or there >= len(model):
            break
    return rows
