"""JUnit XML for build servers: a suite per table.

It has a case per measurement, one for the end of the run, and one per configuration for its verdict.
"""

import re
from collections.abc import Sequence
from typing import BinaryIO
from xml.etree import ElementTree

from busbw.judge import Grade, JudgedConfiguration
from busbw.logs import PLACEMENT_WORDS, Figure, Log, Placement, Row, Table
from busbw.units import count_text, size_text

SUFFIX = ".xml"
HAS_VERDICTS = True

_FAILED_GRADES: tuple[Grade, ...] = ("SLOW", "BROKEN")
"""Grades that fail their case."""
_INVALID_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write(logs: Sequence[Log], out: BinaryIO, verdicts: Sequence[JudgedConfiguration] = ()) -> None:
    """Writes wrong data and the verdicts SLOW and BROKEN as failures, and an incomplete run as an error.

    Unchecked measurements and the verdict UNSURE are skipped.
    """
    root = ElementTree.Element("testsuites", name="busbw")
    verdicts_by_table: dict[tuple[str, int], list[JudgedConfiguration]] = {}
    for configuration in verdicts:
        verdicts_by_table.setdefault((configuration.log, configuration.table), []).append(configuration)
    for log in logs:
        for table_number, table in enumerate(log.tables, start=1):
            _add_suite(root, log, table, table_number, verdicts_by_table.get((log.source, table_number), []))
    for attribute in ("tests", "failures", "errors", "skipped"):
        root.set(attribute, str(sum(int(suite.get(attribute, "0")) for suite in root)))
    ElementTree.indent(root)
    ElementTree.ElementTree(root).write(out, encoding="utf-8", xml_declaration=True)
    out.write(b"\n")


def _add_suite(
    root: ElementTree.Element, log: Log, table: Table, table_number: int, verdicts: Sequence[JudgedConfiguration]
) -> None:
    name = table.program or table.collective or table.title or "table"
    suite = ElementTree.SubElement(root, "testsuite", name=_xml_text(f"{log.source}#{table_number} {name}"))
    if table.start_time:
        suite.set("timestamp", _xml_text(table.start_time))
    if table.hosts:
        suite.set("hostname", _xml_text(table.hosts[0]))
    if table.complete is not None:
        _add_end_case(suite, table)
    for row in table.rows:
        for placement, figure in row.figures.items():
            _add_measurement_case(suite, table, row, placement, figure)
    for configuration in verdicts:
        _add_verdict_case(suite, configuration)
    cases = suite.findall("testcase")
    suite.set("tests", str(len(cases)))
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(attribute, str(sum(case.find(tag) is not None for case in cases)))
    suite.set("time", f"{sum(float(case.get('time', '0')) for case in cases):.9f}")


def _add_end_case(suite: ElementTree.Element, table: Table) -> None:
    case = ElementTree.SubElement(suite, "testcase", classname="run", name="completes", time="0")
    if not table.complete:
        reason = table.end_reason or table.early_end_text
        ElementTree.SubElement(case, "error", message=_xml_text(reason), type="no end")


def _add_measurement_case(
    suite: ElementTree.Element, table: Table, row: Row, placement: Placement, figure: Figure
) -> None:
    collective = table.collective_of(row) or "unknown collective"
    class_name = ".".join(_xml_text(part) for part in (collective, row.dtype, row.redop, row.variant) if part)
    name_parts = [size_text(row.size_bytes), PLACEMENT_WORDS[placement]]
    name_parts.append(f"root {row.root}" if row.root is not None else "")
    name_parts.append(f"group {row.group}" if row.group else "")
    name_parts.append(f"cycle {row.cycle}" if row.cycle else "")
    case = ElementTree.SubElement(suite, "testcase", classname=class_name, name=" ".join(filter(None, name_parts)))
    if figure.time_us is not None:
        case.set("time", f"{figure.time_us / 1e6:.9f}")
    if figure.wrong_elements:
        message = f"{count_text(figure.wrong_elements, 'wrong element')}"
        failure = ElementTree.SubElement(case, "failure", message=message, type="wrong data")
        failure.text = _xml_text("\n".join(_wrong_element_lines(figure))) or None
    elif figure.check != "checked":
        ElementTree.SubElement(case, "skipped", message=f"data {figure.check.replace('_', ' ')}")
    bandwidths = {"algbw_gbps": figure.algbw_gbps, "busbw_gbps": figure.busbw_gbps}
    bandwidth_texts = [f"{name}={value:.6g}" for name, value in bandwidths.items() if value is not None]
    ElementTree.SubElement(case, "system-out").text = _xml_text(
        "\n".join([" ".join(bandwidth_texts), *figure.warnings])
    )


def _add_verdict_case(suite: ElementTree.Element, configuration: JudgedConfiguration) -> None:
    verdict = configuration.verdict
    case = ElementTree.SubElement(suite, "testcase", classname="verdict", name=_xml_text(verdict.title), time="0")
    labels = {
        "grade": verdict.grade,
        "hosts": " ".join(configuration.hosts),
        "group": str(configuration.group),
        "system": configuration.system or "",
    }
    properties = ElementTree.SubElement(case, "properties")
    for name, value in labels.items():
        if value:
            ElementTree.SubElement(properties, "property", name=name, value=_xml_text(value))
    message = _xml_text(f"{verdict.grade}: {'; '.join(verdict.reasons)}")
    if verdict.grade in _FAILED_GRADES:
        failure = ElementTree.SubElement(case, "failure", message=message, type=verdict.grade)
        failure.text = _xml_text("\n".join(f"{label}: {text}" for label, text in verdict.labeled_sentences()))
    elif verdict.grade == "UNSURE":
        ElementTree.SubElement(case, "skipped", message=message)
    ElementTree.SubElement(case, "system-out").text = _xml_text(f"{message}\nagainst {verdict.yardstick}")


def _wrong_element_lines(figure: Figure) -> list[str]:
    return [
        f"rank {wrong.rank}, {wrong.place}, index {wrong.index}: expected {wrong.expected}, got {wrong.got}"
        for wrong in figure.first_wrong
    ]


def _xml_text(text: str) -> str:
    """Replaces the characters that XML cannot represent."""
    return _INVALID_IN_XML.sub("?", text)
