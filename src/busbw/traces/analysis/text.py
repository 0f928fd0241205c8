"""Texts and columns of an analysis, for the terminal and for the report. An unknown value is empty."""

from collections.abc import Callable, Iterator
from statistics import fmean

from busbw.terminal.tables import Column
from busbw.traces.analysis.types import Change, OperationRow, RankRow, TraceAnalysis
from busbw.units import count_text, milliseconds_text, names_text, number_text, size_range_text, size_text

_MAX_HOSTS = 3
"""Maximum number of host names in the facts."""
_MIN_NUMBER = 0.001
"""Smaller values are shown as "<0.001"."""


def fact_texts(analysis: TraceAnalysis) -> Iterator[tuple[str, str]]:
    """Yields names and texts of the facts about the whole recording."""
    ranks = f"{analysis.recorded_ranks} of {count_text(analysis.size, 'rank')}"
    if analysis.hosts:
        ranks += f" on {count_text(len(analysis.hosts), 'host')} ({names_text(analysis.hosts, _MAX_HOSTS)})"
    yield "recorded", f"{ranks}, {count_text(analysis.operations, 'operation')}"
    yield "by", ", ".join([*(analysis.libraries or ["unknown library"]), *analysis.producers])
    yield "steps", _steps_text(analysis)
    is_timed = any(row.time_us is not None for row in analysis.rows)
    if is_timed and analysis.clock_error_us is not None:
        yield "clocks", f"aligned within {number_text(analysis.clock_error_us, 3)} us: {analysis.clock_basis}"
    elif is_timed:
        yield "clocks", analysis.clock_basis
    if overlaps := [rank.overlap for rank in analysis.ranks if rank.overlap is not None]:
        yield "overlap", f"{fmean(overlaps):.0%} of the communication time has operations of several groups at once"
    if idle_us := [rank.idle_us for rank in analysis.ranks if rank.idle_us is not None]:
        yield (
            "idle",
            f"{milliseconds_text(fmean(idle_us))} per {analysis.period} without communication, mean over ranks",
        )


def _steps_text(analysis: TraceAnalysis) -> str:
    steps = analysis.steps
    if steps is None:
        duration = f"; it takes {milliseconds_text(analysis.duration_us)}" if analysis.duration_us else ""
        return f"none found, so all values are of the whole recording{duration}"
    times = "unknown duration"
    if steps.median_us is not None and steps.p10_us is not None and steps.p90_us is not None:
        times = f"median {milliseconds_text(steps.median_us)}"
        if steps.analyzed > 1:
            times += f" (10 to 90 %: {number_text(steps.p10_us / 1e3, 3)} to {milliseconds_text(steps.p90_us)})"
    found = f"{steps.count:,} of {count_text(steps.operations_per_step, 'operation')}, {steps.analyzed:,} analyzed"
    return f"{found}: {times}; they contain {steps.coverage:.0%} of the operations"


def saving_text(change: Change, period: str) -> str:
    """Returns the saving: "saves up to 1.2 ms per step"."""
    return f"saves up to {milliseconds_text(change.saving_us)} per {period}"


def operation_columns(analysis: TraceAnalysis, max_rows: int) -> list[Column]:
    """Returns the columns of the table of operations: communicators, calls, times and bandwidths."""
    rows = analysis.rows[:max_rows]

    def column(name: str, text: Callable[[OperationRow], str], weight: int = 0, *, is_number: bool = True) -> Column:
        return Column(name, tuple(map(text, rows)), is_number, weight)

    # Low weights are dropped first if the columns do not fit (`Column.weight`).
    return [
        column("communicator", lambda row: analysis.groups[row.group].label, is_number=False),
        column("ranks", lambda row: _group_size_text(analysis, row), 4),
        column("function", lambda row: row.function, is_number=False),
        column("size", lambda row: sizes_text(row.min_size_bytes, row.max_size_bytes)),
        column("calls", lambda row: number_text(row.calls_per_step)),
        column("bytes", lambda row: "" if row.bytes_per_step is None else size_text(round(row.bytes_per_step)), 2),
        column("time us", lambda row: value_text(row.time_us), 6),
        column("transfer us", lambda row: _bound_text(row, row.transfer_us, "<"), 7),
        column("share", lambda row: "" if row.share is None else f"{row.share:.1%}", 9),
        column("algbw", lambda row: _bound_text(row, row.algbw_gbps, ">"), 1),
        column("busbw", lambda row: _bound_text(row, row.busbw_gbps, ">"), 8),
        column("expected", _expected_text, 5),
        column("algorithm", _algorithm_text, 3, is_number=False),
    ]


def rank_columns(analysis: TraceAnalysis, max_rows: int) -> list[Column]:
    """Returns the columns of the table of ranks. If there are too many ranks, those with the largest delay remain."""
    largest_delay_first = sorted(analysis.ranks, key=lambda row: (-(row.late_us or 0), -(row.waiting_us or 0)))
    rows = sorted(largest_delay_first[:max_rows], key=lambda row: row.rank)

    def column(name: str, text: Callable[[RankRow], str], weight: int = 0) -> Column:
        return Column(name, tuple(map(text, rows)), weight=weight)

    return [
        column("rank", lambda row: str(row.rank)),
        Column("host", tuple(row.host for row in rows), is_number=False, weight=1),
        column("communicates ms", lambda row: value_text(row.communication_us, 1e3)),
        column("waits ms", lambda row: value_text(row.waiting_us, 1e3)),
        column("late ms", lambda row: value_text(row.late_us, 1e3)),
        column("overlap", lambda row: "" if row.overlap is None else f"{row.overlap:.0%}", 2),
        column("idle ms", lambda row: value_text(row.idle_us, 1e3), 3),
    ]


def _group_size_text(analysis: TraceAnalysis, row: OperationRow) -> str:
    """Returns number and size of the communicators: "4 x 8". Only the size if there is one communicator."""
    group = analysis.groups[row.group]
    return f"{len(group.communicators)} x {group.size}" if len(group.communicators) > 1 else str(group.size)


def sizes_text(min_bytes: int | None, max_bytes: int | None) -> str:
    """Returns a range of sizes. Empty if none is known."""
    known = [size for size in (min_bytes, max_bytes) if size is not None]
    return size_range_text(known) if known else ""


def value_text(value: float | None, unit: float = 1.0) -> str:
    """Returns a value divided by `unit`, such as 1e3 to show us as ms. Empty if the value is unknown."""
    if value is None:
        return ""
    return "<0.001" if 0 < value / unit < _MIN_NUMBER else number_text(value / unit, 3)


def _bound_text(row: OperationRow, value: float | None, sign: str) -> str:
    """Returns the value, after the sign if the value is only a bound because the transfer time is an upper bound."""
    is_bound = row.is_transfer_upper_bound and value is not None
    return f"{sign}{value_text(value)}" if is_bound else value_text(value)


def _expected_text(row: OperationRow) -> str:
    expected = row.expected_busbw_gbps
    return f"{number_text(expected.low, 3)}-{number_text(expected.high, 3)}" if expected else ""


def _algorithm_text(row: OperationRow) -> str:
    channels = f" x{row.max_channels}" if row.max_channels else ""
    return f"{', '.join(row.algorithms)}{channels}".strip()
