"""Names of collectives in logs, and the factor busbw / algbw of each (derived in docs/measuring.md)."""

import re

_ONE_SHARE = ("all_gather", "reduce_scatter", "alltoall", "alltoallv", "gather", "scatter")
"""Collectives with one share per rank: size = ranks x count x element bytes, factor (n-1)/n."""

_WHOLE = ("broadcast", "reduce", "sendrecv")
"""Collectives in which every rank handles the whole size: factor 1."""

ALL = ("all_reduce", *_ONE_SHARE, *_WHOLE, "hypercube")

_SPELLINGS = (
    ("reduce_scatter", r"reduce[\s_-]*scatter"),
    ("all_reduce", r"all[\s_-]*reduce"),
    ("all_gather", r"all[\s_-]*gather(?![\s_-]*v)"),
    ("alltoallv", r"all[\s_-]*(?:to|2)[\s_-]*all[\s_-]*v"),
    ("alltoall", r"all[\s_-]*(?:to|2)[\s_-]*all"),
    ("broadcast", r"broadcast|bcast"),
    ("sendrecv", r"send[\s_-]*recv"),
    ("hypercube", r"hyper[\s_-]*cube"),
    ("scatter", r"scatter"),
    ("gather", r"gather"),
    ("reduce", r"reduce(?=_perf\b|\b)"),
)
"""Longer names come before the names that they contain."""

_ANY_NAME = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in _SPELLINGS), re.IGNORECASE)


def collectives_in(text: str) -> list[str]:
    """Returns the collectives in a text, each once, in order: "16x H100 + all2all" names alltoall."""
    return list(dict.fromkeys(match.lastgroup for match in _ANY_NAME.finditer(text) if match.lastgroup))


def single_collective_in(text: str) -> str | None:
    """Returns the collective of a text that names exactly one; None otherwise."""
    names = collectives_in(text)
    return names[0] if len(names) == 1 else None


def factor(collective: str, ranks: int) -> float:
    """Returns busbw / algbw of a collective on this number of ranks."""
    if collective == "all_reduce":
        return 2 * (ranks - 1) / ranks
    if collective in _ONE_SHARE:
        return (ranks - 1) / ranks
    return 1.0


def rank_bounds(collective: str, low: float, high: float) -> tuple[int, int] | None:
    """Returns the minimum and maximum number of ranks for a factor from `low` to `high`; None if no number fits.

    A maximum of 0 means unbounded. If the factor is always 1, the result is (2, 0): the number of ranks is unknown.
    """
    if collective == "hypercube" or collective in _WHOLE:
        return (2, 0) if low <= 1.0 <= high else None
    ceiling = 2.0 if collective == "all_reduce" else 1.0  # the factor approaches it with more ranks
    # factor = ceiling * (1 - 1/n), so n = ceiling / (ceiling - factor)
    if low >= ceiling or high < 0:
        return None
    min_ranks = max(1, _ceil(ceiling / (ceiling - max(low, 0.0))))
    if high >= ceiling:
        return (min_ranks, 0)
    max_ranks = _floor(ceiling / (ceiling - high))
    return (min_ranks, max_ranks) if min_ranks <= max_ranks else None


# Both tolerate a rounding error, so that 7.9999999999 counts as 8.
def _ceil(value: float) -> int:
    return int(-(-(value - 1e-9) // 1))


def _floor(value: float) -> int:
    return int((value + 1e-9) // 1)


def has_shares(collective: str) -> bool:
    """True if the size column covers one share per rank, so that size / (count x element bytes) is the rank count."""
    return collective in _ONE_SHARE or collective == "hypercube"


def collectives_with_columns(has_operator: bool, has_root: bool) -> tuple[str, ...]:
    """Returns the collectives that match a row with or without an operator and a root."""
    if has_operator and has_root:
        return ("reduce",)
    if has_operator:
        return ("all_reduce", "sendrecv", "reduce_scatter")  # nccl-tests also prints an operator for sendrecv
    if has_root:
        return ("broadcast", "gather", "scatter")
    return ("all_gather", "alltoall", "alltoallv", "sendrecv", "hypercube")
