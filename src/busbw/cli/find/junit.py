"""Result of a search as JUnit XML: a case per kind of part, and one for the end of the search."""

from collections.abc import Iterator
from xml.etree.ElementTree import Element, SubElement

from busbw.cli.find.summary import FindSummary, power_sentence
from busbw.exporters.junit import suite_document, xml_text
from busbw.find.parts import KINDS


def junit_document(summary: FindSummary) -> bytes:
    """Returns the document. Slow parts fail their case, undecided ones are errors, and unmeasured kinds are skipped."""
    return suite_document("busbw find", _cases(summary), time_s=summary.measured_s)


def _cases(summary: FindSummary) -> Iterator[Element]:
    end = Element("testcase", classname="find", name="completes")
    if not summary.complete:
        SubElement(end, "error", message=f"the search ended early, after round {summary.rounds}", type="no end")
    yield end
    power_by_kind = {power.kind: power for power in summary.power}
    for kind in KINDS:
        slow = [finding.says for finding in summary.findings if finding.kind == kind]
        undecided = [one.says for one in summary.undecided if kind in {part.kind for part in one.between}]
        case = _case(kind, slow, undecided)
        if kind in power_by_kind:
            is_accused = bool(slow or undecided)
            sentence = power_sentence(power_by_kind[kind], is_accused=is_accused, unit=summary.unit)
            SubElement(case, "system-out").text = sentence
        elif not slow and not undecided:
            SubElement(case, "skipped", message="not measured")
        yield case
    if network := [one.says for one in summary.undecided if not one.between]:
        yield _case("network", [], network)


def _case(name: str, slow: list[str], undecided: list[str]) -> Element:
    case = Element("testcase", classname="find", name=name)
    if slow or undecided:
        sentences = list(map(xml_text, [*slow, *undecided]))
        tag, result = ("failure", "SLOW") if slow else ("error", "UNDECIDED")
        SubElement(case, tag, message=sentences[0], type=result).text = "\n".join(sentences)
    return case
