"""Result as JUnit XML: a case per check, and per node if there are several."""

from collections.abc import Iterator
from xml.etree.ElementTree import Element, SubElement

from busbw.doctor.result import Missing, ReportedFinding, Result
from busbw.exporters.junit import suite_document, xml_text


def junit_document(result: Result) -> bytes:
    """Returns the document. Findings fail their case, undecided checks are errors, others pass or are skipped."""
    return suite_document("busbw doctor", _cases(result))


def _cases(result: Result) -> Iterator[Element]:
    cases: dict[tuple[str, str], Element] = {}
    for finding in result.findings:
        lines = [finding.problem, *(f"{each.source}: {each.value}" for each in finding.evidence)]
        text = "\n".join([*lines, f"fix: {finding.fix}", f"source: {finding.source}"])
        failure = SubElement(_case(cases, finding), "failure", message=xml_text(finding.problem), type=finding.severity)
        failure.text = xml_text(text)
    for missing in result.could_not_check:
        SubElement(_case(cases, missing), "error", message=xml_text(f"missing {missing.missing}"), type="undecided")
    yield from cases.values()
    for name in result.passed:
        yield Element("testcase", classname="doctor", name=name)
    for name in result.not_applicable:
        case = Element("testcase", classname="doctor", name=name)
        SubElement(case, "skipped", message="not applicable")
        yield case


def _case(cases: dict[tuple[str, str], Element], of: ReportedFinding | Missing) -> Element:
    node = of.node if isinstance(of.node, str) else ""
    name = f"{of.check} ({node})" if node else of.check
    return cases.setdefault((node, of.check), Element("testcase", classname="doctor", name=xml_text(name)))
