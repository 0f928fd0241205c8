"""What a collective is called in logs, and how its figures hang together (docs/measuring.md derives the factors)."""

import re

_ONE_SHARE = ("all_gather", "reduce_scatter", "alltoall", "alltoallv", "gather", "scatter")
"""The size column holds a share for each rank: size = ranks x count x bytes of an element, factor (n-1)/n."""

_WHOLE = ("broadcast", "reduce", "sendrecv")
"""Every rank deals with the whole size: factor 1."""

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
"""Longer names before those that they contain."""

_ANY = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in _SPELLINGS), re.IGNORECASE)


def named_in(text: str) -> list[str]:
    """The collectives that a text names, each once, in their order: "16x H100 + all2all" names alltoall."""
    return list(dict.fromkeys(found.lastgroup for found in _ANY.finditer(text) if found.lastgroup))


def the_one_in(text: str) -> str | None:
    """The collective of a text that names exactly one."""
    names = named_in(text)
    return names[0] if len(names) == 1 else None


def factor(collective: str, ranks: int) -> float:
    """The ratio of busbw and algbw."""
    if collective == "all_reduce":
        return 2 * (ranks - 1) / ranks
    if collective in _ONE_SHARE:
        return (ranks - 1) / ranks
    return 1.0


def ranks_for(collective: str, low: float, high: float) -> tuple[int, int] | None:
    """The fewest and the most ranks whose factor lies within the bounds; None where there are none.

    A factor of 1 says nothing of the number of ranks: then the answer is from 2 to 0, which means unknown.
    """
    if collective == "hypercube" or collective in _WHOLE:
        return (2, 0) if low <= 1.0 <= high else None
    ceiling = 2.0 if collective == "all_reduce" else 1.0
    # factor = ceiling * (1 - 1/n), so n = ceiling / (ceiling - factor)
    if low >= ceiling or high < 0:
        return None
    fewest = max(1, _ceil(ceiling / (ceiling - max(low, 0.0))))
    if high >= ceiling:
        return (fewest, 0)
    most = _floor(ceiling / (ceiling - high))
    return (fewest, most) if fewest <= most else None


def _ceil(value: float) -> int:
    return int(-(-(value - 1e-9) // 1))


def _floor(value: float) -> int:
    return int((value + 1e-9) // 1)


def has_shares(collective: str) -> bool:
    """Whether the size column holds a share for each rank, so that size over count is the number of ranks."""
    return collective in _ONE_SHARE or collective == "hypercube"


def by_shape(reduces: bool, has_root: bool) -> tuple[str, ...]:
    """The collectives that a row with or without an operator and a root can be."""
    if reduces and has_root:
        return ("reduce",)
    if reduces:
        return ("all_reduce", "sendrecv", "reduce_scatter")  # nccl-tests prints an operator for sendrecv, too
    if has_root:
        return ("broadcast", "gather", "scatter")
    return ("all_gather", "alltoall", "alltoallv", "sendrecv", "hypercube")
