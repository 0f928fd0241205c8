"""Result of a search in files for other programs: JUnit XML, the text format of Prometheus, and host names."""

import math
import time
from collections.abc import Iterator
from xml.etree.ElementTree import Element, SubElement

from busbw.cli.find.summary import FindSummary, power_sentence
from busbw.cli.options.export_options import Exports
from busbw.exporters.junit import suite_document, xml_text
from busbw.exporters.prometheus import Labels, metrics_text
from busbw.find.findings import Finding
from busbw.find.naming import NamedPart
from busbw.find.parts import KINDS


def junit_document(summary: FindSummary) -> bytes:
    """Returns the document. Slow parts fail their case, undecided ones are errors, and unmeasured kinds are skipped."""
    return suite_document("busbw find", _cases(summary), time_s=summary.measured_s)


def _cases(summary: FindSummary) -> Iterator[Element]:
    end = Element("testcase", classname="find", name="completes")
    if not summary.complete:
        SubElement(end, "error", message=f"the search ended early, after round {summary.rounds}", type="no end")
    yield end
    # Power: the chance that the search finds a slow part of this kind.
    power_by_kind = {power.kind: power for power in summary.power}
    for kind in KINDS:
        slow = [finding.says for finding in summary.findings if finding.kind == kind]
        # `between` has the parts that may be slow.
        undecided = [
            question.says for question in summary.undecided if any(part.kind == kind for part in question.between)
        ]
        case = _case(kind, slow, undecided)
        if kind in power_by_kind:
            has_suspects = bool(slow or undecided)
            sentence = power_sentence(power_by_kind[kind], has_suspects=has_suspects, unit=summary.unit)
            SubElement(case, "system-out").text = sentence
        elif not slow and not undecided:
            SubElement(case, "skipped", message="not measured")
        yield case
    # Without candidates: the typical flow is slow, or too few parts were measured for a comparison.
    if network := [question.says for question in summary.undecided if not question.between]:
        yield _case("network", [], network)


def _case(name: str, slow: list[str], undecided: list[str]) -> Element:
    case = Element("testcase", classname="find", name=name)
    if slow or undecided:
        sentences = list(map(xml_text, [*slow, *undecided]))
        tag, result = ("failure", "SLOW") if slow else ("error", "UNDECIDED")
        SubElement(case, tag, message=sentences[0], type=result).text = "\n".join(sentences)
    return case


def prometheus_text(summary: FindSummary, end_s: float) -> bytes:
    """Returns the samples of a search that ended at `end_s`, in seconds since 1970. An unknown figure has no sample."""
    slowdowns = {_labels(finding): math.inf if finding.dead else finding.slowdown for finding in summary.findings}
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
    return tuple((name, _label_text(value)) for name, value in values.items() if value is not None)


def _label_text(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


EXPORTS: Exports[FindSummary] = {
    "--write-hostfile": (
        "Write the nodes without a finding to FILE, one per line.",
        lambda summary: "".join(f"{name}\n" for name in summary.unsuspected_nodes).encode(),
    ),
    "--junit": ("Write JUnit XML to FILE, a case per kind of part.", junit_document),
    "--prometheus": ("Write metrics to FILE, for Prometheus.", lambda summary: prometheus_text(summary, time.time())),
}
"""Help text and content of each file."""
