"""Result as JUnit XML: a case per check, and per node if there are several."""

from collections.abc import Iterator
from xml.etree.ElementTree import Element, SubElement

from busbw.doctor.result import Missing, ReportedFinding, Result
from busbw.exporters.junit import suite_document, xml_text


def junit_document(result: Result) -> bytes:
    """Returns the document. Findings fail their case, undecided checks are errors, others pass or are skipped."""
    return suite_document("busbw doctor", _cases(result))


def _cases(result: Result) -> Iterator[Element]:
    findings: dict[str, list[ReportedFinding]] = {}
    for finding in result.findings:
        findings.setdefault(_name(finding), []).append(finding)
    for name, group in findings.items():
        case = _case(name)
        failure = SubElement(case, "failure", message=xml_text(group[0].problem), type=group[0].severity)
        failure.text = xml_text("\n".join(line for each in group for line in _lines(each)))
        yield case
    for missing in result.could_not_check:
        case = _case(_name(missing))
        SubElement(case, "error", message=xml_text(f"missing {missing.missing}"), type="undecided")
        yield case
    yield from map(_case, result.passed)
    for name in result.not_applicable:
        case = _case(name)
        SubElement(case, "skipped", message="not applicable")
        yield case


def _name(of: ReportedFinding | Missing) -> str:
    return f"{of.check} ({of.node})" if isinstance(of.node, str) else of.check


def _case(name: str) -> Element:
    return Element("testcase", classname="doctor", name=xml_text(name))


def _lines(finding: ReportedFinding) -> list[str]:
    evidence = [f"{each.source}: {each.value}" for each in finding.evidence]
    return [finding.problem, *evidence, f"fix: {finding.fix}", f"source: {finding.source}"]
