"""The three bands of sizes that are judged separately, because different factors limit them.

Latency limits small messages, link bandwidth large ones, and the library's choice of algorithm those between. A mean
over all sizes would mix these factors. A yardstick is the curve that a run is judged by: an expectation or a reference.
"""

from collections.abc import Sequence
from typing import Literal

BandName = Literal["latency", "middle", "plateau"]

BANDS: tuple[BandName, ...] = ("latency", "middle", "plateau")

LATENCY_BYTES = 8192
"""Up to this size, latency exceeds the transfer time on every link type with reference figures."""

PLATEAU_SHARE = 0.9
"""The plateau begins at the first size above LATENCY_BYTES that has this share of the yardstick's maximum busbw."""


def plateau_from(curve: Sequence[tuple[int, float]]) -> int | None:
    """Returns the size in bytes at which a curve of (size, busbw) reaches its plateau; None without a size above 8 KiB.

    Pass the curve of the yardstick, not that of the judged run. A run with low busbw at large sizes would otherwise
    shift the band that it is judged by.
    """
    large = [(size, busbw) for size, busbw in curve if size > LATENCY_BYTES]
    if not large:
        return None
    max_busbw = max(busbw for _, busbw in large)
    return min(size for size, busbw in large if busbw >= PLATEAU_SHARE * max_busbw)


def band_of(size_bytes: int, plateau_from_bytes: int | None) -> BandName:
    """Returns the band of a size. `plateau_from_bytes` is the result of `plateau_from`."""
    if size_bytes <= LATENCY_BYTES:
        return "latency"
    if plateau_from_bytes is not None and size_bytes >= plateau_from_bytes:
        return "plateau"
    return "middle"
