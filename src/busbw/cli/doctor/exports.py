"""Result in files for other programs: JUnit XML, and the text format of Prometheus."""

import time
from collections import Counter
from collections.abc import Iterator
from xml.etree.ElementTree import Element, SubElement

from msgspec import UNSET

from busbw.cli.options.export_options import Exports
from busbw.doctor.result import Missing, ReportedFinding, Result
from busbw.exporters.junit import suite_document, xml_text
from busbw.exporters.prometheus import Labels, metrics_text


def junit_document(result: Result) -> bytes:
    """Returns a document with a case for each check.

    Findings are failures, and undecided checks are errors. Checks that do not apply are skipped. If several nodes were
    examined, failures and errors have a case for each node, and the other checks one case for all nodes.
    """
    return suite_document("busbw doctor", _cases(result))


def _cases(result: Result) -> Iterator[Element]:
    findings_by_case: dict[str, list[ReportedFinding]] = {}
    for finding in result.findings:
        findings_by_case.setdefault(_case_name(finding), []).append(finding)
    for name, findings in findings_by_case.items():
        case = _passed_case(name)
        worst = findings[0]  # findings are sorted by severity
        failure = SubElement(case, "failure", message=xml_text(worst.problem), type=worst.severity)
        failure.text = xml_text("\n".join(map(_finding_text, findings)))
        yield case
    for missing in result.could_not_check:
        case = _passed_case(_case_name(missing))
        SubElement(case, "error", message=xml_text(f"could not check: {missing.missing}"), type="undecided")
        yield case
    for name in result.passed:
        yield _passed_case(name)
    for name in result.not_applicable:
        case = _passed_case(name)
        SubElement(case, "skipped", message=xml_text(result.not_applicable_reasons.get(name, "not applicable")))
        yield case


def _case_name(entry: ReportedFinding | Missing) -> str:
    return entry.check if entry.node is UNSET else f"{entry.check} ({entry.node})"


def _passed_case(name: str) -> Element:
    """Returns a case without an element, which JUnit counts as passed. An added element states another outcome."""
    return Element("testcase", classname="doctor", name=xml_text(name))


def _finding_text(finding: ReportedFinding) -> str:
    evidence_lines = [f"{evidence.source}: {evidence.value}" for evidence in finding.evidence]
    return "\n".join([finding.problem, *evidence_lines, f"fix: {finding.fix}", f"source: {finding.source}"])


def prometheus_text(result: Result, end_s: float) -> bytes:
    """Returns the samples of an examination that ended at `end_s`, in seconds since 1970."""
    costs: dict[Labels, float | None] = {
        # Findings are sorted by cost. Of findings with the same labels, the costliest remains.
        _labels(finding): finding.cost.lost_share
        for finding in reversed(result.findings)
        if finding.cost is not UNSET
    }
    findings: dict[Labels, float | None] = {**Counter(map(_labels, result.findings))}
    counts: dict[Labels, float | None] = {
        (("result", "finding"),): len({finding.check for finding in result.findings}),
        (("result", "passed"),): len(result.passed),
        (("result", "not_applicable"),): len(result.not_applicable),
        (("result", "could_not_check"),): len({missing.check for missing in result.could_not_check}),
    }
    return metrics_text(
        {
            "busbw_doctor_finding": ("Number of findings of a check.", findings),
            "busbw_doctor_cost_ratio": ("Share of the bandwidth that a finding takes, from 0 to 1.", costs),
            "busbw_doctor_checks": ("Number of checks by their result.", counts),
            "busbw_doctor_end_time_seconds": ("End of the examination in seconds since 1970.", {(): end_s}),
        }
    )


def _labels(finding: ReportedFinding) -> Labels:
    values = {name: getattr(finding, name) for name in ("check", "severity", "node", "subject")}
    return tuple((name, value) for name, value in values.items() if value is not UNSET)


EXPORTS: Exports[Result] = {
    "--junit": ("Write JUnit XML to FILE, a case per check.", junit_document),
    "--prometheus": ("Write metrics to FILE, for Prometheus.", lambda result: prometheus_text(result, time.time())),
}
"""Help text and content of each file, by option."""
