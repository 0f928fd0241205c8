"""Chooses one recording of each rank, if some ranks have several: copies, or recordings of several times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from busbw.traces.building import RankBuilder


def choose_recordings(recordings: Mapping[int, Sequence[RankBuilder]]) -> dict[int, RankBuilder]:
    """Returns one recording of each rank, so that the recordings are of the same time.

    The recordings of the first rank that has several ones are tried. The other ranks have those that begin nearest in
    time. The choice has the most recordings that overlap in time, then the most operations, then it is the latest.
    Without times, each rank has its longest recording.
    """
    has_times = all(one.start_ns for own in recordings.values() for one in own if _length(one))
    repeated = next((own for _, own in sorted(recordings.items()) if len(own) > 1), [])
    if not repeated or not has_times:
        return {number: max(own, key=_length) for number, own in recordings.items()}
    choices = []
    for reference in repeated:
        choice = {number: _nearest(own, reference) for number, own in recordings.items()}
        overlapping = sum(_overlap(one, reference) for one in choice.values())
        length = sum(_length(one) for one in choice.values())
        choices.append(((overlapping, length, reference.start_ns), choice))
    return max(choices, key=lambda scored: scored[0])[1]


def _length(recording: RankBuilder) -> int:
    return len(recording.operations)


def _nearest(recordings: Sequence[RankBuilder], reference: RankBuilder) -> RankBuilder:
    """Returns the recording that begins nearest in time. The longest of several ones."""
    return min(recordings, key=lambda one: (abs(one.start_ns - reference.start_ns), -_length(one)))


def _overlap(recording: RankBuilder, other: RankBuilder) -> bool:
    first, second = sorted((recording, other), key=lambda one: one.start_ns)
    return second.start_ns <= first.start_ns + int(first.operations["enqueue_ns"].max(initial=0))
