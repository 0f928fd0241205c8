"""Selects the yardstick of a series: a published reference, a reference log, or the expectation."""

from msgspec.structs import replace

from busbw.collectives import collectives
from busbw.comparability import Difference, differences_text
from busbw.judge.nearest import NearestReference, has_figures_of
from busbw.judge.reference_selection import ReferenceSelection, ReferenceSeries
from busbw.judge.series import Series, has_medians, replace_means_by_medians
from busbw.judge.series_context import SeriesContext
from busbw.judge.types import Reason
from busbw.judge.yardstick import Yardstick, most_similar_yardstick
from busbw.logs.log import PLACEMENT_WORDS
from busbw.units import number_text, size_text

_COLLECTIVE_REMEDY = "write the command of the run above its table, such as all_reduce_perf -b 8"
_RANKS_REMEDY = 'write the number and type of its GPUs above the table, such as "# 8x H100"'


def select_yardstick(
    series: Series, context: SeriesContext, selection: ReferenceSelection
) -> tuple[Yardstick | Reason, list[str]]:
    """Selects the named reference, the nearest published one, or the expectation.

    Returns the yardstick, or the reason for its absence, and notes.
    """
    nearest = context.nearest  # sweep of the named reference, or of any published one if none is named
    expectation = context.expectation
    if selection.reference is not None:
        if nearest is None:
            return Reason("no_reference_figures", f"{selection.name} has no figures of {series.collective}"), []
        return nearest.yardstick, [f"reference {nearest.name}: {nearest.yardstick.similarity_text}"]
    if selection.nearest:
        if nearest is None:
            return Reason("no_reference_figures", f"no published figures of {series.collective}"), []
        yardstick = _block_if_facts_missing(nearest.yardstick, assumes_nics=context.assumes_nics)
        return yardstick, [_nearest_reference_text(series, nearest)]
    notes = [_nearest_reference_text(series, nearest)] if nearest and _is_informative(series, nearest) else []
    if expectation is None:
        return _missing_expectation_reason(series), notes
    if expectation.unknown:
        return Reason("no_expectation", expectation.unknown), notes
    return context.expectation_yardstick, notes


def _block_if_facts_missing(yardstick: Yardstick, *, assumes_nics: bool) -> Yardstick:
    """Adds a blocker to an automatically chosen yardstick if the run's GPU, or the NICs that it uses, are not stated.

    With a named reference the user vouches for the similarity.
    """
    if yardstick.blockers:
        return yardstick
    if any(difference.fact == "GPU" and not difference.is_stated for difference in yardstick.differences):
        blocker = Difference("GPU", "the log does not state its GPU", is_stated=False)
    elif assumes_nics:
        blocker = Difference("NICs", "the NICs of a node are not stated (--nics 8x400)", is_stated=False)
    else:
        return yardstick
    return replace(yardstick, blockers=(blocker,))


def _missing_expectation_reason(series: Series) -> Reason:
    if series.collective is None:
        return Reason("unknown_collective", "the log does not state its collective", _COLLECTIVE_REMEDY)
    if series.collective not in collectives():
        return Reason("unknown_traffic", f"the traffic of {series.collective} is not known")
    if series.ranks is None:
        return Reason("unknown_ranks", "the log does not state its number of ranks", _RANKS_REMEDY)
    return Reason("unknown_system", "the system is not known: the log names no device that busbw has a description of")


def select_yardstick_from_log(
    series: Series, name: str, references: ReferenceSeries
) -> tuple[Series, Yardstick | Reason, list[str]]:
    """Selects the configuration of a reference log with the fewest differences.

    Run and reference are compared by medians if both have medians. The name of the yardstick then says so, because the
    table of the log shows means.

    Returns the series to judge, the yardstick or the reason for its absence, and notes.
    """
    means, reference_series = series, references.by_mean
    if references.by_median is not None and has_medians(series):
        series, reference_series = replace_means_by_medians(series), references.by_median
    # Of equally similar configurations the first is selected, so those of the same group come first.
    same_group_first = sorted(reference_series, key=lambda reference: reference.row.group != series.row.group)
    most_similar = most_similar_yardstick(name, same_group_first, series)
    if most_similar is None:
        return series, Reason("no_reference_figures", f"{name} contains no rows"), []
    differences = most_similar.differences
    notes = [f"the reference differs in {differences_text(differences)}"] if differences else []
    # If the samples exclude launch time, `median_us` is the time of the table, so the name of the yardstick stays.
    if any(point.time_us != mean.time_us for point, mean in zip(series.points, means.points, strict=True)):
        most_similar = replace(most_similar, name=f"{name}, by medians of the iterations")
    return series, most_similar, notes


def _is_informative(series: Series, nearest: NearestReference) -> bool:
    """True if a note on the nearest published figures informs the user.

    False if they are figures of this very run, or of another device, such as a GPU for a processor.
    """
    is_of_other_device = any(blocker.fact == "GPU" for blocker in nearest.yardstick.blockers)
    return not is_of_other_device and not has_figures_of(series, nearest)


def _nearest_reference_text(series: Series, nearest_reference: NearestReference) -> str:
    """Describes the nearest reference. If it is comparable, compares the busbw at the largest common size."""
    text = f"nearest published: {nearest_reference.name} ({nearest_reference.yardstick.similarity_text})"
    if nearest_reference.yardstick.blockers:
        return text
    published_by_size = {
        point.size_bytes: point.busbw_gbps for point in nearest_reference.sweep.points if point.size_bytes
    }
    shared = [
        (point, point.busbw_gbps)
        for point in series.points
        if point.size_bytes in published_by_size and point.busbw_gbps
    ]
    if not shared:
        return text
    largest, own_gbps = max(shared, key=lambda pair: pair[0].size_bytes)
    case_text = " ".join(filter(None, [size_text(largest.size_bytes), PLACEMENT_WORDS[largest.placement]]))
    published_gbps = published_by_size[largest.size_bytes]
    return f"{text}: {number_text(published_gbps)} GB/s there, {number_text(own_gbps)} here at {case_text}"
