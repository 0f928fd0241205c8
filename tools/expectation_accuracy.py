#!/usr/bin/env python3
"""Prints the accuracy of the expectation for docs/expectation.md: published figures and the model's predictions."""

import statistics
import sys
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from busbw.expect import Expectation, ExpectedRange, Scenario, expect
from busbw.judge.yardstick import yardstick_from_expectation
from busbw.reference import Reference, Sweep, references
from busbw.statistics.bands import BANDS, BandName
from busbw.system import find, nics_from_text
from busbw.units import size_text

AIM = 0.10
"""Maximum error of a good prediction of a plateau, as a fraction."""

LARGE_BYTES = 1 << 30
"""Minimum size of a large message."""

_MIN_SIZES = 4
"""Minimum number of sizes of a sweep for a coverage."""


class Plateau(Struct, kw_only=True, frozen=True):
    """Published and predicted busbw of the largest message of one published sweep."""

    reference: str
    collective: str
    ranks: int
    algorithm: str | None
    is_floor: bool
    library: str | None
    size_bytes: int | None
    """None if the source states no size, only "large"."""
    published_gbps: float
    predicted_gbps: ExpectedRange
    route: str

    @property
    def error(self) -> float:
        """Relative error of the prediction; positive if it is above the published figure."""
        return self.predicted_gbps.typical / self.published_gbps - 1

    @property
    def inside(self) -> bool:
        """True if the published figure is in the predicted range."""
        return self.predicted_gbps.low <= self.published_gbps <= self.predicted_gbps.high


class Coverage(Struct, kw_only=True, frozen=True):
    """Accuracy over all sizes of one published sweep, by band."""

    reference: str
    collective: str
    ranks: int
    variant: str | None
    bands: dict[BandName, tuple[int, int, float]]
    """Per band: number of points, number of points in the range, median of the absolute relative error of time."""


def plateaus() -> Iterator[Plateau]:
    """Yields the largest message of every published sweep that the model covers."""
    for name, reference, sweep in _modelled():
        point = max(sweep.points, key=lambda one: one.size_bytes or 1 << 62)
        # Without a published size, assume a very large message.
        size = point.size_bytes or 1 << 40
        expectation = _expectation(reference, sweep, [size])
        estimate = expectation.at(size)
        if estimate is None:
            continue
        yield Plateau(
            reference=name,
            collective=sweep.collective,
            ranks=reference.ranks,
            algorithm=sweep.algorithm,
            is_floor=sweep.kind == "floor",
            library=reference.library,
            size_bytes=point.size_bytes,
            published_gbps=point.busbw_gbps,
            predicted_gbps=estimate.busbw_gbps,
            route=estimate.route,
        )


def coverages() -> Iterator[Coverage]:
    """Yields the coverage of every published sweep with at least `_MIN_SIZES` sizes."""
    for name, reference, sweep in _modelled():
        points = [(point.size_bytes, point.busbw_gbps, point.time_us) for point in sweep.points if point.size_bytes]
        if len(points) < _MIN_SIZES:
            continue
        expectation = _expectation(reference, sweep, [size for size, _, _ in points])
        yardstick = yardstick_from_expectation(expectation)
        found: dict[BandName, list[tuple[bool, float]]] = {}
        for size, busbw, time in points:
            estimate = expectation.at(size)
            if estimate is None or not (time or busbw):
                continue
            measured = time or estimate.time_us.typical * estimate.busbw_gbps.typical / busbw
            inside = estimate.time_us.low <= measured <= estimate.time_us.high
            found.setdefault(yardstick.band(size), []).append((inside, abs(estimate.time_us.typical / measured - 1)))
        yield Coverage(
            reference=name,
            collective=sweep.collective,
            ranks=reference.ranks,
            variant=sweep.variant,
            bands={
                band: (
                    len(found[band]),
                    sum(one for one, _ in found[band]),
                    statistics.median(e for _, e in found[band]),
                )
                for band in BANDS
                if band in found
            },
        )


def _modelled() -> Iterator[tuple[str, Reference, Sweep]]:
    """Yields every published sweep. If both placements were published, only the out-of-place one."""
    for name, reference in references().items():
        both = {sweep.collective for sweep in reference.sweeps if sweep.placement == "out_of_place"}
        for sweep in reference.sweeps:
            if sweep.placement != "in_place" or sweep.collective not in both:
                yield name, reference, sweep


def _expectation(reference: Reference, sweep: Sweep, sizes: list[int]) -> Expectation:
    assert reference.system is not None
    system = find(reference.system)
    nics = nics_from_text(reference.nics, reference.source) if reference.nics else None
    if nics is not None:
        latency = system.nics.latency_us if system.nics else None
        system = msgspec.structs.replace(system, nics=msgspec.structs.replace(nics, latency_us=latency))
    job = Scenario(
        collective=sweep.collective,
        ranks=reference.ranks,
        ranks_per_node=max(1, reference.ranks // reference.nodes),
        dtype=sweep.dtype,
        gpus_per_thread=reference.gpus_per_thread,
        nvls="multicast off" not in reference.links,
        algorithm=sweep.algorithm.lower() if sweep.algorithm else None,
    )
    return expect(job, system, sizes)


def full_size() -> list[Plateau]:
    """Returns the plateaus that were measured with a large message."""
    return [one for one in plateaus() if not one.is_floor and (one.size_bytes or LARGE_BYTES) >= LARGE_BYTES]


def markdown() -> str:
    """Returns the text and both tables for docs/expectation.md."""
    whole = full_size()
    close = sum(abs(one.error) <= AIM for one in whole)
    inside = sum(one.inside for one in whole)
    lines = [
        f"Of {len(whole)} published plateaus of 1 GiB and more {close} are predicted within {AIM:.0%}, "
        f"and {inside} lie in the healthy range.",
        "",
        "| reference | what | size | published | predicted | healthy range | error | |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for one in plateaus():
        title = " ".join(word for word in (one.collective, one.algorithm) if word)
        size = size_text(one.size_bytes) if one.size_bytes else "large"
        limits = f"{one.predicted_gbps.low:.3g}-{one.predicted_gbps.high:.3g}"
        predicted = f"{one.predicted_gbps.typical:.4g} ({one.route})"
        cells = (one.reference, title, size, f"{one.published_gbps:.4g}", predicted, limits, f"{one.error:+.0%}")
        lines.append(f"| {' | '.join(cells)} | {_remark(one)} |")
    lines += ["", "| reference | what | latency | middle | plateau |", "| --- | --- | --- | --- | --- |"]
    for row in coverages():
        title = " ".join(word for word in (row.collective, row.variant) if word)
        shares = [
            f"{row.bands[band][1]} of {row.bands[band][0]}, {row.bands[band][2]:.0%}" if band in row.bands else ""
            for band in BANDS
        ]
        lines.append(f"| {row.reference} | {title} | {' | '.join(shares)} |")
    return "\n".join(lines) + "\n"


def _remark(one: Plateau) -> str:
    if one.is_floor:
        return "floor" if one.predicted_gbps.typical >= one.published_gbps else "floor above the prediction"
    if one.library and "MSCCL" in one.library:
        return "another library"
    if abs(one.error) <= AIM:
        return ""
    return "in range" if one.inside else "MISS"


if __name__ == "__main__":
    sys.stdout.write(markdown())
