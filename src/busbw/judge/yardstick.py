"""What a series is held against: an expectation, or the figures of a reference with their spread."""

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
"""How far two runs of one healthy machine differ at one size: two runs of the same sweep on 4 x H200, an hour apart,
differed by up to 16 % (at one size) to 8 KiB, 9 % between and 0.3 % on the plateau. What launching adds (`scatter`), or
a reference's own spread, counts where it is larger."""

MAX_INTERPOLATION_RATIO = 4.0
"""Between two sizes of a reference that are at most this factor apart its time is interpolated by logarithms."""


class Yardstick(Struct, kw_only=True, frozen=True):
    """Ranges of time by size."""

    name: str
    range_us: Callable[[int, Placement], ExpectedRange | None]
    """None where it says nothing of that size."""
    plateau_from_bytes: int | None
    differs: tuple[str, ...] = ()
    """In what it is not the same as the run; decides nothing by itself."""
    blockers: tuple[str, ...] = ()
    """Why it must not decide."""
    sizes_bytes: frozenset[int] = frozenset()
    """Those that it has a figure of its own for; between two of them it is interpolated. Empty for an expectation."""
    scatter: str | None = None
    """How far two starts lie apart by chance, where that widens its ranges."""

    @property
    def similarity(self) -> str:
        """One clause on what is the same as in the run and what is not."""
        if self.blockers:
            return "not comparable: " + "; ".join([*self.blockers, *self.differs])
        if self.differs:
            return "same collective and ranks, but " + "; ".join(self.differs)
        return "the same in all that both of them say"

    def band(self, size_bytes: int) -> BandName:
        """The band of a size, by the yardstick's own curve."""
        return band_of(size_bytes, self.plateau_from_bytes)


def yardstick_from_expectation(expectation: Expectation, *, assumes_nics: bool = False) -> Yardstick:
    """An expectation's ranges; `assumes_nics`: nobody has said what NICs a node has."""
    known = {estimate.size_bytes: estimate for estimate in expectation.estimates}
    best = expectation.best.limit_gbps * expectation.best.efficiency.typical if expectation.best else 0.0
    curve = [(size, estimate.busbw_gbps.typical) for size, estimate in known.items()]
    # The plateau is that of the system, which a short sweep may not reach.
    reached = [size for size, busbw in curve if busbw >= PLATEAU_SHARE * best]
    nics = expectation.system.nics if expectation.nodes > 1 else None
    over = f", over {nics.text} per node{' (assumed)' if assumes_nics else ''}" if nics else ""
    return Yardstick(
        name=f"what {expectation.system.title} reaches when healthy{over}",
        range_us=lambda size, _placement: known[size].time_us if size in known else None,
        plateau_from_bytes=max(min(reached), LATENCY_BYTES + 1) if reached else None,
    )


def yardstick_from_series(name: str, reference: Series, run: Series) -> Yardstick:
    """Another run's figures: those of the same placement, or of the other where there is none."""
    points = [
        (point.size_bytes, point.placement, point.time_us, point.spread or 0.0, point.busbw_gbps)
        for point in reference.points
    ]
    unlike, differs = _differences(
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
    return _of_points(name, points, differs, unlike, (launch_mode_of(run.table), launch_mode_of(reference.table)))


def yardstick_from_reference(name: str, reference: Reference, sweep: Sweep, run: Series) -> Yardstick:
    """Published figures."""
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
    unlike, differs = _differences(
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
        unlike.append("it is a floor that somebody demands, and no measurement")
    return _of_points(f"{name} ({reference.title})", points, differs, unlike, (launch_mode_of(run.table),))


def _is_over_nics(reference: Reference) -> bool:
    """Several nodes meet over NICs, unless NVLink joins them in one rack."""
    system = find_in_text(reference.gpu)
    return reference.nodes > 1 and not (system and system.rack_ranks and system.rack_ranks >= reference.ranks)


def _gpu(series: Series) -> str | None:
    """The devices that the log names, or the kind of system that its title does."""
    system = system_of(series.table)
    return ", ".join(sorted(series.table.devices)) or (system.title if system else None)


def _kind(words: str) -> str | None:
    """The GPU that the words name, as the descriptions of systems call it, whatever network its node has."""
    system = find_in_text(words)
    return system.title.partition(",")[0] if system else None


def _differences(run: Series, other: dict[str, object]) -> tuple[list[str], list[str]]:
    """What forbids the comparison, and what is only said. What one of them does not say is said, too."""
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
    unlike, differs = [], []
    for key, value in other.items():
        own = mine[key]
        if own is None or value is None:
            if key in ("collective", "ranks"):
                unlike.append(f"the {key} of one of them is not known")
            elif key in ("GPU", "hosts", "NICs") and own != value:
                differs.append(f"{key} not said by {'the run' if own is None else 'the reference'}")
        elif not _same(key, own, value):
            (unlike if key in ("collective", "ranks", "GPU", "hosts", "NICs") else differs).append(
                f"{key} {own} against {value}"
            )
    return unlike, differs


def _same(key: str, one: object, other: object) -> bool:
    if key not in ("GPU", "library", "NICs"):
        return one == other
    if key == "GPU" and (kind := _kind(str(one))) and (its_kind := _kind(str(other))):
        return kind == its_kind  # a name may begin like that of another kind: H100, H100 PCIe
    a, b = str(one).lower(), str(other).lower()
    return a == b or a.startswith(b) or b.startswith(a)


Points = Sequence[tuple[int, Placement, float, float, "float | None"]]


def _of_points(
    name: str, points: Points, differs: list[str], unlike: list[str], ways: tuple[LaunchMode, ...]
) -> Yardstick:
    """Ranges about these points; `ways`: how operations were launched in the run, and here where it is known."""
    by_placement: dict[Placement, dict[int, tuple[float, float]]] = {}
    for size, placement, time_us, spread, _ in points:
        by_placement.setdefault(placement, {})[size] = (time_us, spread)
    plateau = plateau_from([(size, busbw) for size, _, _, _, busbw in points if busbw])

    def range_us(size: int, placement: Placement) -> ExpectedRange | None:
        known = by_placement.get(placement) or next(iter(by_placement.values()), {})
        found = _between(size, known)
        if found is None:
            return None
        time_us, spread = found
        others = [table[size][0] for table in by_placement.values() if size in table]
        own = (max(others) - min(others)) / time_us if len(others) > 1 else 0.0
        launching = max(variation_factor(way, size) for way in ways) - 1
        wide = max(SPREAD[band_of(size, plateau)], spread, own, launching)
        return ExpectedRange(low=time_us / (1 + wide), typical=time_us, high=time_us * (1 + wide))

    if not points:
        unlike = [*unlike, "it has no figure with a size"]
    return Yardstick(
        name=name,
        range_us=range_us,
        plateau_from_bytes=plateau,
        differs=tuple(differs),
        blockers=tuple(unlike),
        sizes_bytes=frozenset(size for size, *_ in points),
        scatter=next((text for way in ways if (text := variation_text(way))), None),
    )


def _between(size: int, known: dict[int, tuple[float, float]]) -> tuple[float, float] | None:
    if size in known:
        return known[size]
    below = max((other for other in known if other < size), default=None)
    above = min((other for other in known if other > size), default=None)
    if below is None or above is None or above > MAX_INTERPOLATION_RATIO * below:
        return None
    (time_below, spread_below), (time_above, spread_above) = known[below], known[above]
    share = math.log(size / below) / math.log(above / below)
    # Half of what the two differ by may lie between them in one step.
    step = abs(math.log(time_above / time_below)) / 4
    return time_below * (time_above / time_below) ** share, max(spread_below, spread_above, step)
