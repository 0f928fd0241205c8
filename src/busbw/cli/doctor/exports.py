"""Result in files for other programs: JUnit XML, and the text format of Prometheus."""

import time
from collections.abc import Iterator
from xml.etree.ElementTree import Element, SubElement

from busbw.cli.options.export_options import Exports
from busbw.doctor.cost import Cost
from busbw.doctor.result import Missing, ReportedFinding, Result
from busbw.exporters.junit import suite_document, xml_text
from busbw.exporters.prometheus import Labels, metrics_text


def junit_document(result: Result) -> bytes:
    """Returns a document with one case per check and node.

    Findings are failures, and undecided checks are errors. Checks that do not apply are skipped.
    """
    return suite_document("busbw doctor", _cases(result))


def _cases(result: Result) -> Iterator[Element]:
    findings: dict[str, list[ReportedFinding]] = {}
    for finding in result.findings:
        findings.setdefault(_name(finding), []).append(finding)
    for name, group in findings.items():
        case = _case(name, "failure", message=xml_text(group[0].problem), type=group[0].severity)
        failure = case[0]
        failure.text = xml_text("\n".join(map(_finding_text, group)))
        yield case
    for missing in result.could_not_check:
        yield _case(_name(missing), "error", message=xml_text(f"could not check: {missing.missing}"), type="undecided")
    yield from map(_case, result.passed)
    for name in result.not_applicable:
        yield _case(name, "skipped", message=xml_text(result.not_applicable_reasons.get(name, "not applicable")))


def _name(part: ReportedFinding | Missing) -> str:
    return f"{part.check} ({part.node})" if isinstance(part.node, str) else part.check


def _case(name: str, outcome: str = "", **attributes: str) -> Element:
    """Returns a case with one element, which is named after the outcome. A case without an element passes."""
    case = Element("testcase", classname="doctor", name=xml_text(name))
    if outcome:
        SubElement(case, outcome, attributes)
    return case


def _finding_text(finding: ReportedFinding) -> str:
    evidence = [f"{each.source}: {each.value}" for each in finding.evidence]
    return "\n".join([finding.problem, *evidence, f"fix: {finding.fix}", f"source: {finding.source}"])


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


EXPORTS: Exports[Result] = {
    "--junit": ("Write JUnit XML to FILE, a case per check.", junit_document),
    "--prometheus": ("Write metrics to FILE, for Prometheus.", lambda result: prometheus_text(result, time.time())),
}
"""Help text and content of each file, by option."""
