"""Numbers of CPUs and NUMA nodes as the kernel writes them: 0-47,96-143."""

import re
from collections.abc import Iterable, Sequence

_MOST = 1 << 20
"""Above the largest CPU number that Linux can have; what says more is no list of CPUs."""


def format_ranges(numbers: Iterable[int]) -> str:
    """As ranges."""
    known = sorted(set(numbers))
    starts = [number for place, number in enumerate(known) if place == 0 or known[place - 1] != number - 1]
    ends = [number for place, number in enumerate(known) if place + 1 == len(known) or known[place + 1] != number + 1]
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in zip(starts, ends, strict=True))


def parse_ranges(text: str) -> tuple[int, ...] | None:
    """The numbers that ranges stand for, or None where the text is something else."""
    found: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        match = re.fullmatch(r"(\d{1,7})(?:-(\d{1,7}))?", part, re.ASCII)
        if not match:
            return None
        low, high = int(match[1]), int(match[2] or match[1])
        if low > high or high > _MOST:
            return None
        found.update(range(low, high + 1))
    return tuple(sorted(found))


def set_bits(words: Sequence[int]) -> tuple[int, ...]:
    """The numbers whose bits are set in a mask of several words of 64 bits, the lowest word first."""
    return tuple(place * 64 + bit for place, word in enumerate(words) for bit in range(64) if word >> bit & 1)
