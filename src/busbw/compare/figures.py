"""Figures of one side of a comparison at a point, combined over its runs or blocks."""

from collections.abc import Sequence
from statistics import median

from busbw.compare.quantities import value_of
from busbw.compare.result import SideFigures, TimeQuantity
from busbw.logs import Figure

_STATED_QUANTITIES: tuple[TimeQuantity, ...] = ("time_us", "algbw_gbps", "busbw_gbps", "device_time_us")


def side_figures(figures: Sequence[Figure], *, runs: int | None = None) -> SideFigures:
    """Combines the figures of one side at a point. Each value is the median over them.

    `runs`: number of runs that the figures come from; None if each figure is a run.
    """
    values = {}
    for quantity in _STATED_QUANTITIES:
        stated_values = [value for figure in figures if (value := getattr(figure, quantity)) is not None]
        values[quantity] = median(stated_values) if stated_values else None
    sampled_us = [value for figure in figures if (value := value_of(figure, "median_us")) is not None]
    wrong_counts = [figure.wrong_elements for figure in figures if figure.wrong_elements is not None]
    algorithms = {figure.algorithm_text for figure in figures}
    return SideFigures(
        **values,
        median_us=median(sampled_us) if figures and len(sampled_us) == len(figures) else None,
        samples=sum(len(figure.samples_us[0]) for figure in figures if figure.samples_us),
        runs=len(figures) if runs is None else runs,
        wrong_elements=sum(wrong_counts) if wrong_counts else None,
        algorithm=(algorithms.pop() or None) if len(algorithms) == 1 else None,
    )
