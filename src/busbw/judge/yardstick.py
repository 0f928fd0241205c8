"""Makes yardsticks: the ranges of time by size that a series is judged by.

The ranges come from an expectation or from a reference. A reference is another run or published figures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec import Struct

from busbw import comparability
from busbw.collectives import collectives
from busbw.comparability import Difference, FactName, differences_text, find_differences
from busbw.expect import Expectation, ExpectedRange
from busbw.judge.series import Series, SeriesPoint
from busbw.judge.types import BAD_FACTOR, WIDE_RANGE_FACTOR
from busbw.logs.log import Placement
from busbw.reference import Reference, Sweep
from busbw.statistics.bands import LATENCY_BYTES, PLATEAU_SHARE, BandName, band_of, find_plateau_start
from busbw.statistics.run_variation import LaunchMode, launch_mode_of, variation_factor, variation_text
from busbw.system import find_in_text
from busbw.units import transfer_time_us

_RUN_VARIATION_BY_BAND: dict[BandName, float] = {"latency": 0.15, "middle": 0.10, "plateau": 0.03}
"""Run-to-run variation: relative difference of two runs on one healthy machine at one size, by band.

Two runs of one sweep on 4 x H200, an hour apart, differed by up to 16 % at one size up to 8 KiB, by up to 9 % at larger
sizes, and by 0.3 % on the plateau. `_yardstick_from_points` uses a larger tolerance if the reference needs one.
"""

_MAX_INTERPOLATION_RATIO = 4.0
"""Maximum ratio of two adjacent sizes of a reference for interpolation of the time between them (log-log)."""
_STEP_SHARE = 0.25
"""Tolerance of an interpolated time, as a share of log(time of the larger size / time of the smaller size).

The curve may have a step between the two sizes. A step halfway makes an error of up to half of this logarithm. The
share of a quarter is chosen, not measured.
"""


class RunFacts(NamedTuple):
    """Facts of a run that decide if published figures are comparable with it."""

    by_name: dict[FactName, object]
    launch_mode: LaunchMode

    @classmethod
    def of(cls, run: Series) -> RunFacts:
        """Returns the facts of a run."""
        return cls(_facts(run), launch_mode_of(run.table))


class _ReferenceTime(NamedTuple):
    """Time of a reference at one size, and its relative spread; 0 if unknown."""

    time_us: float
    spread: float


class SizeLimits(NamedTuple):
    """Limits of the time at one size in one placement."""

    band: BandName
    range_us: ExpectedRange
    min_undecided_us: float
    """Minimum time of an undecided figure inside the range: `BAD_FACTOR` times the shortest healthy time."""


class Yardstick(Struct, kw_only=True, frozen=True):
    """Ranges of time by size that a series is judged by."""

    name: str
    range_us: Callable[[int, Placement], ExpectedRange | None]
    """Returns the range of a size in bytes and a placement. None if the yardstick does not cover the size."""
    plateau_start_bytes: int | None
    """Smallest size of the plateau band. None if there is no plateau."""
    differences: tuple[Difference, ...] = ()
    """Differences from the run that do not prevent a verdict."""
    blockers: tuple[Difference, ...] = ()
    """Differences that forbid a verdict."""
    sizes_bytes: frozenset[int] = frozenset()
    """Sizes with a figure of their own. Ranges of other sizes are interpolated. Empty for an expectation."""
    is_of_this_machine: bool = True
    """True if the typical time is taken for the healthy time of this machine, as for each reference.

    False for an expectation: the healthy time of this machine may be anywhere in the range.
    """
    run_variation_text: str | None = None
    """Text on the run-to-run variation: the chance difference of two starts. None if it does not widen the ranges."""
    _limits: dict[tuple[int, Placement], SizeLimits | None] = {}
    """Results of `limits`, because one yardstick judges most tables of a long log. Each yardstick has its own dict."""

    @property
    def similarity_text(self) -> str:
        """Clause on the common properties of yardstick and run, and on their differences."""
        if self.blockers:
            return f"not comparable: {differences_text([*self.blockers, *self.differences])}"
        if self.differences:
            return f"same collective and ranks, but {differences_text(self.differences)}"
        return "the same in all stated properties"

    def band(self, size_bytes: int) -> BandName:
        """Returns the band of a size, by the yardstick's own plateau."""
        return band_of(size_bytes, self.plateau_start_bytes)

    def limits(self, size_bytes: int, placement: Placement) -> SizeLimits | None:
        """Returns the limits of a size in a placement. None if the yardstick does not cover the size."""
        key = (size_bytes, placement)
        if key not in self._limits:
            range_us = self.range_us(size_bytes, placement)
            self._limits[key] = None if range_us is None else self._make_limits(size_bytes, range_us)
        return self._limits[key]

    def _make_limits(self, size_bytes: int, range_us: ExpectedRange) -> SizeLimits:
        band = self.band(size_bytes)
        # The shortest time that a healthy run of this machine can take:
        # - of a reference: the typical time, which is taken for the healthy time of this machine;
        # - of an expectation below the plateau: also the typical time, because the low end is of another launch mode;
        # - of an expectation in the plateau: the low end, because the range comes from other machines. Two healthy runs
        #   differ by up to `WIDE_RANGE_FACTOR`, so the time may be shorter by this factor.
        min_healthy_us = range_us.typical
        if band == "plateau" and not self.is_of_this_machine:
            min_healthy_us = min(range_us.typical, range_us.low / WIDE_RANGE_FACTOR)
        return SizeLimits(band, range_us, min_undecided_us=BAD_FACTOR * min_healthy_us)


def yardstick_from_expectation(expectation: Expectation, *, assumes_nics: bool = False) -> Yardstick:
    """Makes a yardstick of an expectation. `assumes_nics` is true if neither log nor user states the NICs."""
    estimates = {estimate.size_bytes: estimate for estimate in expectation.estimates}
    # The plateau band refers to the plateau of the best route, which a short sweep may not reach.
    plateau_gbps = expectation.best.plateau_gbps if expectation.best else 0.0
    plateau_sizes = [
        size_bytes
        for size_bytes, estimate in estimates.items()
        if estimate.busbw_gbps.typical >= PLATEAU_SHARE * plateau_gbps
    ]
    name = f"{_gpus_text(expectation)}{expectation.system.title}"
    nics = expectation.system.nics if expectation.nodes > 1 else None
    if nics is not None:
        name += f", over {nics.text} per node"
        name += " (assumed)" if assumes_nics else ""
        name += " with SHARP" if nics.sharp else ""

    def range_us(size_bytes: int, _placement: Placement) -> ExpectedRange | None:
        return estimates[size_bytes].time_us if size_bytes in estimates else None

    return Yardstick(
        name=name,
        range_us=range_us,
        plateau_start_bytes=max(min(plateau_sizes), LATENCY_BYTES + 1) if plateau_sizes else None,
        is_of_this_machine=False,
    )


def _gpus_text(expectation: Expectation) -> str:
    """Returns 'a healthy ', or '2 of 8 GPUs of a healthy node: ' if the job uses a part of each node or rack."""
    job, system = expectation.job, expectation.system
    used = job.ranks if expectation.nodes == 1 else job.ranks_per_node
    available = system.rack_ranks or system.ranks_per_node
    if used >= available:
        return "a healthy "
    scope = "a" if expectation.nodes == 1 else "each"
    unit = "rack" if system.rack_ranks else "node"
    return f"{used} of {available} GPUs of {scope} healthy {unit}: "


def yardstick_from_series(name: str, reference: Series, run: Series) -> Yardstick:
    """Makes a yardstick of another run. A placement that the other run lacks has the range of its other placement."""
    # NICs are not compared, even if both sides state them. Runs with equal GPUs and hosts count as runs with equal
    # NICs.
    reference_facts = _facts(reference)
    del reference_facts["NICs"]
    blockers, differences = find_differences(_facts(run), reference_facts)
    if early_end_text := reference.table.early_end_text:
        differences.append(Difference("end", f"in the reference {early_end_text}"))
    launch_modes = (launch_mode_of(run.table), launch_mode_of(reference.table))
    return _yardstick_from_points(name, reference.points, differences, blockers, launch_modes)


def most_similar_yardstick(name: str, references: Sequence[Series], run: Series) -> Yardstick | None:
    """Makes the yardstick with the fewest differences from the run. None without references."""
    yardsticks = [yardstick_from_series(name, reference, run) for reference in references]
    return min(yardsticks, key=lambda yardstick: (len(yardstick.blockers), len(yardstick.differences)), default=None)


def yardstick_from_reference(name: str, reference: Reference, sweep: Sweep, run: RunFacts) -> Yardstick:
    """Makes a yardstick of published figures."""
    factor = collectives()[sweep.collective].bus_factor_of(reference.ranks)
    points = [
        SeriesPoint(
            size_bytes=point.size_bytes,
            placement=sweep.placement,
            time_us=point.time_us or transfer_time_us(point.size_bytes, point.busbw_gbps, factor),
            busbw_gbps=point.busbw_gbps,
        )
        for point in sweep.points
        if point.size_bytes and (point.time_us or (point.busbw_gbps and factor))  # one rank has a factor of 0
    ]
    blockers, differences = find_differences(
        run.by_name,
        {
            "collective": sweep.collective,
            "ranks": reference.ranks,
            "GPU": reference.gpu,
            "hosts": reference.nodes,
            "type": sweep.dtype,
            "operator": None,  # published figures do not state their operator, so it is not compared
            "library": reference.library,
            **({"NICs": reference.nics} if _crosses_nics(reference) else {}),
        },
    )
    if sweep.kind == "floor":
        blockers.append(Difference("kind", "the reference is a required minimum, not a measurement"))
    return _yardstick_from_points(f"{name} ({reference.title})", points, differences, blockers, (run.launch_mode,))


def _crosses_nics(reference: Reference) -> bool:
    """True if the data cross NICs: several nodes that NVLink does not join in one rack."""
    system = find_in_text(reference.gpu)
    is_in_one_rack = system is not None and (system.rack_ranks or 0) >= reference.ranks
    return reference.nodes > 1 and not is_in_one_rack


def _facts(series: Series) -> dict[FactName, object]:
    """Returns the facts of a series that decide if figures are comparable with it."""
    # The NICs of the series include those that the user states.
    system_facts = {**comparability.system_facts(series.table, series.row).by_name(), "NICs": series.nics}
    return {
        "collective": series.collective,
        "ranks": series.ranks,
        "ranks of the test": series.row.lifecycle.test_ranks if series.row.lifecycle else None,
        **system_facts,
        "method": comparability.method_of(series.table),
        "launches": comparability.launches_of(series.table),
        "type": series.row.dtype,
        "operator": series.row.redop,
        "library": series.table.library,
    }


def _yardstick_from_points(
    name: str,
    points: Sequence[SeriesPoint],
    differences: list[Difference],
    blockers: list[Difference],
    launch_modes: tuple[LaunchMode, ...],
) -> Yardstick:
    """Makes ranges around the times of a reference, as wide as the largest known source of differences.

    The sources are the run-to-run variation of the band, the variation from launching (`statistics.run_variation`), the
    spread of the reference, and the difference of its placements.

    `launch_modes` are those of the run and, if known, of the reference.
    """
    times_by_placement: dict[Placement, dict[int, _ReferenceTime]] = {}
    for point in points:
        times_by_size = times_by_placement.setdefault(point.placement, {})
        times_by_size[point.size_bytes] = _ReferenceTime(point.time_us, point.spread or 0.0)
    # A placement without figures of its own has the times of the first placement.
    fallback_times: dict[int, _ReferenceTime] = next(iter(times_by_placement.values()), {})
    plateau_start_bytes = find_plateau_start(
        [(point.size_bytes, point.busbw_gbps) for point in points if point.busbw_gbps]
    )

    def range_us(size_bytes: int, placement: Placement) -> ExpectedRange | None:
        reference_time = _interpolate(size_bytes, times_by_placement.get(placement, fallback_times))
        if reference_time is None:
            return None
        time_us, spread = reference_time
        placement_times_us = [times[size_bytes].time_us for times in times_by_placement.values() if size_bytes in times]
        placement_difference = 0.0
        if len(placement_times_us) > 1:
            placement_difference = (max(placement_times_us) - min(placement_times_us)) / time_us
        launch_variation = max(variation_factor(mode, size_bytes) for mode in launch_modes) - 1
        band_variation = _RUN_VARIATION_BY_BAND[band_of(size_bytes, plateau_start_bytes)]
        tolerance = max(band_variation, spread, placement_difference, launch_variation)
        return ExpectedRange(low=time_us / (1 + tolerance), typical=time_us, high=time_us * (1 + tolerance))

    if not points:
        blockers = [*blockers, Difference("size", "it has no figure with a size")]
    return Yardstick(
        name=name,
        range_us=range_us,
        plateau_start_bytes=plateau_start_bytes,
        differences=tuple(differences),
        blockers=tuple(blockers),
        sizes_bytes=frozenset(point.size_bytes for point in points),
        run_variation_text=next(filter(None, map(variation_text, launch_modes)), None),
    )


def _interpolate(size_bytes: int, times_by_size: dict[int, _ReferenceTime]) -> _ReferenceTime | None:
    """Returns the time at a size, interpolated log-log between its neighbors.

    None if the size has no neighbor on one side, or if the neighbors are too far apart.
    """
    if size_bytes in times_by_size:
        return times_by_size[size_bytes]
    below_bytes = max((known_bytes for known_bytes in times_by_size if known_bytes < size_bytes), default=None)
    above_bytes = min((known_bytes for known_bytes in times_by_size if known_bytes > size_bytes), default=None)
    if below_bytes is None or above_bytes is None or above_bytes > _MAX_INTERPOLATION_RATIO * below_bytes:
        return None
    below, above = times_by_size[below_bytes], times_by_size[above_bytes]
    position = math.log(size_bytes / below_bytes) / math.log(above_bytes / below_bytes)
    time_ratio = above.time_us / below.time_us
    step_spread = abs(math.log(time_ratio)) * _STEP_SHARE
    return _ReferenceTime(below.time_us * time_ratio**position, max(below.spread, above.spread, step_spread))
