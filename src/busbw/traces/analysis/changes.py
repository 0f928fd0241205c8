"""Changes that would shorten the step, with their savings.

A trace does not contain computation. So each saving assumes that the job waits for the communication in question.
"""

from collections.abc import Iterator, Mapping, Sequence

from busbw.expect import Estimate
from busbw.fastpath.table import NCCL, default_text, parse
from busbw.system import System
from busbw.traces.analysis.types import Change, CommunicatorGroup, Finding, OperationRow, TraceAnalysis
from busbw.units import number_text, size_range_text, size_text

_MAX_CHANGES = 3
_FAST_PATH_TABLES = {"hopper": "sm_90"}
"""Tables of the GPU architectures for which the speed of the fast path was measured."""
_FAST_PATH_TIME_RATIO, _MAX_FAST_PATH_BYTES = 0.45, 1 << 16
"""Upper bound of the fast path's time as a fraction of NCCL's time, and the maximum size for which the bound holds.

Measured with 4 x H200 in CUDA graphs (bench/results/h200-x4-fastpath.md)."""


def list_changes(
    analysis: TraceAnalysis, estimates: Mapping[int, Estimate], system: System | None
) -> tuple[Change, ...]:
    """Returns the changes that save most, and more than the noise of the step time.

    Args:
        analysis: Analysis without changes.
        estimates: Expectations by the index of the row.
        system: System of the job. None if unknown.
    """
    rows, groups = analysis.rows, analysis.groups
    noise_us = analysis.steps.noise_us if analysis.steps else None
    changes = [
        *_changes_of_findings(analysis.findings),
        *_changes_to_expected(rows, estimates, groups),
        *_changes_to_fast_path(rows, groups, system),
    ]
    above_noise = [change for change in changes if change.saving_us > (noise_us or 0)]
    return tuple(sorted(above_noise, key=lambda change: -change.saving_us)[:_MAX_CHANGES])


def _changes_of_findings(findings: Sequence[Finding]) -> Iterator[Change]:
    for one in findings:
        assumption = "the other ranks compute nothing while they wait"
        if one.kind == "slow communicator":
            assumption = "it becomes as fast as the similar ones, and the job waits for it"
        yield Change(text=one.remedy, saving_us=one.cost_us, basis="measured", assumption=assumption)


def _changes_to_expected(
    rows: Sequence[OperationRow], estimates: Mapping[int, Estimate], groups: Sequence[CommunicatorGroup]
) -> Iterator[Change]:
    for index, estimate in estimates.items():
        row, group = rows[index], groups[rows[index].group]
        if row.busbw_gbps is None or row.transfer_us is None or row.is_transfer_upper_bound:
            continue
        if row.busbw_gbps < estimate.busbw_gbps.low:
            saving_us = (row.transfer_us - estimate.time_us.typical) * row.calls_per_step
            busbw = f"{number_text(row.busbw_gbps, 3)} to {number_text(estimate.busbw_gbps.typical, 3)} GB/s"
            operation = f"{row.function} of {size_text(estimate.size_bytes)}"
            yield Change(
                text=f"bring {operation} of {group.label} from {busbw}, the busbw of a healthy system",
                saving_us=_bounded(saving_us, [group]),
                basis="predicted",
                assumption=f"{estimate.route} is possible, and the job waits for the operation",
            )


def _changes_to_fast_path(
    rows: Sequence[OperationRow], groups: Sequence[CommunicatorGroup], system: System | None
) -> Iterator[Change]:
    table = _FAST_PATH_TABLES.get(system.generation, "") if system else ""
    lines = [line for line in parse(default_text(table), table) if not line.in_windows]

    def can_use_fast_path(row: OperationRow) -> bool:
        size, group = row.max_size_bytes, groups[row.group]
        is_within_node = group.nodes == 1
        if size is None or size > _MAX_FAST_PATH_BYTES or not is_within_node:
            return False
        for line in lines:
            is_for_ranks = line.min_ranks <= group.size <= line.max_ranks
            if line.collective == row.function and size <= line.up_to_bytes and is_for_ranks:
                return line.method != NCCL  # the first line that fits decides
        return False

    timed = [row for row in rows if row.transfer_us is not None and not row.is_transfer_upper_bound]
    fast = [row for row in timed if can_use_fast_path(row)]
    if fast:
        saving_us = sum((row.transfer_us or 0) * row.calls_per_step for row in fast) * (1 - _FAST_PATH_TIME_RATIO)
        calls = number_text(sum(row.calls_per_step for row in fast))
        sizes = size_range_text(row.max_size_bytes or 0 for row in fast)
        yield Change(
            text=f"run {calls} small operations ({sizes}) on the fast path (busbw fastpath)",
            saving_us=_bounded(saving_us, [groups[index] for index in {row.group for row in fast}]),
            basis="predicted",
            assumption=f"they take {_FAST_PATH_TIME_RATIO:g} of NCCL's time, as measured on 4 x H200, "
            "and the job waits for them",
        )


def _bounded(saving_us: float, groups: Sequence[CommunicatorGroup]) -> float:
    """Limits a saving to the time in which only these groups communicate, because overlapped time saves nothing."""
    return min(saving_us, sum(group.alone_us or 0 for group in groups))
