"""Shape of a sweep: fitted latency and bandwidth, the half-bandwidth size, and dips, cliffs and steps of the curve.

The fit uses the postal model: time = latency + bytes / bandwidth. The fit minimizes relative errors, so that small and
large messages have equal weights. Sizes that do not fit the model then get less weight (iteratively reweighted least
squares).

A curve is busbw over size. At a dip, busbw is low at one or a few sizes; at a cliff, also at all larger sizes. At a
step, time grows faster than before and after. `_find_falls` finds dips and cliffs from busbw. `_find_fast_growth` finds
steps, and further dips, from time.
"""

import itertools
import math
from collections.abc import Sequence
from operator import mul
from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from busbw.units import bandwidth_gbps, number_text

Points = Sequence[tuple[int, float]]
"""Size in bytes and time in us, in order of size."""

_ITERATIONS = 20
"""Maximum number of fits. The errors of each fit determine the weights of the next."""
_OUTLIER_ERROR = 0.15
"""Relative error above which a point gets less weight."""
_MIN_SIZES = 3
_MIN_STANDARD_ERRORS = 4.0
"""Minimum ratio of a latency to its standard error."""

_DIP_LOSS = 0.15
"""Minimum share of busbw lost at a dip or cliff. A smaller loss may be the variation between runs."""
_SINGLE_DIP_TEXT = "only one size: a disturbance during its measurement"
"""Likely cause of a dip of one size."""
_STEP_EXCESS = 0.25
"""Minimum excess at a step.

If time grows as size^p between two consecutive sizes, p is their growth exponent. The excess is the difference between
this exponent and the larger one of both neighboring exponents."""


class Fit(Struct, kw_only=True, frozen=True):
    """Parameters of the postal model, and the error of the fit."""

    latency_us: float | None
    """None if the sizes are too large to show it: it is less than `_MIN_STANDARD_ERRORS` standard errors."""
    bandwidth_gbps: float
    """Limit of busbw for very large messages."""
    half_bytes: float | None
    """Size with half of that bandwidth: latency divided by the time per byte. None if the latency is None."""
    error: float
    """Root mean square of the relative errors of the times."""
    points: int
    """Number of fitted points."""


class CurveFeature(Struct, kw_only=True, frozen=True):
    """A size at which the curve deviates from its neighbors."""

    kind: Literal["dip", "cliff", "step"]
    size_bytes: int
    depth: float
    """Share of busbw lost. For a step: the excess, see `_STEP_EXCESS`."""
    evidence: str
    """Clause with the figures."""
    likely: str
    """Clause with the likely cause."""


class _Found(NamedTuple):
    """A feature. Its likely cause does not consider the other features of the curve yet."""

    feature: CurveFeature
    is_single_dip: bool = False
    """True for a dip of one size. Its likely cause is a disturbance, unless other sizes dip too."""


def fit(points: Points, bus_factor: float) -> Fit | None:
    """Fits the postal model to a sweep. None for fewer than three sizes or if the time does not grow with the size.

    Args:
        points: Size and time of each row. Sizes and times of 0 are ignored.
        bus_factor: Ratio busbw / algbw of the collective and its ranks.
    """
    usable = [(size, time) for size, time in points if size > 0 and time > 0]
    if len({size for size, _ in usable}) < _MIN_SIZES:
        return None
    terms = _Terms.of(usable)
    weights = [1.0] * len(usable)
    for _ in range(_ITERATIONS):
        latency, per_byte = _fit_weighted(terms, weights)  # us, and us per byte
        if per_byte <= 0:
            return None
        errors = [latency * x + per_byte * y - 1 for x, y in zip(terms.x, terms.y, strict=True)]
        previous_weights = weights
        weights = [1.0 if abs(error) <= _OUTLIER_ERROR else _OUTLIER_ERROR / abs(error) for error in errors]
        if weights == previous_weights:
            break
    is_latency_known = latency > _MIN_STANDARD_ERRORS * _latency_standard_error(terms, previous_weights, errors)
    return Fit(
        latency_us=latency if is_latency_known else None,
        bandwidth_gbps=bandwidth_gbps(1, per_byte, bus_factor),
        half_bytes=latency / per_byte if is_latency_known else None,
        error=math.sqrt(sum(error * error for error in errors) / len(errors)),
        points=len(usable),
    )


class _Terms(NamedTuple):
    """Terms of the normal equations for each point, with x = 1 / time and y = size / time.

    The relative error of a point is latency * x + per_byte * y - 1.
    """

    x: list[float]
    y: list[float]
    xx: list[float]
    xy: list[float]
    yy: list[float]

    @classmethod
    def of(cls, points: Points) -> "_Terms":
        """Makes the terms of these points."""
        xs, ys = [1 / time for _, time in points], [size / time for size, time in points]
        return cls(xs, ys, list(map(mul, xs, xs)), list(map(mul, xs, ys)), list(map(mul, ys, ys)))


def _latency_standard_error(terms: _Terms, weights: Sequence[float], errors: Sequence[float]) -> float:
    """Returns the standard error of the latency of a weighted fit with these relative errors, in us."""
    _, _, sum_xx, sum_xy, sum_yy = (sum(map(mul, weights, values)) for values in terms)
    determinant = sum_xx * sum_yy - sum_xy * sum_xy
    if determinant <= 0:
        return math.inf
    variance = sum(map(mul, weights, map(mul, errors, errors))) / (len(errors) - 2)
    return math.sqrt(variance * sum_yy / determinant)


def _fit_weighted(terms: _Terms, weights: Sequence[float]) -> tuple[float, float]:
    """Returns latency and time per byte by weighted least squares. The latency is not negative."""
    # Weighted sums, in the order of the members of _Terms.
    sum_x, sum_y, sum_xx, sum_xy, sum_yy = (sum(map(mul, weights, values)) for values in terms)
    determinant = sum_xx * sum_yy - sum_xy * sum_xy
    # If all sizes are almost equal, x and y are proportional. The fit can then determine only the time per byte.
    if determinant <= 1e-12 * sum_xx * sum_yy:
        return 0.0, (sum_y / sum_yy if sum_yy else 0.0)
    latency = (sum_x * sum_yy - sum_y * sum_xy) / determinant
    per_byte = (sum_xx * sum_y - sum_xy * sum_x) / determinant
    if latency < 0:  # of the latencies from 0 on, 0 then fits best
        return 0.0, sum_y / sum_yy
    return latency, per_byte


def half_bandwidth_bytes(curve: Sequence[tuple[int, float]]) -> float | None:
    """Returns the size at which a curve of (size, busbw) first reaches half of its maximum busbw.

    Interpolates between two sizes on logarithmic scales. None if the smallest size already reaches half, or if fewer
    than two sizes have a busbw.
    """
    usable = [(size, busbw) for size, busbw in curve if size > 0 and busbw > 0]
    if len(usable) < 2:
        return None
    half = max(busbw for _, busbw in usable) / 2
    if usable[0][1] >= half:
        return None
    for (size, busbw), (next_size, next_busbw) in itertools.pairwise(usable):
        if busbw < half <= next_busbw:
            fraction = math.log(half / busbw) / math.log(next_busbw / busbw)
            return float(size * (next_size / size) ** fraction)
    return None


def features(points: Points, bus_factor: float) -> tuple[CurveFeature, ...]:
    """Returns the dips, cliffs and steps of a sweep, each with its evidence and likely cause."""
    usable = sorted((size, time) for size, time in points if size > 0 and time > 0)
    curve = [(size, bandwidth_gbps(size, time, bus_factor)) for size, time in usable]
    explained = _explain_dips_together([*_find_falls(curve), *_find_fast_growth(usable)])
    return tuple(sorted(explained, key=lambda feature: feature.size_bytes))


def _explain_dips_together(all_found: list[_Found]) -> list[CurveFeature]:
    """Corrects the likely cause of single dips if several sizes dip: one disturbance explains only one dip."""
    dip_count = len({feature.size_bytes for feature, _ in all_found if feature.kind == "dip"})
    if dip_count < 2:
        return [feature for feature, _ in all_found]
    likely = f"one of {dip_count} sizes that dip: an unsteady measurement, or a poor choice of protocol"
    return [replace(feature, likely=likely) if is_single_dip else feature for feature, is_single_dip in all_found]


def _find_falls(curve: Sequence[tuple[int, float]]) -> list[_Found]:
    """Finds sizes with lower busbw than smaller sizes: a cliff if no larger size recovers, otherwise a dip.

    A low busbw at only the largest size is a dip, because no larger size shows whether busbw recovers.
    """
    falls: list[_Found] = []
    max_busbw, is_below = 0.0, False
    for index, (size, busbw) in enumerate(curve):
        if busbw >= (1 - _DIP_LOSS) * max_busbw:
            max_busbw, is_below = max(max_busbw, busbw), False
            continue
        if not is_below:  # only the first of consecutive low sizes is a feature
            busbw_at_larger = [larger_busbw for _, larger_busbw in curve[index + 1 :]]
            falls.append(_describe_fall(size, busbw, max_busbw, busbw_at_larger))
        is_below = True
    return falls


def _describe_fall(size: int, busbw: float, max_busbw: float, busbw_at_larger: Sequence[float]) -> _Found:
    """Describes a size with lower busbw than `max_busbw`, the maximum of the smaller sizes."""
    is_single_dip = False
    low_limit = (1 - _DIP_LOSS) * max_busbw
    still_low = list(itertools.takewhile(lambda larger_busbw: larger_busbw < low_limit, busbw_at_larger))
    evidence = f"busbw {number_text(busbw)} GB/s after {number_text(max_busbw)} at smaller sizes"
    if not busbw_at_larger:
        kind: Literal["dip", "cliff"] = "dip"
        likely = "only the largest size: memory or registration at its limit, or a disturbance; measure larger sizes"
    elif len(still_low) == len(busbw_at_larger):
        kind = "cliff"
        evidence += f", and at most {number_text(max(busbw_at_larger))} at larger ones"
        likely = "all larger sizes: they exceed a cache or a registration, or use another algorithm"
    else:
        kind = "dip"
        evidence += f", {number_text(max(busbw_at_larger))} again at larger ones"
        if still_low:
            likely = (
                f"{len(still_low) + 1} sizes: a poor choice of algorithm or protocol "
                "(NCCL_DEBUG_SUBSYS=TUNING shows NCCL's)"
            )
        else:
            is_single_dip = True
            likely = f"{_SINGLE_DIP_TEXT}, or a poor choice of protocol"
    feature = CurveFeature(kind=kind, size_bytes=size, depth=1 - busbw / max_busbw, evidence=evidence, likely=likely)
    return _Found(feature, is_single_dip)


def _find_fast_growth(points: Points) -> list[_Found]:
    """Finds sizes at which time grows faster than before and after: a dip if the next size takes less time, or a step.

    In the postal model the growth exponent only rises with the size. If the exponent falls again, the library switched
    its algorithm or protocol, or the measurement was disturbed. If the exponent is 1 or more, busbw does not grow. Such
    a size is left to `_find_falls`.
    """
    pairs = [(before, after) for before, after in itertools.pairwise(points) if after[0] > before[0]]
    # Growth exponents (_STEP_EXCESS): 0 if latency alone determines the time, 1 if bandwidth alone does.
    exponents = [
        math.log(next_us / time_us) / math.log(next_size / size) for (size, time_us), (next_size, next_us) in pairs
    ]
    all_found = []
    for index in range(1, len(pairs) - 1):
        exponent = exponents[index]
        excess = exponent - max(exponents[index - 1], exponents[index + 1])
        if excess <= _STEP_EXCESS or exponent >= 1:
            continue
        (_, before_us), (size_bytes, after_us) = pairs[index]
        _, (_, later_us) = pairs[index + 1]
        evidence = f"time {number_text(before_us)} to {number_text(after_us)} us"
        is_next_faster = later_us < (1 - _DIP_LOSS) * after_us
        if is_next_faster:
            feature = CurveFeature(
                kind="dip",
                size_bytes=size_bytes,
                # Without the dip, this size would take no longer than the next one. So at least this share is lost.
                depth=1 - later_us / after_us,
                evidence=f"{evidence}, then {number_text(later_us)} us",
                likely=_SINGLE_DIP_TEXT,
            )
        else:
            feature = CurveFeature(
                kind="step",
                size_bytes=size_bytes,
                depth=excess,
                evidence=f"{evidence}, more than between the sizes before and after",
                likely="a switch of protocol or algorithm between these two sizes",
            )
        all_found.append(_Found(feature, is_single_dip=is_next_faster))
    return all_found
