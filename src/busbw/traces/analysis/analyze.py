"""Analyzes a trace: steps, operations, ranks, findings and changes."""

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from busbw.expect import Estimate
from busbw.system import System
from busbw.traces.analysis.calls import CallTable, RankCalls
from busbw.traces.analysis.chance import DelayChances
from busbw.traces.analysis.changes import list_changes
from busbw.traces.analysis.expected import estimate_row, nodes_of_ranks
from busbw.traces.analysis.findings import find_late_ranks, find_slow_communicators
from busbw.traces.analysis.groups import ranks_text
from busbw.traces.analysis.prepare import PreparedTrace
from busbw.traces.analysis.ranks import measure_ranks
from busbw.traces.analysis.rows import summarize_rows
from busbw.traces.analysis.transfers import measure_arrivals
from busbw.traces.analysis.types import CommunicatorGroup, StepTimes, TraceAnalysis
from busbw.traces.format import TRANSFERS, DeviceClock, Flag
from busbw.traces.model import RankTrace, Trace
from busbw.traces.steps import count_repetitions
from busbw.units import count_text

_MIN_NOISE_STEPS = 4
"""Minimum number of steps from which the noise of their duration is estimated."""


def analyze(prepared: PreparedTrace, *, system: System | None = None) -> TraceAnalysis:
    """Analyzes a trace. `system`: of the job, for expectations; None if unknown."""
    trace, clocks, calls, groups = prepared.trace, prepared.clocks, prepared.calls, prepared.groups
    duration_us = _duration_us(calls)
    clock_error_ns = 0.0 if clocks.error_ns is None else clocks.error_ns
    rows = list(summarize_rows(prepared, duration_us))
    arrivals = measure_arrivals(prepared.matched, calls, clock_error_ns=clock_error_ns)
    ranks, alone_us = measure_ranks(calls, groups, arrivals, duration_us)
    nodes = nodes_of_ranks(trace, system)
    groups = tuple(
        _complete_group(group, group_alone_us, trace, nodes)
        for group, group_alone_us in zip(groups, alone_us, strict=True)
    )
    estimates: dict[int, Estimate] = {}  # by index of the row
    if system:
        for index, row in enumerate(rows):
            if estimate := estimate_row(row, groups[row.group], trace, system, nodes):
                estimates[index] = estimate
    for index, estimate in estimates.items():
        rows[index] = msgspec.structs.replace(
            rows[index], expected_busbw_gbps=estimate.busbw_gbps, expected_us=estimate.time_us.typical
        )
    findings = [
        *find_late_ranks(
            ranks,
            duration_us,
            prepared.period,
            clock_error_ns / 1e3,
            chance_of=DelayChances(arrivals.late_in_sections_ns, arrivals.communicators).of_rank,
        ),
        *find_slow_communicators(prepared, rows, duration_us),
    ]
    analysis = TraceAnalysis(
        name=trace.name,
        size=trace.size,
        recorded_ranks=len(trace.ranks),
        hosts=_distinct(rank.host for rank in trace.ranks),
        libraries=_distinct(f"NCCL {rank.nccl_version}" for rank in trace.ranks if rank.nccl_version),
        producers=_distinct(rank.producer for rank in trace.ranks),
        operations=sum(len(rank.operations) for rank in trace.ranks),
        period=prepared.period,
        steps=_step_times(calls),
        duration_us=duration_us,
        clock_error_us=None if clocks.error_ns is None else clocks.error_ns / 1e3,
        clock_basis=clocks.basis,
        groups=groups,
        rows=tuple(rows),
        ranks=ranks,
        findings=tuple(sorted(findings, key=lambda finding: -finding.cost_us)),
        problems=prepared.problems,
        notes=tuple(_notes(prepared, system, has_estimates=bool(estimates))),
    )
    # `estimates` has the indices of the unsorted rows.
    return msgspec.structs.replace(
        analysis,
        changes=list_changes(analysis, estimates),
        rows=tuple(sorted(rows, key=lambda row: (-(row.share or 0), -(row.bytes_per_step or 0)))),
    )


def _distinct(texts: Iterator[str]) -> tuple[str, ...]:
    """Returns the texts without empty and repeated ones."""
    return tuple(dict.fromkeys(filter(None, texts)))


def _duration_us(calls: CallTable) -> float | None:
    """Returns the mean duration of a step over all ranks. Without steps: of the recording. None if unknown."""
    durations = np.concatenate([rank.step_durations_ns for rank in calls.ranks])
    if np.isfinite(durations).any():
        return float(np.nanmean(durations)) / 1e3
    if any(rank.steps for rank in calls.ranks):
        return None
    times = [(calls.start_ns[rank.span], calls.end_ns[rank.span]) for rank in calls.ranks]
    recordings_ns = [float(np.nanmax(ends) - np.nanmin(starts)) for starts, ends in times if not np.isnan(starts).all()]
    return float(np.mean(recordings_ns)) / 1e3 if recordings_ns else None


def _step_times(calls: CallTable) -> StepTimes | None:
    """Returns the steps of the first rank with complete steps. None if no rank has complete steps."""
    for rank in calls.ranks:
        if not rank.steps or not rank.step_count:
            continue
        known_us = rank.step_durations_ns[np.isfinite(rank.step_durations_ns)] / 1e3
        p10_us = median_us = p90_us = noise_us = None
        if len(known_us):
            p10_us, p25_us, median_us, p75_us, p90_us = np.percentile(known_us, [10, 25, 50, 75, 90]).tolist()
            noise_us = (p75_us - p25_us) / 2 if len(known_us) >= _MIN_NOISE_STEPS else None
        return StepTimes(
            count=len(rank.steps.starts),
            analyzed=rank.step_count,
            operations_per_step=rank.steps.period,
            coverage=rank.steps.coverage,
            median_us=median_us,
            p10_us=p10_us,
            p90_us=p90_us,
            noise_us=noise_us,
        )
    return None


def _complete_group(
    group: CommunicatorGroup, alone_us: float, trace: Trace, nodes: dict[int | None, str]
) -> CommunicatorGroup:
    """Adds the number of nodes of the first communicator, and the time in which only this group communicates."""
    first_nodes = [nodes.get(rank) for rank in trace.communicators[group.communicators[0]].members]
    are_nodes_known = bool(first_nodes) and None not in first_nodes
    return msgspec.structs.replace(
        group,
        nodes=len(set(first_nodes)) if are_nodes_known else None,
        alone_us=None if np.isnan(alone_us) else float(alone_us),
    )


def _notes(prepared: PreparedTrace, system: System | None, *, has_estimates: bool) -> Iterator[str]:
    """Yields a sentence for each thing that the analysis cannot know."""
    trace, calls = prepared.trace, prepared.calls
    with_job_steps = [rank for rank in calls.ranks if rank.has_job_steps]
    left_out = [rank.trace.rank for rank in calls.ranks if not rank.has_job_steps]
    if left_out:
        ranks = f"{'rank' if len(left_out) == 1 else 'ranks'} {ranks_text(left_out)}"
        yield f"values per step are without {ranks}: the steps of the other ranks were not found there"
    repetitions = next(
        (count_repetitions(rank.trace.operations, rank.steps) for rank in with_job_steps if rank.steps), 1
    )
    if repetitions > 1:
        yield (
            f"a step repeats one sequence {repetitions} times, with a small operation once: "
            f"if each repetition is a step of the job, divide the values per step by {repetitions}"
        )
    captured = sum(int(((rank.operations["flags"] & Flag.CAPTURED) != 0).sum()) for rank in trace.ranks)
    if captured:
        yield f"{count_text(captured, 'operation')} captured in CUDA graphs did not run at the call and do not count"
    timed, total = int((~np.isnan(calls.duration_ns)).sum()), len(calls.duration_ns)
    if timed:
        yield from _time_notes(prepared, with_job_steps, system, timed / total, has_estimates=has_estimates)
    elif not trace.is_modelled:
        yield "the recording has no device times: durations, busbw and late ranks are unknown"


def _has_separate_transfers(rank: RankTrace) -> bool:
    """Returns true if durations of sends or receives are known, and neither their times nor their groups."""
    is_transfer = np.isin(rank.operations["function"], TRANSFERS)
    is_separate = is_transfer & (rank.operations["group"] == 0)
    return rank.device_clock == DeviceClock.DURATION and bool(is_separate.any())


def _time_notes(
    prepared: PreparedTrace,
    with_job_steps: Sequence[RankCalls],
    system: System | None,
    timed_fraction: float,
    *,
    has_estimates: bool,
) -> Iterator[str]:
    """Yields the notes on a trace with device times. `timed_fraction`: fraction of the calls with device times."""
    trace, calls = prepared.trace, prepared.calls
    if timed_fraction < 1:
        yield f"{1 - timed_fraction:.1%} of the operations have no device times; times are those of the others"
    if any(_has_separate_transfers(rank) for rank in trace.ranks):
        yield (
            "sends and receives without a group count one after another: if they ran at the same time, "
            "their time and share are too large"
        )
    recorded = {rank.rank for rank in trace.ranks}
    partial = sum(not recorded.issuperset(communicator.members) for communicator in trace.communicators)
    if partial:
        yield (
            f"{partial} of {count_text(len(trace.communicators), 'communicator')} have ranks that were not recorded: "
            "their transfer times are upper bounds, and their late ranks are unknown"
        )
    unaligned = [rank.trace.rank for rank in calls.ranks if not rank.is_aligned]
    if unaligned:
        yield f"clocks are not aligned: late ranks of communicators with rank {ranks_text(unaligned)} are unknown"
    if system is None:
        yield "busbw is not compared with an expectation, because a trace does not name the system: give --system"
    elif not has_estimates:
        yield f"no operation has an expectation on {system.name}"
    if system and not any(rank.host for rank in trace.ranks):
        yield f"expectations assume {system.ranks_per_node} consecutive ranks per node, because no host is known"
    rank_by_step_count = {len(rank.steps.starts) if rank.steps else 0: rank.trace.rank for rank in with_job_steps}
    if len(rank_by_step_count) > 1:
        texts = ", ".join(f"{count} on rank {rank}" for count, rank in sorted(rank_by_step_count.items()))
        yield f"ranks differ in their number of steps: {texts}"
