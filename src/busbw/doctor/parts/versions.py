"""Comparison of version texts."""

import re


def parse_version(text: str) -> tuple[int, ...]:
    """Returns the leading numbers of a version, such as (2, 27, 5)."""
    match = re.match(r"\d{1,9}(?:\.\d{1,9})*", text)
    return tuple(map(int, match[0].split("."))) if match else ()


def is_between(version: str | None, since: str, before: str) -> bool:
    """True if a version is at least `since` and below `before`. False if it is unknown."""
    return version is not None and parse_version(since) <= parse_version(version) < parse_version(before)
