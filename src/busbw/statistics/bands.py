"""The three bands of sizes. Each band is judged separately, because each is limited by another factor.

Latency limits small messages, and link bandwidth limits large messages. At the sizes between them, the library's choice
of algorithm matters most. A mean over all sizes would mix these factors. A yardstick is a set of ranges that a run is
judged by: from an expectation, a reference, or the usual values of several runs.
"""

from collections.abc import Sequence
from typing import Literal

BandName = Literal["latency", "middle", "plateau"]

BANDS: tuple[BandName, ...] = ("latency", "middle", "plateau")

LATENCY_BYTES = 8192
"""Up to this size, latency exceeds the transfer time on every link type with reference figures."""

PLATEAU_SHARE = 0.9
"""The plateau begins at the smallest size above LATENCY_BYTES with at least this share of the maximum bandwidth.

`find_plateau_start` uses the maximum of a curve. For an expectation, `judge/yardstick.py` uses the plateau of the best
route instead.
"""


def find_plateau_start(curve: Sequence[tuple[int, float]]) -> int | None:
    """Returns the size at which a curve of (size in bytes, bandwidth in any unit) reaches its plateau.

    None without a size above LATENCY_BYTES. Pass the typical figures of the yardstick, not the judged run. A run with
    low bandwidth at large sizes would otherwise shift the band that it is judged by.
    """
    large = [(size, bandwidth) for size, bandwidth in curve if size > LATENCY_BYTES]
    if not large:
        return None
    max_bandwidth = max(bandwidth for _, bandwidth in large)
    return min(size for size, bandwidth in large if bandwidth >= PLATEAU_SHARE * max_bandwidth)


def band_of(size_bytes: int, plateau_start_bytes: int | None) -> BandName:
    """Returns the band of a size. `plateau_start_bytes` is the smallest size of the plateau; None without a plateau."""
    if size_bytes <= LATENCY_BYTES:
        return "latency"
    if plateau_start_bytes is not None and size_bytes >= plateau_start_bytes:
        return "plateau"
    return "middle"
