"""An expectation beside a reference: what was measured elsewhere, how near that is, and what differs."""

from msgspec import Struct

from busbw.expect import Expectation, bus_factor
from busbw.judge.nearest import nearest, nearest_sweep
from busbw.judge.series import Series, SeriesPoint, series_of
from busbw.judge.verdicts import ReferenceSelection
from busbw.judge.yardstick import Yardstick, yardstick_from_series
from busbw.logs import Rank, Row, Table
from busbw.units import size_text


class ReferenceFigure(Struct, kw_only=True, frozen=True):
    """A reference's figure of one size, beside what is expected there."""

    size_bytes: int
    time_us: float
    busbw_gbps: float
    ratio_to_expected: float
    """As a share of the typical busbw that is expected."""
    is_interpolated: bool
    """Whether it lies between two sizes of the reference."""


class ReferenceComparison(Struct, kw_only=True, frozen=True):
    """A reference beside an expectation."""

    name: str
    how_near: str
    is_comparable: bool
    figures: tuple[ReferenceFigure, ...] = ()
    """Of those sizes of the expectation that it reaches."""


def compare_with_reference(expectation: Expectation, against: ReferenceSelection) -> ReferenceComparison:
    """The figures of a reference at the sizes of an expectation; without any, `how_near` says why."""
    found = select_reference(_series(expectation), against)
    if found is None:
        why = f"it has no figures of {expectation.job.collective}"
        return ReferenceComparison(name=against.name, how_near=f"not comparable: {why}", is_comparable=False)
    other_collective = any(reason.startswith("collective") for reason in found.blockers)
    is_comparable = not found.blockers
    # What the program chose by itself is shown only where it is comparable, what the user chose with what differs.
    shown = is_comparable or not (against.nearest or other_collective)
    figures = _figures(expectation, found) if shown else ()
    how_near = found.similarity
    if shown and found.sizes_bytes and not figures:
        how_near += f"; it has other sizes than these: {', '.join(map(size_text, sorted(found.sizes_bytes)))}"
    return ReferenceComparison(name=found.name, how_near=how_near, is_comparable=is_comparable, figures=figures)


def _series(expectation: Expectation) -> Series:
    """The expectation as if it had been measured, for what compares runs."""
    job, place = expectation.job, expectation.system
    device = place.devices[0] if place.devices else place.title
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
        nics=place.nics.text if place.nics else None,
    )


def select_reference(run: Series, against: ReferenceSelection) -> Yardstick | None:
    """The nearest of what was named, or of all published figures where nothing was; None without any to compare."""
    if against.log is not None:
        others = [yardstick_from_series(against.name, other, run) for other in series_of(against.log) if other.points]
        return min(others, key=lambda one: (len(one.blockers), len(one.differs)), default=None)
    found = nearest_sweep(run, against.name, against.reference) if against.reference else nearest(run)
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
