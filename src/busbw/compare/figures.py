"""Figures of one side of a comparison at a point, and their combination over its runs or blocks."""

import math
from array import array
from collections.abc import Iterable, Sequence
from statistics import median

from busbw.compare.result import SideFigures, TimeQuantity
from busbw.logs.log import Figure
from busbw.statistics import stats
from busbw.statistics.run_variation import LaunchMode

_STATED_QUANTITIES: tuple[TimeQuantity, ...] = ("time_us", "algbw_gbps", "busbw_gbps", "device_time_us")
"""Quantities that logs state."""


def sampled_median_us(figure: Figure) -> float | None:
    """Returns the median over the iterations of the slowest rank's time. None without samples, or if it is zero."""
    if not _has_samples(figure):
        return None
    value = median(stats.slowest_rank_us(figure.samples_us))
    return value if value > 0 else None


def _has_samples(figure: Figure) -> bool:
    return bool(figure.samples_us and figure.samples_us[0])


class PointFigures:
    """Figures of one side at one point, in packed arrays, because a long log has millions of them."""

    def __init__(self, figures: Iterable[Figure] = ()) -> None:
        """Adds the figures as runs 0, 1, 2 and so on. `add` serves runs with several cycles."""
        self.runs = array("q")
        """Number of the run of each figure, from 0 within the side."""
        self.slowest_us = array("d")
        """Sampled times of the slowest rank, of all figures in the order of `runs`."""
        self.are_sampled = True
        """True if every figure has samples."""
        self.have_program_samples = True
        """True if every figure has samples that include launch time."""
        self.sample_count = 0
        """Number of iterations with samples."""
        self.wrong_elements: int | None = None
        """Number of wrong elements. None if no figure has a known number."""
        self.algorithms: set[str] = set()
        self.launch_modes: set[LaunchMode] = set()
        """How operations were launched, if that is known and launching has a visible effect."""
        self.claimed_speedup: float | None = None
        """First speed-up that a row states."""
        self._values = {quantity: array("d") for quantity in (*_STATED_QUANTITIES, "median_us")}
        """Values of each quantity by figure. NaN: unknown."""
        self._derived: set[str] = set()
        """Quantities that a figure derives from others."""
        self._last_pass = (-1, -1)
        """Run and cycle of the last figure."""
        for run, figure in enumerate(figures):
            self.add(figure, run)

    @classmethod
    def merged(cls, parts: "Sequence[PointFigures]") -> "PointFigures":
        """Merges the figures of several points of one side into one point."""
        if len(parts) == 1:
            return parts[0]
        figures = cls()
        for part in parts:
            figures._extend(part)
        return figures

    def __len__(self) -> int:
        """Number of figures."""
        return len(self.runs)

    def add(self, figure: Figure, run: int, cycle: int = 0) -> bool:
        """Adds a figure of a run and its cycle. A cycle is a pass of one run over all sizes (-N).

        Returns false if the last figure has the same run and cycle. The figure is then not added.
        """
        if (run, cycle) == self._last_pass:
            return False
        self._last_pass = (run, cycle)
        self.runs.append(run)
        for quantity in _STATED_QUANTITIES:
            value = getattr(figure, quantity)
            self._values[quantity].append(math.nan if value is None else value)
        self._values["median_us"].append(sampled_median_us(figure) or math.nan)
        has_samples = _has_samples(figure)
        self.are_sampled = self.are_sampled and has_samples
        self.have_program_samples = self.have_program_samples and has_samples and figure.samples_include_launches
        if has_samples:
            self.sample_count += len(figure.samples_us[0])
            self.slowest_us.extend(stats.slowest_rank_us(figure.samples_us))
        self._add_wrong_elements(figure.wrong_elements)
        self.algorithms.add(figure.algorithm_text)
        self._derived.update(figure.derived)
        return True

    def _add_wrong_elements(self, count: int | None) -> None:
        if count is not None:
            self.wrong_elements = (self.wrong_elements or 0) + count

    def _extend(self, other: "PointFigures") -> None:
        self.runs.extend(other.runs)
        self.slowest_us.extend(other.slowest_us)
        self.are_sampled = self.are_sampled and other.are_sampled
        self.have_program_samples = self.have_program_samples and other.have_program_samples
        self.sample_count += other.sample_count
        self._add_wrong_elements(other.wrong_elements)
        self.algorithms |= other.algorithms
        self.launch_modes |= other.launch_modes
        if self.claimed_speedup is None:
            self.claimed_speedup = other.claimed_speedup
        for quantity, values in self._values.items():
            values.extend(other._values[quantity])
        self._derived |= other._derived

    @property
    def run_count(self) -> int:
        """Number of different runs. All cycles of a run are one run."""
        return len(set(self.runs))

    def known_values(self, quantity: TimeQuantity) -> list[float]:
        """Returns the known values of a quantity."""
        return [value for value in self._values[quantity] if not math.isnan(value)]

    def positive_values(self, quantity: TimeQuantity) -> list[float]:
        """Returns the values of a quantity that are above zero."""
        return [value for value in self._values[quantity] if value > 0]

    def printed_median(self, quantity: TimeQuantity) -> float | None:
        """Returns the median of the printed values. None if one is missing, zero, or derived from other figures."""
        values = self.positive_values(quantity)
        has_all_values = 0 < len(values) == len(self)
        return median(values) if has_all_values and quantity not in self._derived else None

    def printed_bounds(self, quantity: TimeQuantity) -> tuple[float, float]:
        """Returns the bounds of the median of the printed values before they were rounded."""
        lows, highs = zip(*map(stats.rounding_bounds, self.positive_values(quantity)), strict=True)
        return median(lows), median(highs)

    def median_per_run(self, quantity: TimeQuantity) -> list[float]:
        """Returns one value per run: the median over the run's cycles, because cycles are not independent.

        Empty if a value is missing or not above zero.
        """
        values = self.positive_values(quantity)
        if len(values) < len(self):
            return []
        values_by_run: dict[int, list[float]] = {}
        for run, value in zip(self.runs, values, strict=True):
            values_by_run.setdefault(run, []).append(value)
        return list(map(median, values_by_run.values()))


def have_device_times(*sides: PointFigures) -> bool:
    """True if every figure has a device time above 0. False for no figures."""
    times_us = [side.known_values("device_time_us") for side in sides]
    figure_count = sum(map(len, sides))
    return 0 < figure_count == sum(map(len, times_us)) and all(map(all, times_us))


def program_time(*sides: PointFigures) -> TimeQuantity:
    """Selects the field that holds the program time, for the figures of all sides.

    The field is `median_us`, the median over iterations, if all figures have samples that include launch time
    (docs/explanation/measuring.md). Otherwise the field is `time_us`.
    """
    return "median_us" if all(side.have_program_samples for side in sides) else "time_us"


def side_figures(figures: PointFigures, *, runs: int | None = None) -> SideFigures:
    """Combines the figures of one side at a point. Each value is the median over them.

    `runs`: number of runs that the figures come from; None if each figure is a run.
    """
    known = {quantity: figures.known_values(quantity) for quantity in _STATED_QUANTITIES}
    sampled_us = figures.known_values("median_us")
    algorithm = next(iter(figures.algorithms)) if len(figures.algorithms) == 1 else ""
    return SideFigures(
        **{quantity: median(values) if values else None for quantity, values in known.items()},
        median_us=median(sampled_us) if sampled_us and len(sampled_us) == len(figures) else None,
        samples=figures.sample_count,
        runs=len(figures) if runs is None else runs,
        wrong_elements=figures.wrong_elements,
        algorithm=algorithm or None,
    )
