"""Formats and parses lists of CPUs and NUMA nodes in the kernel's format: 0-47,96-143."""

import re
from collections.abc import Iterable, Sequence

_MAX_NUMBER = 1 << 20
"""Number above that of every possible CPU of Linux. Text with larger numbers is not a list of CPUs."""


def format_ranges(numbers: Iterable[int]) -> str:
    """Returns numbers as text, with consecutive ones as ranges."""
    distinct = set(numbers)
    starts = sorted(number for number in distinct if number - 1 not in distinct)
    ends = sorted(number for number in distinct if number + 1 not in distinct)
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in zip(starts, ends, strict=True))


def parse_ranges(text: str) -> tuple[int, ...] | None:
    """Returns the sorted numbers in a text of ranges: empty for an empty text, None for another format."""
    numbers: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        match = re.fullmatch(r"(\d{1,7})(?:-(\d{1,7}))?", part, re.ASCII)
        if not match:
            return None
        low, high = int(match[1]), int(match[2] or match[1])
        if low > high or high > _MAX_NUMBER:
            return None
        numbers.update(range(low, high + 1))
    return tuple(sorted(numbers))


def set_bits(words: Sequence[int]) -> tuple[int, ...]:
    """Returns the numbers of the set bits in a mask of 64-bit words, lowest first: 0, 2 and 64 for [0b101, 0b1]."""
    return tuple(index * 64 + bit for index, word in enumerate(words) for bit in range(64) if word >> bit & 1)
