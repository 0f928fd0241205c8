"""Finds the published figures that are nearest to a run, and says how near and in what they differ."""

import math

from msgspec import Struct

from busbw.judge.series import Series
from busbw.judge.yardstick import Yardstick, yardstick_from_reference
from busbw.reference import Reference, Sweep, references


class NearestReference(Struct, kw_only=True, frozen=True):
    """A reference's sweep as a yardstick for a run."""

    name: str
    sweep: Sweep
    yardstick: Yardstick


def nearest(run: Series) -> NearestReference | None:
    """The nearest of all references that come with the program; None where none is of the same collective."""
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
    """The sweep of one reference that is nearest; None where it has none of the collective."""
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
    """Smaller is nearer: first what forbids a comparison, then ranks, then what can be compared at all."""
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
