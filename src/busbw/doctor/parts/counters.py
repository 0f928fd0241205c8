"""Growth of many counters within the same second. A key with LATER stands for the second reading of a counter."""

import re
from collections.abc import Iterable

from busbw.doctor.model import Machine, Unreadable, key_text
from busbw.doctor.model.tree import LATER


def growths(machine: Machine, paths: Iterable[str], pattern: str = r"^(\d+)") -> dict[str, int]:
    """Returns the growth of each counter that exists, within one second for all counters together.

    The first group of `pattern` is the counter in the content of a file.

    Raises:
        Unreadable: A file cannot be read, or does not match.
    """
    before = {path: _count(path, text, pattern) for path in paths if (text := machine.text_or_none(path)) is not None}
    return {path: _count(path, machine.text(LATER + path), pattern) - count for path, count in before.items()}


def _count(path: str, text: str, pattern: str) -> int:
    match = re.search(pattern, text, re.MULTILINE)
    if match is None:
        raise Unreadable(f"counter in {key_text(path)}")
    return int(match[1][:20])  # a counter of 64 bits has at most 20 digits
