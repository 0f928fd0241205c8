"""Compares an expectation with a reference, for `busbw expect --reference`. No run is judged.

A reference is a set of figures: published ones, or the user's earlier ones. A yardstick is made from a reference. It is
the ranges of time by size.
"""

from msgspec import Struct

from busbw.collectives import collectives
from busbw.expect import Expectation
from busbw.judge.nearest import select_nearest
from busbw.judge.reference_selection import ReferenceSelection, read_reference_series
from busbw.judge.series import Series, SeriesPoint
from busbw.judge.yardstick import Yardstick, most_similar_yardstick
from busbw.logs.log import Rank, Row, Table
from busbw.units import bandwidth_gbps, size_text


class ReferenceFigure(Struct, kw_only=True, frozen=True):
    """A reference's figure of one size, compared with the expected figure."""

    size_bytes: int
    time_us: float
    busbw_gbps: float
    ratio_to_expected: float
    """Ratio of the reference's busbw to the expected typical busbw."""
    is_interpolated: bool
    """True if the figure is interpolated between two sizes of the reference."""


class ReferenceComparison(Struct, kw_only=True, frozen=True):
    """Result of the comparison with one reference."""

    name: str
    how_near: str
    """Clause on the similarity of reference and expectation, or the reason for missing figures."""
    is_comparable: bool
    figures: tuple[ReferenceFigure, ...] = ()
    """Figures at the sizes that expectation and reference share. Empty also if the reference is not shown."""


def compare_with_reference(expectation: Expectation, selection: ReferenceSelection) -> ReferenceComparison:
    """Compares a reference at the sizes of an expectation. If there are no figures, `how_near` has the reason."""
    yardstick = select_reference(_series_from_expectation(expectation), selection)
    if yardstick is None:
        reason = f"it has no figures of {expectation.job.collective}"
        return ReferenceComparison(name=selection.name, how_near=f"not comparable: {reason}", is_comparable=False)
    has_other_collective = any(blocker.fact == "collective" and blocker.is_stated for blocker in yardstick.blockers)
    is_comparable = not yardstick.blockers
    is_users_choice = not selection.nearest
    # The user's choice is shown even if it is not comparable, but figures of another collective have no meaning here.
    is_shown = is_comparable or (is_users_choice and not has_other_collective)
    figures = _reference_figures(expectation, yardstick) if is_shown else ()
    how_near = yardstick.similarity_text
    if is_shown and yardstick.sizes_bytes and not figures:
        how_near += f"; it has only other sizes: {', '.join(map(size_text, sorted(yardstick.sizes_bytes)))}"
    return ReferenceComparison(name=yardstick.name, how_near=how_near, is_comparable=is_comparable, figures=figures)


def _series_from_expectation(expectation: Expectation) -> Series:
    """Converts the expectation to a series, for functions that compare runs."""
    scenario, system = expectation.job, expectation.system
    device = system.devices[0] if system.devices else system.title
    ranks = tuple(
        Rank(rank=number, host=f"node {number // scenario.ranks_per_node}", device_name=device)
        for number in range(scenario.ranks)
    )
    points = tuple(
        SeriesPoint(
            size_bytes=estimate.size_bytes,
            placement="unstated",
            time_us=estimate.time_us.typical,
            busbw_gbps=estimate.busbw_gbps.typical,
        )
        for estimate in expectation.estimates
    )
    return Series(
        table=Table(format="expectation", collective=scenario.collective, ranks=scenario.ranks, rank_list=ranks),
        row=Row(
            line=1, collective=scenario.collective, size_bytes=0, dtype=scenario.dtype, ranks=scenario.ranks, figures={}
        ),
        points=points,
        nics=system.nics.text if system.nics else None,
    )


def select_reference(run: Series, selection: ReferenceSelection) -> Yardstick | None:
    """Makes the yardstick of the figures that are most similar to a run.

    They come from the selected log or reference, otherwise from all shipped references. None if there are no figures.
    """
    if selection.log is not None:
        # Means, because the figures are shown with an expectation, or with the mean times of a run.
        return most_similar_yardstick(selection.name, read_reference_series(selection.log).by_mean, run)
    nearest_reference = select_nearest(run, selection)
    return nearest_reference.yardstick if nearest_reference else None


def _reference_figures(expectation: Expectation, yardstick: Yardstick) -> tuple[ReferenceFigure, ...]:
    factor = collectives()[expectation.job.collective].bus_factor_of(expectation.job.ranks)
    figures = []
    for estimate in expectation.estimates:
        # A reference without this placement has the times of its other placement.
        range_us = yardstick.range_us(estimate.size_bytes, "out_of_place")
        if range_us is None:
            continue
        busbw_gbps = bandwidth_gbps(estimate.size_bytes, range_us.typical, factor)
        figures.append(
            ReferenceFigure(
                size_bytes=estimate.size_bytes,
                time_us=range_us.typical,
                busbw_gbps=busbw_gbps,
                ratio_to_expected=busbw_gbps / estimate.busbw_gbps.typical,
                is_interpolated=estimate.size_bytes not in yardstick.sizes_bytes,
            )
        )
    return tuple(figures)
