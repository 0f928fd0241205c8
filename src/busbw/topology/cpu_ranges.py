"""Lists of CPUs and NUMA nodes in the kernel's format: 0-47,96-143."""

import re
from collections.abc import Iterable, Sequence

_MAX_NUMBER = 1 << 20
"""Exceeds every possible CPU number of Linux. Text with larger numbers is not a list of CPUs."""


def format_ranges(numbers: Iterable[int]) -> str:
    """Returns numbers as text, with consecutive ones as ranges."""
    known = sorted(set(numbers))
    starts = [number for place, number in enumerate(known) if place == 0 or known[place - 1] != number - 1]
    ends = [number for place, number in enumerate(known) if place + 1 == len(known) or known[place + 1] != number + 1]
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in zip(starts, ends, strict=True))


def parse_ranges(text: str) -> tuple[int, ...] | None:
    """Returns the numbers in a text of ranges; None if the text has another format."""
    found: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        match = re.fullmatch(r"(\d{1,7})(?:-(\d{1,7}))?", part, re.ASCII)
        if not match:
            return None
        low, high = int(match[1]), int(match[2] or match[1])
        if low > high or high > _MAX_NUMBER:
            return None
        found.update(range(low, high + 1))
    return tuple(sorted(found))


def set_bits(words: Sequence[int]) -> tuple[int, ...]:
    """Returns the numbers of the set bits in a mask of 64-bit words, lowest word first."""
    return tuple(place * 64 + bit for place, word in enumerate(words) for bit in range(64) if word >> bit & 1)
