"""Expands host lists, the compressed form in which Slurm writes the names of nodes."""

from collections.abc import Iterator


def expand_hostlist(text: str) -> Iterator[str]:
    """Yields the names of a host list of Slurm, such as `n[1-3,07],gpu-a[01-02]-x`.

    Yields one by one, because a short list may stand for any number of names.

    Raises:
        ValueError: A bracket is open, or an end of a range is no number.
    """
    for name in _split_outside_brackets(text):
        yield from _expand_brackets(name)


def _split_outside_brackets(text: str) -> Iterator[str]:
    """Yields the parts of a host list at commas outside brackets: `n[1,3],m1` yields `n[1,3]` and `m1`."""
    depth, start = 0, 0
    for index, letter in enumerate(text):
        depth += {"[": 1, "]": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            yield text[start:index]
            start = index + 1
    if text[start:]:
        yield text[start:]


def _expand_brackets(name: str) -> Iterator[str]:
    """Expands the first pair of brackets of a name, and then the text after it: `n[1,3]-x` yields n1-x and n3-x."""
    prefix, bracket, after_bracket = name.partition("[")
    if not bracket:
        yield name
        return
    ranges, end, suffix = after_bracket.partition("]")
    if not end:
        raise ValueError(f"{name} has an open bracket")
    for range_text in ranges.split(","):
        for number in _expand_range(range_text):
            for expanded_suffix in _expand_brackets(suffix):
                yield f"{prefix}{number}{expanded_suffix}"


def _expand_range(text: str) -> Iterator[str]:
    """Yields the numbers of `3` or `01-12`, with the leading zeros of the first one."""
    first, dash, last = text.partition("-")
    if not dash:
        yield first
        return
    for number in range(int(first), int(last) + 1):
        yield str(number).zfill(len(first))
