"""Searches for the published figures that are most similar to a run.

A sweep is a series of published figures over message sizes. A yardstick is the ranges of time made from a sweep.
"""

import math

from msgspec import Struct

from busbw.judge.reference_selection import ReferenceSelection
from busbw.judge.series import Series
from busbw.judge.yardstick import RunFacts, Yardstick, yardstick_from_reference
from busbw.reference import Sweep, references
from busbw.statistics.stats import half_digit


class NearestReference(Struct, kw_only=True, frozen=True):
    """A published sweep and the yardstick made from it."""

    name: str
    """Name of the reference."""
    sweep: Sweep
    yardstick: Yardstick


def select_nearest(run: Series, selection: ReferenceSelection) -> NearestReference | None:
    """Returns the most similar sweep of the selected reference, or of all shipped references if none is selected.

    None if no sweep has the run's collective. Of the shipped references, only measured sweeps are searched.
    """
    is_selected = selection.reference is not None
    searched = {selection.name: selection.reference} if selection.reference is not None else references()
    run_facts = RunFacts.of(run)
    candidates = (
        NearestReference(name=name, sweep=sweep, yardstick=yardstick_from_reference(name, reference, sweep, run_facts))
        for name, reference in searched.items()
        for sweep in reference.sweeps
        if sweep.collective == run.collective and (is_selected or sweep.kind == "measured")
    )
    return min(
        candidates, key=lambda candidate: _distance_key(run, searched[candidate.name].ranks, candidate), default=None
    )


def has_figures_of(run: Series, reference: NearestReference) -> bool:
    """True if the run's figures round to the published ones at all common sizes. False without a common figure.

    The sweep was then probably published from this run.
    """
    sweep = reference.sweep
    published_by_size = {point.size_bytes: point for point in sweep.points}
    has_common_figure = False
    for point in run.points:
        published = published_by_size.get(point.size_bytes)
        if published is None or sweep.placement not in (point.placement, "unstated"):
            continue
        for measured, printed in ((point.time_us, published.time_us), (point.busbw_gbps, published.busbw_gbps)):
            if measured is not None and printed is not None:
                if not _rounds_to(measured, printed):
                    return False
                has_common_figure = True
    return has_common_figure


def _rounds_to(value: float, printed: float) -> bool:
    """True if the value rounds to the printed one: 1.234 rounds to 1.23 and to 1.2, but not to 1.24.

    A trailing zero of the printed text is unknown here, so 1.234 also rounds to 1.20.
    """
    float_error = 1e-9 * abs(printed)
    return abs(value - printed) <= half_digit(printed) + float_error


def _distance_key(run: Series, reference_ranks: int, candidate: NearestReference) -> tuple[float | str, ...]:
    """Sort key of a reference: the reference that is most similar to the run has the smallest key."""
    sweep, yardstick = candidate.sweep, candidate.yardstick
    run_sizes = {point.size_bytes for point in run.points}
    common_size_count = len(run_sizes & {point.size_bytes for point in sweep.points})
    has_other_gpu = any(blocker.fact == "GPU" for blocker in yardstick.blockers)
    has_other_placement = sweep.placement not in {point.placement for point in run.points}
    log_rank_ratio = abs(math.log2((run.ranks or 1) / reference_ranks))
    return (
        float(has_other_gpu),
        float(len(yardstick.blockers)),
        log_rank_ratio,
        float(common_size_count == 0),
        float(len(yardstick.differences)),
        float(has_other_placement),
        -float(common_size_count),
        candidate.name,
    )
