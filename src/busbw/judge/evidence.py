"""Collects the evidence on a series: wrong data, obstacles to a verdict, graded bands, and doubts.

A series is all figures of one configuration. A yardstick is the ranges of time that it is judged by.
"""

from msgspec.structs import replace

from busbw.comparability import differences_text, find_system_difference
from busbw.expect import Expectation, can_reduce_in_network
from busbw.judge.grade import Evidence, grade_bands
from busbw.judge.series import Series
from busbw.judge.series_context import SeriesContext
from busbw.judge.types import BandVerdict, Reason
from busbw.judge.yardstick import Yardstick
from busbw.logs.plain_rows import have_wrong_data
from busbw.system import System
from busbw.units import count_text, number_text

_MAX_NAMED_FIGURES = 3
"""Maximum number of wrong figures that a reason names."""
_MAX_LIMIT_RATIO = 1.10
"""Maximum credible ratio of busbw to the highest limit of all routes. Beyond it the assumed system is wrong."""

_BROKEN_REMEDY = (
    "repeat the run with -c 1 -n 1 over the same sizes; if data are wrong again, suspect the library, then the hardware"
)
REFUSED_ROWS_REMEDY = "see `busbw import` for the refused rows"
_OTHER_SIZES = Reason(
    "other_sizes", "the reference covers no size of the run", "measure sizes of the reference (-b 8 -e 8G -f 2)"
)
_NICS_REMEDY = (
    "state the NICs of a node: busbw check --nics 8x400, or --system NAME if they are the usual ones of such a machine"
)
_NO_EXPECTATION_REMEDY = "give a good run of the same machine (--reference FILE)"
_NO_YARDSTICK_REMEDY = (
    "state the system (--system NAME; `busbw expect --list-systems` lists them) or give a good run of the same machine "
    "(--reference FILE)"
)


def collect_evidence(
    series: Series,
    yardstick: Yardstick | Reason,
    context: SeriesContext,
    system: System | None,
    refused_count: int,
    *,
    by_expectation: bool,
) -> Evidence:
    """Returns the facts that the grade depends on. Only figures without an obstacle are compared with the yardstick.

    Args:
        series: Figures to judge.
        yardstick: The yardstick, or the reason for its absence.
        context: System, expectation and NICs of the series.
        system: System that the user states; None if the log decides.
        refused_count: Number of rows of the table that could not be read.
        by_expectation: True if the yardstick is the expectation, false if the user chose a reference.
    """
    if wrong_data := _wrong_data_reason(series):
        return Evidence(wrong_data=(wrong_data,))
    if obstacle := _find_obstacle(series, yardstick, context.expectation, system, by_expectation=by_expectation):
        return Evidence(obstacles=(obstacle,))
    assert isinstance(yardstick, Yardstick)  # a missing yardstick is an obstacle
    bands = grade_bands(series, yardstick)
    if not bands:
        return Evidence(obstacles=(_OTHER_SIZES,))
    return Evidence(
        bands=bands,
        doubts=_find_doubts(series, bands, context.expectation),
        refused_rows=_refused_rows_reason(refused_count) if refused_count else None,
        assumed_nics=_assumed_nics_reason(context.expectation) if by_expectation and context.assumes_nics else None,
    )


def _wrong_data_reason(series: Series) -> Reason | None:
    """Returns the reason for BROKEN: wrong data in rows, or in the footer of the table. None without wrong data."""
    if series.wrong_count:
        named_figures = series.wrong_clauses[:_MAX_NAMED_FIGURES]
        unnamed_count = series.wrong_count - len(named_figures)
        more = f" and {unnamed_count} more" if unnamed_count else ""
        text = f"wrong data: {'; '.join(named_figures)}{more}"
        return Reason("wrong_data", text, _BROKEN_REMEDY)
    if not series.table.claimed_out_of_bounds:
        return None
    # The footer counts all configurations of the table. Wrong data in a row are the fault of that row's configuration.
    if have_wrong_data(series.table.rows):
        return None
    text = f"the log's footer counts {series.table.claimed_out_of_bounds} out of bounds"
    return Reason("wrong_data", text, _BROKEN_REMEDY)


def _refused_rows_reason(refused_count: int) -> Reason:
    unread_text = f"{count_text(refused_count, 'row')} of the log could not be read"
    return Reason("refused_rows", f"the rows that were read are in their range, but {unread_text}", REFUSED_ROWS_REMEDY)


def _assumed_nics_reason(expectation: Expectation | None) -> Reason | None:
    nics = expectation.system.nics if expectation else None
    if nics is None:
        return None
    text = f"the NICs of a node are not stated: {nics.text} are assumed, and with others this may be healthy"
    return Reason("assumed_nics", text, _NICS_REMEDY)


def _find_obstacle(
    series: Series,
    yardstick: Yardstick | Reason,
    expectation: Expectation | None,
    system: System | None,
    *,
    by_expectation: bool,
) -> Reason | None:
    """Returns the reason why the figures cannot be judged by the yardstick. None if they can be judged."""
    if series.is_call and by_expectation and isinstance(yardstick, Reason):
        return Reason("no_expectation", "no expectation of communicator operations is known", _NO_EXPECTATION_REMEDY)
    if series.ranks == 1 and not series.is_call:
        return Reason(
            "one_rank",
            "one rank: nothing crosses a link, so busbw is 0 and times are at most those of a copy",
            "start all ranks in one job; several such tables mean that each process ran alone (build with MPI=1)",
        )
    if series.table.has_several_runs:
        return Reason(
            "mixed_runs",
            f"{series.table.rank_zero_processes} processes report rank 0, so rows of several runs may be mixed",
            "judge the log of each run alone, or start all ranks in one job (build with MPI=1)",
        )
    if series.contradiction_count:
        more = f" (and {series.contradiction_count - 1} more)" if series.contradiction_count > 1 else ""
        return Reason(
            "contradiction",
            f"the figures contradict each other: {series.contradiction_clauses[0]}{more}",
            "check the units of time and bandwidth and the number of ranks in the log",
        )
    if not series.points and series.is_call:
        return Reason("no_times", "no row of the call has a time", "measure the call again")
    if not series.points:
        return Reason(
            "no_times", "no row has a time at a size above 0", "measure sizes above 0, such as -b 8 -e 1G -f 2"
        )
    if system is not None and (difference := find_system_difference(series.table, system)):
        return Reason(
            "other_system", f"not comparable: {difference.text}", "leave out --system, or state the system of the run"
        )
    if isinstance(yardstick, Reason):
        if yardstick.remedy:
            return yardstick
        needs_system = expectation is None and not series.is_call
        return replace(yardstick, remedy=_NO_YARDSTICK_REMEDY if needs_system else _NO_EXPECTATION_REMEDY)
    if yardstick.blockers:
        text = f"not comparable: {differences_text(yardstick.blockers)}"
        return Reason("not_comparable", text, "give a reference of the same job (--reference FILE)")
    return None


def _find_doubts(series: Series, bands: tuple[BandVerdict, ...], expectation: Expectation | None) -> tuple[Reason, ...]:
    """Returns the facts that do not allow GOOD: an impossible busbw, and a run that ended early."""
    doubts = []
    if expectation is not None and (impossible_busbw := _impossible_busbw_text(bands, expectation)):
        remedy = f"{_sharp_remedy(expectation)}state the system (--system), and check ranks and hosts in the log"
        doubts.append(Reason("impossible_busbw", impossible_busbw, remedy))
    if early_end_text := series.table.early_end_text:
        remedy = "repeat the complete run: missing sizes may be those that fail"
        doubts.append(Reason("ended_early", early_end_text, remedy))
    return tuple(doubts)


def _sharp_remedy(expectation: Expectation) -> str:
    """Returns the beginning of a remedy if a network that reduces would explain the busbw. Empty otherwise."""
    nics = expectation.system.nics
    if nics is None or nics.sharp or not can_reduce_in_network(expectation.job, expectation.system):
        return ""
    return "add --sharp if the network reduces (InfiniBand SHARP); otherwise "


def _impossible_busbw_text(bands: tuple[BandVerdict, ...], expectation: Expectation) -> str | None:
    """Returns a sentence if the busbw exceeds the highest limit of all routes. None if the busbw is credible."""
    if not expectation.routes:
        return None
    max_limit_gbps = max(route.limit_gbps for route in expectation.routes)
    measured_gbps = max((figure.busbw_gbps or 0.0 for band in bands for figure in band.judged), default=0.0)
    if measured_gbps <= _MAX_LIMIT_RATIO * max_limit_gbps:
        return None
    limit_text = f"the limit of {expectation.system.name} ({number_text(max_limit_gbps)})"
    return f"{number_text(measured_gbps)} GB/s is above {limit_text}"
