"""What one side of a comparison shows at a point, over its runs or blocks."""

from collections.abc import Sequence
from statistics import median

from busbw import stats
from busbw.compare.result import Quantity, SideFigures
from busbw.logs import Figure

_SHOWN: tuple[Quantity, ...] = ("time_us", "algbw_gbps", "busbw_gbps", "device_time_us")


def time_us(figure: Figure) -> float | None:
    """The median over iterations of the slowest rank where the log has them, its own time otherwise."""
    return _median_of_samples(figure) if _has_samples(figure) else figure.time_us


def side_figures(found: Sequence[Figure]) -> SideFigures:
    """One side's figures at a point; over several runs the median of each."""
    values = {}
    for name in _SHOWN:
        known = [value for figure in found if (value := getattr(figure, name)) is not None]
        values[name] = median(known) if known else None
    wrong = [figure.wrong_elements for figure in found if figure.wrong_elements is not None]
    return SideFigures(
        **values,
        median_us=median(map(_median_of_samples, found)) if found and all(map(_has_samples, found)) else None,
        samples=sum(len(figure.samples_us[0]) for figure in found if figure.samples_us),
        runs=len(found),
        wrong_elements=sum(wrong) if wrong else None,
    )


def _has_samples(figure: Figure) -> bool:
    return bool(figure.samples_us and figure.samples_us[0])


def _median_of_samples(figure: Figure) -> float:
    return median(stats.slowest_rank_us(figure.samples_us))
