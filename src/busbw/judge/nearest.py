"""Searches for the published figures that are most similar to a run.

A sweep is a series of published figures over message sizes.
"""

import math

from msgspec import Struct

from busbw.judge.series import Series
from busbw.judge.yardstick import Yardstick, yardstick_from_reference
from busbw.reference import Reference, Sweep, references


class NearestReference(Struct, kw_only=True, frozen=True):
    """A published sweep and the yardstick made from it."""

    name: str
    """Name of the reference."""
    sweep: Sweep
    yardstick: Yardstick


def find_nearest_reference(run: Series) -> NearestReference | None:
    """Returns the most similar of all shipped references. None if no reference has the run's collective."""
    candidates = [
        (
            _distance_key(run, reference, sweep, yardstick),
            name,
            number,
            NearestReference(name=name, sweep=sweep, yardstick=yardstick),
        )
        for name, reference in references().items()
        for number, sweep in enumerate(reference.sweeps)
        if sweep.collective == run.collective and sweep.kind == "measured"
        for yardstick in [yardstick_from_reference(name, reference, sweep, run)]
    ]
    return min(candidates, key=lambda candidate: candidate[:3])[3] if candidates else None


def find_nearest_sweep(run: Series, name: str, reference: Reference) -> NearestReference | None:
    """Returns the most similar sweep of one reference. None if it does not have the run's collective."""
    candidates = [
        (
            _distance_key(run, reference, sweep, yardstick),
            number,
            NearestReference(name=name, sweep=sweep, yardstick=yardstick),
        )
        for number, sweep in enumerate(reference.sweeps)
        if sweep.collective == run.collective
        for yardstick in [yardstick_from_reference(name, reference, sweep, run)]
    ]
    return min(candidates, key=lambda candidate: candidate[:2])[2] if candidates else None


def _distance_key(run: Series, reference: Reference, sweep: Sweep, yardstick: Yardstick) -> tuple[float, ...]:
    """Sort key of a reference's similarity to a run; the smallest is the most similar.

    In this order: another GPU, differences that forbid a comparison, ratio of ranks, no common size, other differences,
    another placement, number of common sizes.
    """
    run_sizes = {point.size_bytes for point in run.points}
    common_sizes = len(run_sizes & {point.size_bytes for point in sweep.points})
    rank_distance = abs(math.log2((run.ranks or 1) / reference.ranks))
    run_placements = {point.placement for point in run.points}
    return (
        float(any("GPU" in reason for reason in yardstick.blockers)),
        float(len(yardstick.blockers)),
        rank_distance,
        float(not common_sizes),
        float(len(yardstick.differences)),
        float(sweep.placement not in run_placements),
        -float(common_sizes),
    )
