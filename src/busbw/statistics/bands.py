"""The three bands of sizes that are judged apart, because what limits them differs.

Small messages show latency, large ones the wires, and those between how the library chooses. A mean over all of them
says nothing.
"""

from collections.abc import Sequence
from typing import Literal

BandName = Literal["latency", "middle", "plateau"]

BANDS: tuple[BandName, ...] = ("latency", "middle", "plateau")

LATENCY_BYTES = 8192
"""Up to here the bytes cost less than the start, on every wire that we hold figures of."""

PLATEAU_SHARE = 0.9
"""The plateau begins where the yardstick first reaches this share of its own best."""


def plateau_from(curve: Sequence[tuple[int, float]]) -> int | None:
    """The size at which a curve of (size in bytes, busbw) reaches its plateau; None where it has no point above 8 KiB.

    It is taken from the yardstick and not from the run that is judged: a run whose busbw breaks down at large sizes
    would otherwise move its own goal.
    """
    large = [(size, busbw) for size, busbw in curve if size > LATENCY_BYTES]
    if not large:
        return None
    best = max(busbw for _, busbw in large)
    return min(size for size, busbw in large if busbw >= PLATEAU_SHARE * best)


def band_of(size_bytes: int, plateau_from_bytes: int | None) -> BandName:
    """The band of a size."""
    if size_bytes <= LATENCY_BYTES:
        return "latency"
    if plateau_from_bytes is not None and size_bytes >= plateau_from_bytes:
        return "plateau"
    return "middle"
