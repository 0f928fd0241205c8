"""Explains dips, cliffs and steps of a sweep by the algorithms that ran there, if the log states them."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from msgspec.structs import replace

from busbw.judge.series import SeriesPoint
from busbw.statistics.fit import CurveFeature
from busbw.units import size_text


def explain_by_algorithms(found: Iterable[CurveFeature], sweep: Sequence[SeriesPoint]) -> tuple[CurveFeature, ...]:
    """Returns the features with likely causes that agree with the algorithms. `sweep`: one placement, by size."""
    pairs = {point.size_bytes: (previous.algorithm, point.algorithm) for previous, point in pairwise(sweep)}
    return tuple(_explain(feature, *pairs.get(feature.size_bytes, ("", ""))) for feature in found)


def _explain(feature: CurveFeature, previous: str, algorithm: str) -> CurveFeature:
    """Explains a feature by the algorithms of the previous size and of its own. They are empty if unknown."""
    if not previous or not algorithm:
        return feature
    if previous != algorithm:
        size = size_text(feature.size_bytes)
        return replace(feature, likely=f"because NCCL uses {algorithm} from {size} on instead of {previous}")
    if feature.kind == "step":
        return replace(feature, likely=f"a disturbance, because NCCL uses {algorithm} before and after it")
    return feature
