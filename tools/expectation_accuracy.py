#!/usr/bin/env python3
"""Prints the accuracy of the expectation for bench/results/expectation-accuracy.md."""

import statistics
import sys
from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Struct

from busbw.expect import Expectation, ExpectedRange, Scenario, expect, with_nics, with_sharp
from busbw.judge.yardstick import yardstick_from_expectation
from busbw.reference import Reference, Sweep, references
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


class Plateau(Struct, kw_only=True, frozen=True):
    """Published and predicted busbw of the largest message of one published sweep."""

    reference: str
    collective: str
    ranks: int
    algorithm: str | None
    is_floor: bool
    """True if the source states a required minimum instead of a measurement."""
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
    def is_inside(self) -> bool:
        """True if the published figure is in the predicted range."""
        return self.predicted_gbps.low <= self.published_gbps <= self.predicted_gbps.high


class BandAccuracy(NamedTuple):
    """Accuracy over the points of one sweep in one band."""

    point_count: int
    inside_count: int
    """Number of points in the predicted range."""
    median_error: float
    """Median of the absolute relative error of the time."""


class Coverage(Struct, kw_only=True, frozen=True):
    """Accuracy over all sizes of one published sweep, by band."""

    reference: str
    collective: str
    ranks: int
    variant: str | None
    bands: dict[BandName, BandAccuracy]
    """Only bands with a point."""


def plateaus() -> Iterator[Plateau]:
    """Yields the plateau of every published sweep for which the model has an estimate."""
    for name, reference, sweep in _sweeps():
        # A point without a size is "large", so it counts as the largest point.
        point = max(sweep.points, key=lambda candidate: candidate.size_bytes or float("inf"))
        size = point.size_bytes or UNSTATED_BYTES
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
        yield Coverage(
            reference=name,
            collective=sweep.collective,
            ranks=reference.ranks,
            variant=sweep.variant,
            bands={
                band: BandAccuracy(
                    point_count=len(hits_and_errors[band]),
                    inside_count=sum(is_inside for is_inside, _ in hits_and_errors[band]),
                    median_error=statistics.median(error for _, error in hits_and_errors[band]),
                )
                for band in BANDS
                if band in hits_and_errors
            },
        )


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
        system = with_nics(system, nics.count, nics.gbit, nics.source)
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
    measured = [plateau for plateau in plateaus() if not plateau.is_floor]
    return [plateau for plateau in measured if plateau.size_bytes is None or plateau.size_bytes >= LARGE_BYTES]


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
        title = " ".join(word for word in (plateau.collective, plateau.algorithm) if word)
        size = size_text(plateau.size_bytes) if plateau.size_bytes else "large"
        published = f"{plateau.published_gbps:.4g}"
        predicted = f"{plateau.predicted_gbps.typical:.4g} ({plateau.route})"
        healthy_range = f"{plateau.predicted_gbps.low:.3g}-{plateau.predicted_gbps.high:.3g}"
        cells = (plateau.reference, title, size, published, predicted, healthy_range, f"{plateau.error:+.0%}")
        lines.append(f"| {' | '.join(cells)} | {_remark(plateau)} |")
    lines += ["", "| reference | what | latency | middle | plateau |", "| --- | --- | --- | --- | --- |"]
    for coverage in coverages():
        title = " ".join(word for word in (coverage.collective, coverage.variant) if word)
        band_texts = []
        for band in BANDS:
            accuracy = coverage.bands.get(band)
            text = ""
            if accuracy:
                text = f"{accuracy.inside_count} of {accuracy.point_count}, {accuracy.median_error:.0%}"
            band_texts.append(text)
        lines.append(f"| {coverage.reference} | {title} | {' | '.join(band_texts)} |")
    return "\n".join(lines) + "\n"


def _remark(plateau: Plateau) -> str:
    if plateau.is_floor:
        return "floor" if plateau.predicted_gbps.typical >= plateau.published_gbps else "floor above the prediction"
    if plateau.library and "MSCCL" in plateau.library:
        return "another library"
    if abs(plateau.error) <= AIM:
        return ""
    return "in range" if plateau.is_inside else "MISS"


if __name__ == "__main__":
    sys.stdout.write(markdown())
