"""Result of a search in the text format of Prometheus. An unknown figure has no sample."""

import math

from busbw.cli.find.summary import FindSummary
from busbw.exporters.prometheus import Labels, metrics_text
from busbw.find.findings import Finding
from busbw.find.naming import NamedPart


def prometheus_text(summary: FindSummary, end_s: float) -> bytes:
    """Returns the samples of a search that ended at `end_s`, in seconds since 1970."""
    slowdowns = {_labels(one): math.inf if one.dead else one.slowdown for one in summary.findings}
    metrics: dict[str, tuple[str, dict[Labels, float | None]]] = {
        "slowdown": ("Time of a slow part relative to its peers, infinite if it transfers nothing.", slowdowns),
        "undecided": ("Groups of parts that could not be told apart.", {(): len(summary.undecided)}),
        "healthy": ("1 if no part is slow, otherwise 0.", {(): float(summary.healthy)}),
        "complete": ("1 if the search completed, otherwise 0.", {(): float(summary.complete)}),
        "rounds": ("Measured rounds.", {(): summary.rounds}),
        "measured_seconds": ("Duration of the measured rounds.", {(): summary.measured_s}),
        "end_time_seconds": ("End of the search in seconds since 1970.", {(): end_s}),
    }
    return metrics_text({f"busbw_find_{name}": metric for name, metric in metrics.items()})


def _labels(finding: Finding) -> Labels:
    values = {name: getattr(finding, name) for name in NamedPart.__struct_fields__}
    return tuple(
        (name, " ".join(map(str, value)) if isinstance(value, tuple) else str(value))
        for name, value in values.items()
        if value is not None
    )
