#!/usr/bin/env python3
"""Prints the accuracy of the expectation for bench/results/expectation-accuracy.md."""

import statistics
import sys
from collections.abc import Iterator
from typing import NamedTuple

from busbw.expect import Estimate, Expectation, Scenario, expect, with_nics, with_sharp
from busbw.judge.yardstick import yardstick_from_expectation
from busbw.reference import PublishedPoint, Reference, Sweep, references
from busbw.statistics.bands import BANDS, BandName
from busbw.system import find, nics_from_text
from busbw.units import size_text

AIM = 0.10
"""Maximum error of a close prediction of a plateau, as a fraction."""

LARGE_BYTES = 1 << 30
"""Minimum size of a large message."""

UNSTATED_BYTES = 1 << 40
"""Size of the prediction for a message without a stated size."""

_MIN_SIZES = 4
"""Minimum number of sizes that a sweep must have for a `Coverage`."""


class Plateau(NamedTuple):
    """Published and predicted busbw of the largest message of one published sweep."""

    name: str
    """Name of the reference."""
    reference: Reference
    sweep: Sweep
    point: PublishedPoint
    """Figure of the largest message. It has no size if the source states only "large"."""
    estimate: Estimate

    @property
    def error(self) -> float:
        """Relative error of the prediction; positive if it is above the published figure."""
        return self.estimate.busbw_gbps.typical / self.point.busbw_gbps - 1

    @property
    def is_inside(self) -> bool:
        """True if the published figure is in the predicted range."""
        return self.estimate.busbw_gbps.low <= self.point.busbw_gbps <= self.estimate.busbw_gbps.high

    @property
    def is_floor(self) -> bool:
        """True if the source states a required minimum instead of a measurement."""
        return self.sweep.kind == "floor"


class BandAccuracy(NamedTuple):
    """Accuracy over the points of one sweep in one band."""

    point_count: int
    inside_count: int
    """Number of points in the predicted range."""
    median_error: float
    """Median of the absolute relative error of the time."""

    @property
    def text(self) -> str:
        """Cell of the table: "3 of 4, 12%"."""
        return f"{self.inside_count} of {self.point_count}, {self.median_error:.0%}"


class Coverage(NamedTuple):
    """Accuracy over all sizes of one published sweep, by band."""

    name: str
    """Name of the reference."""
    sweep: Sweep
    bands: dict[BandName, BandAccuracy]
    """Only bands with a point."""


def plateaus() -> Iterator[Plateau]:
    """Yields the plateau of every published sweep for which the model has an estimate."""
    for name, reference, sweep in _sweeps():
        # A point without a size is "large", so it counts as the largest point.
        point = max(sweep.points, key=lambda candidate: candidate.size_bytes or float("inf"))
        size = point.size_bytes or UNSTATED_BYTES
        estimate = _expectation(reference, sweep, [size]).at(size)
        if estimate is not None:
            yield Plateau(name, reference, sweep, point, estimate)


def coverages() -> Iterator[Coverage]:
    """Yields the coverage of every published sweep with at least `_MIN_SIZES` sizes."""
    for name, reference, sweep in _sweeps():
        points = [(point.size_bytes, point.busbw_gbps, point.time_us) for point in sweep.points if point.size_bytes]
        if len(points) < _MIN_SIZES:
            continue
        expectation = _expectation(reference, sweep, [size for size, _, _ in points])
        yardstick = yardstick_from_expectation(expectation)
        hits_and_errors: dict[BandName, list[tuple[bool, float]]] = {}
        for size, busbw_gbps, time_us in points:
            estimate = expectation.at(size)
            if estimate is None or not (time_us or busbw_gbps):
                continue
            # Prediction and measurement have the same product of time and busbw. So a missing time follows from busbw.
            measured_us = time_us or estimate.time_us.typical * estimate.busbw_gbps.typical / busbw_gbps
            is_inside = estimate.time_us.low <= measured_us <= estimate.time_us.high
            error = abs(estimate.time_us.typical / measured_us - 1)
            hits_and_errors.setdefault(yardstick.band(size), []).append((is_inside, error))
        bands = {
            band: BandAccuracy(
                point_count=len(hits_and_errors[band]),
                inside_count=sum(is_inside for is_inside, _ in hits_and_errors[band]),
                median_error=statistics.median(error for _, error in hits_and_errors[band]),
            )
            for band in BANDS
            if band in hits_and_errors
        }
        yield Coverage(name, sweep, bands)


def _sweeps() -> Iterator[tuple[str, Reference, Sweep]]:
    """Yields every published sweep. If both placements of a collective were published, only the out-of-place one."""
    for name, reference in references().items():
        out_of_place = {sweep.collective for sweep in reference.sweeps if sweep.placement == "out_of_place"}
        for sweep in reference.sweeps:
            if sweep.placement != "in_place" or sweep.collective not in out_of_place:
                yield name, reference, sweep


def _expectation(reference: Reference, sweep: Sweep, sizes: list[int]) -> Expectation:
    """Returns the expectation for the system and the settings that the source of a sweep states."""
    assert reference.system is not None
    system = find(reference.system)
    nics = nics_from_text(reference.nics, reference.source) if reference.nics else None
    if nics is not None:
        system = with_nics(system, nics)
    if sweep.algorithm == "CollNet":
        system = with_sharp(system)
    scenario = Scenario(
        collective=sweep.collective,
        ranks=reference.ranks,
        ranks_per_node=max(1, reference.ranks // reference.nodes),
        dtype=sweep.dtype,
        gpus_per_thread=reference.gpus_per_thread,
        nvls="multicast off" not in reference.links,
        algorithm=sweep.algorithm.lower() if sweep.algorithm else None,
    )
    return expect(scenario, system, sizes)


def large_plateaus() -> list[Plateau]:
    """Returns the plateaus that were measured with at least 1 GiB, or without a stated size."""
    return [
        plateau
        for plateau in plateaus()
        if not plateau.is_floor and (plateau.point.size_bytes is None or plateau.point.size_bytes >= LARGE_BYTES)
    ]


def markdown() -> str:
    """Returns the text and both tables for bench/results/expectation-accuracy.md."""
    large = large_plateaus()
    close_count = sum(abs(plateau.error) <= AIM for plateau in large)
    inside_count = sum(plateau.is_inside for plateau in large)
    lines = [
        f"Of {len(large)} published plateaus of 1 GiB and more {close_count} are predicted within {AIM:.0%}, "
        f"and {inside_count} lie in the healthy range.",
        "",
        "| reference | what | size | published | predicted | healthy range | error | |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for plateau in plateaus():
        size_bytes, predicted_gbps = plateau.point.size_bytes, plateau.estimate.busbw_gbps
        cells = (
            plateau.name,
            " ".join(filter(None, (plateau.sweep.collective, plateau.sweep.algorithm))),
            size_text(size_bytes) if size_bytes else "large",
            f"{plateau.point.busbw_gbps:.4g}",
            f"{predicted_gbps.typical:.4g} ({plateau.estimate.route})",
            f"{predicted_gbps.low:.3g}-{predicted_gbps.high:.3g}",
            f"{plateau.error:+.0%}",
        )
        lines.append(f"| {' | '.join(cells)} | {_remark(plateau)} |")
    lines += ["", "| reference | what | latency | middle | plateau |", "| --- | --- | --- | --- | --- |"]
    for coverage in coverages():
        coverage_cells = (
            coverage.name,
            " ".join(filter(None, (coverage.sweep.collective, coverage.sweep.variant))),
            *(coverage.bands[band].text if band in coverage.bands else "" for band in BANDS),
        )
        lines.append(f"| {' | '.join(coverage_cells)} |")
    return "\n".join(lines) + "\n"


def _remark(plateau: Plateau) -> str:
    if plateau.is_floor:
        return "floor" if plateau.error >= 0 else "floor above the prediction"
    if "MSCCL" in (plateau.reference.library or ""):
        return "another library"
    if abs(plateau.error) <= AIM:
        return ""
    return "in range" if plateau.is_inside else "MISS"


if __name__ == "__main__":
    sys.stdout.write(markdown())
