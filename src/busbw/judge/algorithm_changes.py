"""Explains dips, cliffs and steps of a sweep by the algorithms that ran there, if the log states them."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from msgspec.structs import replace

from busbw.judge.series import SeriesPoint
from busbw.statistics.fit import CurveFeature
from busbw.units import size_text


def explain_by_algorithms(
    curve_features: Iterable[CurveFeature], sweep: Sequence[SeriesPoint]
) -> tuple[CurveFeature, ...]:
    """Returns the features with likely causes that agree with the algorithms.

    Args:
        curve_features: Dips, cliffs and steps of the sweep.
        sweep: Points of one placement, ordered by size.
    """
    previous_points = {point.size_bytes: previous for previous, point in pairwise(sweep)}
    points = {point.size_bytes: point for point in sweep}
    return tuple(
        _explain(feature, previous_points.get(feature.size_bytes), points.get(feature.size_bytes))
        for feature in curve_features
    )


def _explain(feature: CurveFeature, previous: SeriesPoint | None, point: SeriesPoint | None) -> CurveFeature:
    """Explains a feature by the algorithms at its size and at the previous size. Unchanged if either is unknown."""
    if previous is None or point is None or not previous.algorithm or not point.algorithm:
        return feature
    if previous.algorithm != point.algorithm:
        change = f"{point.algorithm} from {size_text(feature.size_bytes)} on instead of {previous.algorithm}"
        return replace(feature, likely=f"because NCCL uses {change}")
    if feature.kind == "step":
        return replace(feature, likely=f"a disturbance, because NCCL uses {point.algorithm} before and after it")
    return feature
