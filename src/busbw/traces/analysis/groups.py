"""Groups communicators with the same role, such as all tensor-parallel groups of a job."""

import re
from collections import Counter
from collections.abc import Hashable, Iterable

from busbw.traces.analysis.types import CommunicatorGroup
from busbw.traces.model import Communicator, Trace
from busbw.units import names_text

_MAX_NAMES = 2
"""Maximum number of names of communicators in the label of a group."""
_MAX_RANGES = 4
"""Maximum number of ranges in a text of ranks."""


def group_communicators(trace: Trace) -> tuple[CommunicatorGroup, ...]:
    """Returns the groups in the order of their first communicators.

    Communicators form a group if their names without digits are equal and their ranks have the same distances from
    their first rank. Communicators with identical ranks are always in different groups. A communicator with an unknown
    rank, or without ranks, is a group of its own.
    """
    groups: dict[Hashable, list[int]] = {}
    occurrences: Counter[tuple[int | None, ...]] = Counter()
    for index, communicator in enumerate(trace.communicators):
        members = communicator.members
        first = members[0] if members else None
        if first is None or None in members:
            groups[index] = [index]
            continue
        occurrences[members] += 1
        distances = tuple(member - first for member in members if member is not None)
        name = re.sub(r"\d+", "", communicator.name)
        # The second communicator with the same ranks has occurrence 2, so it is not in the group of the first one.
        key = (name, distances, occurrences[members])
        groups.setdefault(key, []).append(index)
    return tuple(_make_group(trace, indices) for indices in groups.values())


def _make_group(trace: Trace, indices: list[int]) -> CommunicatorGroup:
    communicators = [trace.communicators[index] for index in indices]
    names = dict.fromkeys(
        communicator.name or f"communicator {index}" for communicator, index in zip(communicators, indices, strict=True)
    )
    return CommunicatorGroup(
        label=names_text(list(names), _MAX_NAMES),
        size=communicators[0].size,
        communicators=tuple(indices),
        members=tuple(map(members_text, communicators)),
    )


def members_text(communicator: Communicator) -> str:
    """Returns the known ranks of a communicator as text: "0-7", "0, 8, 16"."""
    return ranks_text(member for member in communicator.members if member is not None)


def ranks_text(ranks: Iterable[int]) -> str:
    """Returns ranks as text. Consecutive ranks are a range."""
    ranges: list[list[int]] = []
    for rank in sorted(ranks):
        if ranges and rank == ranges[-1][-1] + 1:
            ranges[-1].append(rank)
        else:
            ranges.append([rank])
    texts = [str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}" for numbers in ranges]
    return names_text(texts, _MAX_RANGES)
