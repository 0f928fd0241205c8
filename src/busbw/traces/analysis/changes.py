"""Changes that would shorten the step, with their savings.

A trace does not contain computation. So each saving assumes that the job waits for the communication in question.
"""

from collections.abc import Iterator, Mapping, Sequence

from busbw.expect import Estimate
from busbw.traces.analysis.types import Change, CommunicatorGroup, Finding, OperationRow, TraceAnalysis
from busbw.units import number_text, size_text

_MAX_CHANGES = 3
_ASSUMPTIONS = {
    "late rank": "the other ranks compute nothing while they wait",
    "slow communicator": "it becomes as fast as the similar ones, and the job waits for it",
}
"""Assumption of the saving, by the kind of the finding."""


def list_changes(analysis: TraceAnalysis, estimates: Mapping[int, Estimate]) -> tuple[Change, ...]:
    """Returns the changes that save most, and more than the noise of the step time.

    `analysis` has no changes yet. `estimates`: expectations by the index of the row.
    """
    noise_us = analysis.steps.noise_us if analysis.steps else None
    changes = [
        *_changes_of_findings(analysis.findings),
        *_changes_to_expected(analysis.rows, estimates, analysis.groups),
    ]
    above_noise = [change for change in changes if change.saving_us > (noise_us or 0)]
    return tuple(sorted(above_noise, key=lambda change: -change.saving_us)[:_MAX_CHANGES])


def _changes_of_findings(findings: Sequence[Finding]) -> Iterator[Change]:
    for finding in findings:
        assumption = _ASSUMPTIONS[finding.kind]
        yield Change(text=finding.remedy, saving_us=finding.cost_us, basis="measured", assumption=assumption)


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
                saving_us=min(saving_us, group.alone_us or 0),  # overlapped time saves nothing
                basis="predicted",
                # For example: Ring is possible, and the job waits for the operation.
                assumption=f"{estimate.route} is possible, and the job waits for the operation",
            )
