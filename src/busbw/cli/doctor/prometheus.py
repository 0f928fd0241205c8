"""Result in the text format of Prometheus, for the textfile collector of the node exporter."""

from busbw.doctor.cost import Cost
from busbw.doctor.result import ReportedFinding, Result
from busbw.exporters.prometheus import Labels, metrics_text


def prometheus_text(result: Result, end_s: float) -> bytes:
    """Returns the samples of an examination that ended at `end_s`, in seconds since 1970."""
    costs: dict[Labels, float | None] = {
        _labels(finding): finding.cost.lost_share for finding in result.findings if isinstance(finding.cost, Cost)
    }
    counts: dict[Labels, float | None] = {
        (("result", "finding"),): len({finding.check for finding in result.findings}),
        (("result", "passed"),): len(result.passed),
        (("result", "not_applicable"),): len(result.not_applicable),
        (("result", "could_not_check"),): len({missing.check for missing in result.could_not_check}),
    }
    return metrics_text(
        {
            "busbw_doctor_finding": ("1 for each finding.", {_labels(finding): 1 for finding in result.findings}),
            "busbw_doctor_cost_ratio": ("Share of the bandwidth that a finding takes, from 0 to 1.", costs),
            "busbw_doctor_checks": ("Number of checks by their result.", counts),
            "busbw_doctor_end_time_seconds": ("End of the examination in seconds since 1970.", {(): end_s}),
        }
    )


def _labels(finding: ReportedFinding) -> Labels:
    values = {name: getattr(finding, name) for name in ("check", "severity", "node", "subject")}
    return tuple((name, value) for name, value in values.items() if isinstance(value, str))
