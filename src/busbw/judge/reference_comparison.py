"""Comparison of an expectation with a reference."""

from msgspec import Struct

from busbw.expect import Expectation, bus_factor
from busbw.judge.nearest import nearest, nearest_sweep
from busbw.judge.series import Series, SeriesPoint, series_of
from busbw.judge.verdicts import ReferenceSelection
from busbw.judge.yardstick import Yardstick, yardstick_from_series
from busbw.logs import Rank, Row, Table
from busbw.units import size_text


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
    """Clause on the similarity, or the reason for missing figures."""
    is_comparable: bool
    figures: tuple[ReferenceFigure, ...] = ()
    """Figures of the expectation's sizes that the reference covers."""


def compare_with_reference(expectation: Expectation, selection: ReferenceSelection) -> ReferenceComparison:
    """Compares a reference at the sizes of an expectation. If there are no figures, `how_near` has the reason."""
    found = select_reference(_series(expectation), selection)
    if found is None:
        reason = f"it has no figures of {expectation.job.collective}"
        return ReferenceComparison(name=selection.name, how_near=f"not comparable: {reason}", is_comparable=False)
    other_collective = any(reason.startswith("collective") for reason in found.blockers)
    is_comparable = not found.blockers
    # An automatic choice is shown only if it is comparable; the user's choice is shown with its differences.
    shown = is_comparable or not (selection.nearest or other_collective)
    figures = _figures(expectation, found) if shown else ()
    how_near = found.similarity
    if shown and found.sizes_bytes and not figures:
        how_near += f"; it has only other sizes: {', '.join(map(size_text, sorted(found.sizes_bytes)))}"
    return ReferenceComparison(name=found.name, how_near=how_near, is_comparable=is_comparable, figures=figures)


def _series(expectation: Expectation) -> Series:
    """Converts the expectation to a series, for functions that compare runs."""
    job, system = expectation.job, expectation.system
    device = system.devices[0] if system.devices else system.title
    ranks = tuple(
        Rank(rank=number, host=f"node {number // job.ranks_per_node}", device_name=device)
        for number in range(job.ranks)
    )
    points = tuple(
        SeriesPoint(
            size_bytes=one.size_bytes,
            placement="unstated",
            time_us=one.time_us.typical,
            busbw_gbps=one.busbw_gbps.typical,
        )
        for one in expectation.estimates
    )
    return Series(
        table=Table(format="expectation", collective=job.collective, ranks=job.ranks, rank_list=ranks),
        row=Row(line=1, collective=job.collective, size_bytes=0, dtype=job.dtype, ranks=job.ranks, figures={}),
        points=points,
        nics=system.nics.text if system.nics else None,
    )


def select_reference(run: Series, selection: ReferenceSelection) -> Yardstick | None:
    """Returns the most similar yardstick of the selection, or of all shipped references. None without candidates."""
    if selection.log is not None:
        others = [
            yardstick_from_series(selection.name, other, run) for other in series_of(selection.log) if other.points
        ]
        return min(others, key=lambda one: (len(one.blockers), len(one.differs)), default=None)
    found = nearest_sweep(run, selection.name, selection.reference) if selection.reference else nearest(run)
    return found.yardstick if found else None


def _figures(expectation: Expectation, reference: Yardstick) -> tuple[ReferenceFigure, ...]:
    factor = bus_factor(expectation.job.collective, expectation.job.ranks)
    found = []
    for one in expectation.estimates:
        time_us = reference.range_us(one.size_bytes, "out_of_place")
        if time_us is None:
            continue
        busbw_gbps = one.size_bytes * factor / time_us.typical / 1e3
        found.append(
            ReferenceFigure(
                size_bytes=one.size_bytes,
                time_us=time_us.typical,
                busbw_gbps=busbw_gbps,
                ratio_to_expected=busbw_gbps / one.busbw_gbps.typical,
                is_interpolated=one.size_bytes not in reference.sizes_bytes,
            )
        )
    return tuple(found)
