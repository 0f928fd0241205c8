"""Search for the published figures that are most similar to a run."""

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


def nearest(run: Series) -> NearestReference | None:
    """Returns the most similar of all shipped references. None if no reference has the run's collective."""
    found = [
        (
            _distance(run, reference, sweep, yardstick),
            name,
            number,
            NearestReference(name=name, sweep=sweep, yardstick=yardstick),
        )
        for name, reference in references().items()
        for number, sweep in enumerate(reference.sweeps)
        if sweep.collective == run.collective and sweep.kind == "measured"
        for yardstick in [yardstick_from_reference(name, reference, sweep, run)]
    ]
    return min(found, key=lambda one: one[:3])[3] if found else None


def nearest_sweep(run: Series, name: str, reference: Reference) -> NearestReference | None:
    """Returns the most similar sweep of one reference. None if it does not have the run's collective."""
    found = [
        (
            _distance(run, reference, sweep, yardstick),
            number,
            NearestReference(name=name, sweep=sweep, yardstick=yardstick),
        )
        for number, sweep in enumerate(reference.sweeps)
        if sweep.collective == run.collective
        for yardstick in [yardstick_from_reference(name, reference, sweep, run)]
    ]
    return min(found, key=lambda one: one[:2])[2] if found else None


def _distance(run: Series, reference: Reference, sweep: Sweep, yardstick: Yardstick) -> tuple[float, ...]:
    """Sort key of similarity, smaller is nearer: blockers, then ranks, then common sizes and differences."""
    mine = {point.size_bytes for point in run.points}
    common = len(mine & {point.size_bytes for point in sweep.points})
    ranks = abs(math.log2((run.ranks or 1) / reference.ranks))
    placements = {point.placement for point in run.points}
    return (
        float(any("GPU" in reason for reason in yardstick.blockers)),
        float(len(yardstick.blockers)),
        ranks,
        float(not common),
        float(len(yardstick.differs)),
        float(sweep.placement not in placements),
        -float(common),
    )
