"""Aligns the sequences of calls of several ranks. Each rank should make the same calls in the same order."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.intp]
Signatures = NDArray[np.uint64]

_WINDOW = 16
"""Number of first calls that must be equal at a row before the whole sequence is compared there."""
_MAX_SHIFTS = 64
"""Maximum number of rows at which the whole sequence is compared, the nearest in time first."""


@dataclass(frozen=True, kw_only=True)
class CallSequence:
    """The calls of one rank."""

    signatures: Signatures
    """Numbers that are equal for calls that can be one operation."""
    indices: Indices
    """Indices of the calls in the operations of the rank."""
    times_ns: NDArray[np.int64] | None
    """Unix times of the calls by the clock of the host. None: unknown."""
    is_cut: bool
    """True if the sequence ends before a gap of the recording, so it may be short. It begins with the first call."""


@dataclass(frozen=True, kw_only=True)
class Alignment:
    """The calls of all ranks as a table."""

    table: Indices
    """[calls, ranks]: index of the call in the operations of each rank; -1: absent or ambiguous."""
    difference: int | None
    """Number of equal calls before the first difference, where the table ends. None: all calls are equal."""
    bounds: list[tuple[int, int]]
    """For each rank, its first row and the row after its last one, before the table is cut at the difference."""


def make_signatures(columns: Iterable[NDArray[np.integer]]) -> Signatures:
    """Returns a number for each row of the columns: a hash, so that different rows very unlikely have equal numbers."""
    signatures: Signatures = np.zeros(1, np.uint64)
    for column in columns:
        signatures = ((signatures ^ column.astype(np.uint64)) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        signatures ^= signatures >> np.uint64(29)
        signatures *= np.uint64(0xBF58476D1CE4E5B9)
        signatures ^= signatures >> np.uint64(32)
    return signatures


def align_sequences(sequences: Sequence[CallSequence]) -> Alignment:
    """Aligns the sequences to the longest one."""
    reference = max(sequences, key=lambda sequence: len(sequence.indices))
    table = np.full((len(reference.indices), len(sequences)), -1, np.intp)
    differences = []
    bounds = []
    for column, sequence in enumerate(sequences):
        rows, difference = _align(reference, sequence)
        known = np.flatnonzero(rows >= 0)
        table[rows[known], column] = sequence.indices[known]
        bounds.append((int(rows[known[0]]), int(rows[known[-1]]) + 1) if len(known) else (0, 0))
        if difference is not None:
            differences.append(difference)
    first_difference = min(differences, default=None)
    return Alignment(table=table[:first_difference], difference=first_difference, bounds=bounds)


def _align(reference: CallSequence, sequence: CallSequence) -> tuple[Indices, int | None]:
    """Returns the row of each call in the table of the reference, and the number of calls before the first difference.

    The row is -1 from the first difference. The number is None if all calls are equal.
    """
    reference_calls, calls = reference.signatures, sequence.signatures
    rows = np.arange(len(calls))
    differences = np.flatnonzero(calls != reference_calls[: len(calls)])
    # A sequence that is as long as the reference must begin at row 0, too.
    begins_at_row_0 = sequence.is_cut or len(calls) in (0, len(reference_calls))
    if begins_at_row_0 and not len(differences):
        # The search below prefers rows that are near in time. By the clocks of different hosts, it could choose another
        # period of a periodic sequence.
        return rows, None
    shifts = np.arange(len(reference_calls) - len(calls) + 1)  # rows at which the sequence can begin
    for offset in range(min(_WINDOW, len(calls))):
        shifts = shifts[reference_calls[shifts + offset] == calls[offset]]
    if reference.times_ns is not None and sequence.times_ns is not None:
        distances_ns = np.abs(reference.times_ns[shifts] - sequence.times_ns[0])
        shifts = shifts[np.argsort(distances_ns, kind="stable")]
    for shift in [*shifts[:_MAX_SHIFTS].tolist(), 0]:  # row 0 last, in case it is not among the nearest rows
        if np.array_equal(reference_calls[shift : shift + len(calls)], calls):
            return rows + shift, None
    # Row 0 does not fit, so there is a first difference.
    return np.where(rows < differences[0], rows, -1), int(differences[0])
