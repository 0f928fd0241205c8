"""Suggests the names that a user probably meant, for error messages. The engine's is common/support/near_miss.hpp."""

import difflib
from collections.abc import Iterable

_MAX_NAMES = 5
"""Maximum number of names in a suggestion."""
_MIN_LENGTH = 3
"""Length below which a word is the beginning of too many names."""


def near_misses(word: str, names: Iterable[str], *, min_similarity: float = 0.6) -> list[str]:
    """Returns the names that begin with the word, otherwise the most similar name. Empty if no name is similar.

    Args:
        word: The word as typed, in any case.
        names: The allowed names.
        min_similarity: Ratio of equal letters from which two words are similar, as in difflib.
    """
    by_lower = {name.lower(): name for name in names}
    lower = word.lower()
    beginning = [name for key, name in by_lower.items() if key.startswith(lower)]
    if beginning and len(lower) >= _MIN_LENGTH:
        return beginning[:_MAX_NAMES]
    return [by_lower[key] for key in difflib.get_close_matches(lower, by_lower, n=1, cutoff=min_similarity)]


def suggestion(word: str, names: Iterable[str]) -> str:
    """Returns the beginning of a remedy: "did you mean NAME? ". Empty if no name is near."""
    similar_names = near_misses(word, names)
    if not similar_names:
        return ""
    *others, last = similar_names
    names_text = f"{', '.join(others)} or {last}" if others else last
    return f"did you mean {names_text}? "
