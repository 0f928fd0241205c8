"""Findings on the busbw curve of a series, which do not affect its grade; statistics/fit.py explains their terms."""

from collections.abc import Sequence
from itertools import pairwise

from msgspec.structs import replace

from busbw.judge.series import Series, SeriesPoint
from busbw.logs.log import Placement
from busbw.statistics.fit import CurveFeature, features, fit, half_bandwidth_bytes
from busbw.units import bandwidth_gbps, size_text


def analyze_curve(series: Series) -> dict[str, object]:
    """Returns the fields `fit`, `half_bytes` and `features` of a verdict. Empty if they are unknown.

    Fit and half-bandwidth size are those of the first point's placement.
    """
    factor = series.bus_factor
    if factor is None or series.ranks == 1 or not series.points:
        return {}
    sweeps: dict[Placement, list[SeriesPoint]] = {}
    for point in series.points:
        sweeps.setdefault(point.placement, []).append(point)
    features_by_placement = [
        explain_by_algorithms(features(_times_by_size(sweep), factor), sweep) for sweep in sweeps.values()
    ]
    first_times = _times_by_size(next(iter(sweeps.values())))
    first_curve = [(size_bytes, bandwidth_gbps(size_bytes, time_us, factor)) for size_bytes, time_us in first_times]
    return {
        "fit": fit(first_times, factor),
        "half_bytes": half_bandwidth_bytes(first_curve),
        "features": _merge_features(features_by_placement),
    }


def _times_by_size(sweep: list[SeriesPoint]) -> list[tuple[int, float]]:
    return [(point.size_bytes, point.time_us) for point in sweep]


def explain_by_algorithms(
    curve_features: Sequence[CurveFeature], sweep: Sequence[SeriesPoint]
) -> tuple[CurveFeature, ...]:
    """Returns the features of a sweep with likely causes that agree with the algorithms, if the log states them."""
    algorithms = {point.size_bytes: (previous.algorithm, point.algorithm) for previous, point in pairwise(sweep)}
    return tuple(_explain(feature, *algorithms.get(feature.size_bytes, ("", ""))) for feature in curve_features)


def _explain(feature: CurveFeature, previous: str, algorithm: str) -> CurveFeature:
    """Explains a feature by the algorithms at the previous size and at its size. Unchanged if either is empty."""
    if not previous or not algorithm:
        return feature
    if previous != algorithm:
        change = f"{algorithm} from {size_text(feature.size_bytes)} on instead of {previous}"
        return replace(feature, likely=f"because NCCL uses {change}")
    if feature.kind == "step":
        return replace(feature, likely=f"a disturbance, because NCCL uses {algorithm} before and after it")
    return feature


def _merge_features(features_by_placement: list[tuple[CurveFeature, ...]]) -> tuple[CurveFeature, ...]:
    """Keeps the features that both placements have. Keeps dips of only one placement too, marked as disturbances."""
    if len(features_by_placement) < 2:
        return features_by_placement[0] if features_by_placement else ()
    first, second = (
        {feature.size_bytes: feature for feature in placement_features}
        for placement_features in features_by_placement[:2]
    )
    confirmed = [
        replace(first[size], evidence=f"{first[size].evidence}; in both placements") for size in first.keys() & second
    ]
    unconfirmed_dips = [
        replace(feature, likely="in one placement only: a disturbance during the measurement")
        for size, feature in {**first, **second}.items()
        if size in first.keys() ^ second.keys() and feature.kind == "dip"
    ]
    return tuple(sorted([*confirmed, *unconfirmed_dips], key=lambda feature: feature.size_bytes))
