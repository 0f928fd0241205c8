"""Yardsticks for a series: ranges of time from an expectation, or from a reference with its spread."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from msgspec import Struct

from busbw.expect import Expectation, ExpectedRange, bus_factor, system_of
from busbw.judge.series import Series
from busbw.logs import Placement
from busbw.reference import Reference, Sweep
from busbw.statistics.bands import LATENCY_BYTES, PLATEAU_SHARE, BandName, band_of, plateau_from
from busbw.statistics.run_variation import LaunchMode, launch_mode_of, variation_factor, variation_text
from busbw.system import find_in_text

SPREAD: dict[BandName, float] = {"latency": 0.15, "middle": 0.10, "plateau": 0.03}
"""Relative difference of two runs on one healthy machine at one size, by band.

Two runs of one sweep on 4 x H200, an hour apart, differed by up to 16 % (at one size) up to 8 KiB, by 9 % above that
and by 0.3 % on the plateau. The variation from launching (`run_variation`) or a reference's spread counts if larger.
"""

MAX_INTERPOLATION_RATIO = 4.0
"""Maximum ratio of two sizes of a reference between which its time is interpolated (log-log)."""


class Yardstick(Struct, kw_only=True, frozen=True):
    """Ranges of time by size that a series is judged by."""

    name: str
    range_us: Callable[[int, Placement], ExpectedRange | None]
    """Returns the range of a size. None if the yardstick does not cover it."""
    plateau_from_bytes: int | None
    """Smallest size of the plateau band. None if there is no plateau."""
    differs: tuple[str, ...] = ()
    """Differences from the run that do not prevent a verdict."""
    blockers: tuple[str, ...] = ()
    """Differences that forbid a verdict."""
    sizes_bytes: frozenset[int] = frozenset()
    """Sizes with a figure of their own; others are interpolated. Empty for an expectation."""
    scatter: str | None = None
    """Text on the chance difference of two starts, if it widens the ranges."""

    @property
    def similarity(self) -> str:
        """Clause on what the yardstick shares with the run, and the differences."""
        if self.blockers:
            return "not comparable: " + "; ".join([*self.blockers, *self.differs])
        if self.differs:
            return "same collective and ranks, but " + "; ".join(self.differs)
        return "the same in all stated properties"

    def band(self, size_bytes: int) -> BandName:
        """Returns the band of a size, by the yardstick's own plateau."""
        return band_of(size_bytes, self.plateau_from_bytes)


def yardstick_from_expectation(expectation: Expectation, *, assumes_nics: bool = False) -> Yardstick:
    """Makes a yardstick of an expectation. `assumes_nics`: true if the NICs of a node are not stated."""
    known = {estimate.size_bytes: estimate for estimate in expectation.estimates}
    best = expectation.best.limit_gbps * expectation.best.efficiency.typical if expectation.best else 0.0
    curve = [(size, estimate.busbw_gbps.typical) for size, estimate in known.items()]
    # The plateau comes from the system's limit, because a short sweep may not reach it.
    reached = [size for size, busbw in curve if busbw >= PLATEAU_SHARE * best]
    nics = expectation.system.nics if expectation.nodes > 1 else None
    over = f", over {nics.text} per node{' (assumed)' if assumes_nics else ''}" if nics else ""
    return Yardstick(
        name=f"a healthy {expectation.system.title}{over}",
        range_us=lambda size, _placement: known[size].time_us if size in known else None,
        plateau_from_bytes=max(min(reached), LATENCY_BYTES + 1) if reached else None,
    )


def yardstick_from_series(name: str, reference: Series, run: Series) -> Yardstick:
    """Makes a yardstick of another run. It uses the other placement if the same one is missing."""
    points = [
        (point.size_bytes, point.placement, point.time_us, point.spread or 0.0, point.busbw_gbps)
        for point in reference.points
    ]
    blockers, differs = _differences(
        run,
        {
            "collective": reference.collective,
            "ranks": reference.ranks,
            "GPU": _gpu(reference),
            "hosts": len(reference.hosts) or None,
            "type": reference.row.dtype,
            "operator": reference.row.redop,
            "library": reference.table.library,
        },
    )
    if reference.table.complete is False:
        differs.append("the reference ended early")
    return _from_points(name, points, differs, blockers, (launch_mode_of(run.table), launch_mode_of(reference.table)))


def yardstick_from_reference(name: str, reference: Reference, sweep: Sweep, run: Series) -> Yardstick:
    """Makes a yardstick of published figures."""
    factor = bus_factor(sweep.collective, reference.ranks)
    points = [
        (
            point.size_bytes,
            sweep.placement,
            point.time_us or point.size_bytes * factor / point.busbw_gbps / 1e3,
            0.0,
            point.busbw_gbps,
        )
        for point in sweep.points
        if point.size_bytes and (point.time_us or point.busbw_gbps)
    ]
    blockers, differs = _differences(
        run,
        {
            "collective": sweep.collective,
            "ranks": reference.ranks,
            "GPU": reference.gpu,
            "hosts": reference.nodes,
            "type": sweep.dtype,
            "operator": None,
            "library": reference.library,
            **({"NICs": reference.nics} if _is_over_nics(reference) else {}),
        },
    )
    if sweep.kind == "floor":
        blockers.append("the reference is a required minimum, not a measurement")
    return _from_points(f"{name} ({reference.title})", points, differs, blockers, (launch_mode_of(run.table),))


def _is_over_nics(reference: Reference) -> bool:
    """True if the data cross NICs: several nodes that NVLink does not join in one rack."""
    system = find_in_text(reference.gpu)
    return reference.nodes > 1 and not (system and system.rack_ranks and system.rack_ranks >= reference.ranks)


def _gpu(series: Series) -> str | None:
    """Returns the device names of the log, or the system that its title names. None if neither is known."""
    system = system_of(series.table)
    return ", ".join(sorted(series.table.devices)) or (system.title if system else None)


def _kind(words: str) -> str | None:
    """Returns the GPU that a text names, spelled as in the system descriptions and without the network part."""
    system = find_in_text(words)
    return system.title.partition(",")[0] if system else None


def _differences(run: Series, other: dict[str, object]) -> tuple[list[str], list[str]]:
    """Returns the differences that forbid a comparison, and other differences. Missing facts are listed, too."""
    mine: dict[str, object] = {
        "collective": run.collective,
        "ranks": run.ranks,
        "GPU": _gpu(run),
        "hosts": len(run.hosts) or None,
        "type": run.row.dtype,
        "operator": run.row.redop,
        "library": run.table.library,
        "NICs": run.nics,
    }
    blockers, differs = [], []
    for key, value in other.items():
        own = mine[key]
        if own is None or value is None:
            if key in ("collective", "ranks"):
                blockers.append(f"the {key} of one of them is not known")
            elif key in ("GPU", "hosts", "NICs") and own != value:
                differs.append(f"{key} not stated by {'the run' if own is None else 'the reference'}")
        elif not _same(key, own, value):
            (blockers if key in ("collective", "ranks", "GPU", "hosts", "NICs") else differs).append(
                f"{key} {own} against {value}"
            )
    return blockers, differs


def _same(key: str, one: object, other: object) -> bool:
    if key not in ("GPU", "library", "NICs"):
        return one == other
    if key == "GPU" and (kind := _kind(str(one))) and (its_kind := _kind(str(other))):
        return kind == its_kind  # one name may be a prefix of another: H100, H100 PCIe
    a, b = str(one).lower(), str(other).lower()
    return a == b or a.startswith(b) or b.startswith(a)


Points = Sequence[tuple[int, Placement, float, float, "float | None"]]


def _from_points(
    name: str, points: Points, differs: list[str], blockers: list[str], launch_modes: tuple[LaunchMode, ...]
) -> Yardstick:
    """Makes ranges around these points. `launch_modes` are those of the run and, if known, of the reference."""
    by_placement: dict[Placement, dict[int, tuple[float, float]]] = {}
    for size, placement, time_us, spread, _ in points:
        by_placement.setdefault(placement, {})[size] = (time_us, spread)
    plateau = plateau_from([(size, busbw) for size, _, _, _, busbw in points if busbw])

    def range_us(size: int, placement: Placement) -> ExpectedRange | None:
        known = by_placement.get(placement) or next(iter(by_placement.values()), {})
        found = _interpolate(size, known)
        if found is None:
            return None
        time_us, spread = found
        others = [table[size][0] for table in by_placement.values() if size in table]
        own = (max(others) - min(others)) / time_us if len(others) > 1 else 0.0
        launching = max(variation_factor(mode, size) for mode in launch_modes) - 1
        wide = max(SPREAD[band_of(size, plateau)], spread, own, launching)
        return ExpectedRange(low=time_us / (1 + wide), typical=time_us, high=time_us * (1 + wide))

    if not points:
        blockers = [*blockers, "it has no figure with a size"]
    return Yardstick(
        name=name,
        range_us=range_us,
        plateau_from_bytes=plateau,
        differs=tuple(differs),
        blockers=tuple(blockers),
        sizes_bytes=frozenset(size for size, *_ in points),
        scatter=next((text for mode in launch_modes if (text := variation_text(mode))), None),
    )


def _interpolate(size: int, known: dict[int, tuple[float, float]]) -> tuple[float, float] | None:
    if size in known:
        return known[size]
    below = max((other for other in known if other < size), default=None)
    above = min((other for other in known if other > size), default=None)
    if below is None or above is None or above > MAX_INTERPOLATION_RATIO * below:
        return None
    (time_below, spread_below), (time_above, spread_above) = known[below], known[above]
    share = math.log(size / below) / math.log(above / below)
    # The curve may have a step between the two sizes; the range is widened by a quarter of their logarithmic distance.
    step = abs(math.log(time_above / time_below)) / 4
    return time_below * (time_above / time_below) ** share, max(spread_below, spread_above, step)
