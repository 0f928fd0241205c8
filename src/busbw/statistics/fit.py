"""Shape of a sweep: fitted latency and bandwidth, the half-bandwidth size, and cliffs of the curve.

The fit uses the postal model: time = latency + bytes / bandwidth. It minimizes relative errors, so that small messages
count as much as large ones. Sizes that do not fit the model get less weight.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

Points = Sequence[tuple[int, float]]
"""Size in bytes and time in us, in order of size."""

_ROUNDS = 20
_OUTLIER = 0.15  # relative error above which a point gets less weight
_MIN_SIZES = 3


class Fit(Struct, kw_only=True, frozen=True):
    """Parameters of the postal model and the error of the fit."""

    latency_us: float
    bandwidth_gbps: float
    """Limit of busbw for very large messages."""
    half_bytes: float
    """Size with half of that bandwidth: latency times bandwidth."""
    error: float
    """Root mean square of the relative errors of the times."""
    points: int


class CurveFeature(Struct, kw_only=True, frozen=True):
    """A size at which the curve deviates from its neighbors."""

    kind: Literal["dip", "cliff", "step"]
    size_bytes: int
    depth: float
    """Share of busbw lost relative to the neighbors; for a step, the growth exponent of time in excess of theirs."""
    evidence: str
    likely: str


def fit(points: Points, bus_factor: float) -> Fit | None:
    """Fits the postal model to a sweep. None for fewer than three sizes or if the time does not grow with the size.

    Args:
        points: Size and time of each row. Sizes and times of 0 are ignored.
        bus_factor: Ratio busbw / algbw of the collective and its ranks.
    """
    usable = [(size, time) for size, time in points if size > 0 and time > 0]
    if len({size for size, _ in usable}) < _MIN_SIZES:
        return None
    weights = [1.0] * len(usable)
    latency, per_byte = 0.0, 0.0
    for _ in range(_ROUNDS):
        latency, per_byte = _weighted(usable, weights)
        if per_byte <= 0:
            return None
        errors = [(latency + per_byte * size) / time - 1 for size, time in usable]
        weights = [min(1.0, _OUTLIER / abs(error)) if error else 1.0 for error in errors]
    errors = [(latency + per_byte * size) / time - 1 for size, time in usable]
    return Fit(
        latency_us=latency,
        bandwidth_gbps=bus_factor / per_byte / 1e3,
        half_bytes=latency / per_byte,
        error=math.sqrt(sum(error * error for error in errors) / len(errors)),
        points=len(usable),
    )


def _weighted(points: Points, weights: Sequence[float]) -> tuple[float, float]:
    """Returns latency and time per byte by weighted least squares of the relative errors (a + b s)/t - 1."""
    aa = ab = bb = a = b = 0.0
    for (size, time), weight in zip(points, weights, strict=True):
        x, y = 1 / time, size / time
        aa += weight * x * x
        ab += weight * x * y
        bb += weight * y * y
        a += weight * x
        b += weight * y
    determinant = aa * bb - ab * ab
    if determinant <= 1e-12 * aa * bb:
        return 0.0, (b / bb if bb else 0.0)
    latency = (a * bb - b * ab) / determinant
    per_byte = (aa * b - ab * a) / determinant
    if latency < 0:
        return 0.0, b / bb
    return latency, per_byte


def half_bandwidth_bytes(curve: Sequence[tuple[int, float]]) -> float | None:
    """Returns the size at which a curve of (size, busbw) first reaches half of its maximum.

    Interpolates between two sizes on logarithmic scales. None if the smallest size already reaches it or if fewer than
    two sizes have a busbw.
    """
    known = [(size, busbw) for size, busbw in curve if size > 0 and busbw > 0]
    if len(known) < 2:
        return None
    half = max(busbw for _, busbw in known) / 2
    for (size, busbw), (next_size, next_busbw) in itertools.pairwise(known):
        if busbw < half <= next_busbw:
            share = math.log(half / busbw) / math.log(next_busbw / busbw)
            return float(size * (next_size / size) ** share)
    return None


DIP = 0.15
"""Loss of busbw at one size that repeated runs on an idle machine do not show."""
STEP = 0.25
"""Excess of the growth exponent of time over its neighbors that indicates a switch of protocol."""


def features(points: Points, bus_factor: float) -> tuple[CurveFeature, ...]:
    """Returns the dips, cliffs and steps of a sweep, each with its evidence and likely cause."""
    known = sorted((size, time) for size, time in points if size > 0 and time > 0)
    curve = [(size, size * bus_factor / time / 1e3) for size, time in known]
    found = [*_falls(curve), *_steps(known)]
    return tuple(sorted(found, key=lambda feature: feature.size_bytes))


def _falls(curve: Sequence[tuple[int, float]]) -> list[CurveFeature]:
    """Finds sizes with lower busbw than smaller sizes: a dip if larger sizes recover, a cliff if none does."""
    found: list[CurveFeature] = []
    best, fallen = 0.0, False
    for index, (size, busbw) in enumerate(curve):
        if busbw >= (1 - DIP) * best:
            best, fallen = max(best, busbw), False
            continue
        if not fallen:
            found.append(_fall(size, busbw, best, [value for _, value in curve[index + 1 :]]))
        fallen = True
    return found


def _fall(size: int, busbw: float, best: float, larger: Sequence[float]) -> CurveFeature:
    low = list(itertools.takewhile(lambda value: value < (1 - DIP) * best, larger))
    evidence = f"busbw {busbw:.4g} GB/s after {best:.4g} at smaller sizes"
    if not larger:
        kind: Literal["dip", "cliff"] = "dip"
        likely = "only the largest size: memory or registration at its limit, or a disturbance; measure larger sizes"
    elif len(low) == len(larger):
        kind = "cliff"
        evidence += f", and at most {max(larger):.4g} at larger ones"
        likely = "all larger sizes: they exceed a cache or a registration, or use another algorithm"
    else:
        kind = "dip"
        evidence += f", {max(larger):.4g} again at larger ones"
        likely = (
            f"{len(low) + 1} sizes: a poor choice of algorithm or protocol (NCCL_DEBUG_SUBSYS=TUNING shows NCCL's)"
            if low
            else "only one size: a disturbance during its measurement, or a poor choice of protocol"
        )
    return CurveFeature(kind=kind, size_bytes=size, depth=1 - busbw / best, evidence=evidence, likely=likely)


def _steps(points: Points) -> list[CurveFeature]:
    """Finds sizes at which time grows faster than before and after.

    In the postal model the growth exponent only rises with the size. If it falls again, the library switched its
    algorithm or protocol, or the measurement was disturbed.
    """
    pairs = [
        (math.log(after / before) / math.log(size_after / size), size_after, before, after)
        for (size, before), (size_after, after) in itertools.pairwise(points)
        if size_after > size
    ]
    found = []
    for earlier, (growth, size, before, after), later in zip(pairs, pairs[1:], pairs[2:], strict=False):
        excess = growth - max(earlier[0], later[0])
        if excess <= STEP or growth >= 1:
            continue
        falls_back = later[3] < (1 - DIP) * after
        likely = (
            "only one size: a disturbance during its measurement"
            if falls_back
            else "a switch of protocol or algorithm between these two sizes"
        )
        evidence = f"time {before:.4g} to {after:.4g} us" + (f", then {later[3]:.4g} us" if falls_back else "")
        if not falls_back:
            evidence += ", more than between the sizes before and after"
        kind: Literal["dip", "step"] = "dip" if falls_back else "step"
        depth = 1 - later[3] / after if falls_back else excess
        found.append(CurveFeature(kind=kind, size_bytes=size, depth=depth, evidence=evidence, likely=likely))
    return found
