"""JUnit XML for build servers: a suite per table.

A suite has a case for the end of the run, a case per measurement, and a case per configuration for its verdict.
"""

import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, islice
from operator import attrgetter
from tempfile import SpooledTemporaryFile
from typing import IO, BinaryIO
from xml.etree import ElementTree

from busbw.judge import Grade, JudgedConfiguration
from busbw.logs.log import PLACEMENT_WORDS, Figure, Log, Placement, Row, Table
from busbw.logs.sequences import temporary_file
from busbw.units import count_text, size_text

SUFFIX = ".xml"
HAS_VERDICTS = True

STATES = {"failures": "failure", "errors": "error", "skipped": "skipped"}
"""Elements of a case that did not pass. The key is the attribute of a suite with the number of such cases."""
_MAX_SUITE_BYTES_IN_MEMORY = 1 << 20
"""Maximum size of a suite that is collected in memory. Larger suites are collected in a temporary file."""
_CASES_PER_BLOCK = 1000
"""Number of cases that are written together."""

_NO_VERDICTS: tuple[tuple[str, int] | None, Iterable[JudgedConfiguration]] = (None, ())
"""Table and verdicts after the last table with verdicts."""
FAILED_GRADES: tuple[Grade, ...] = ("SLOW", "BROKEN")
"""Grades that fail their case."""
_INVALID_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 does not allow, such as control characters."""


def write(logs: Sequence[Log], out: BinaryIO, verdicts: Sequence[JudgedConfiguration] = ()) -> None:
    """Writes wrong data and the verdicts SLOW and BROKEN as failures, and an incomplete run as an error.

    Unchecked measurements and the verdict UNSURE are skipped. The verdicts are in the order of logs and tables.
    """
    verdicts_by_table = groupby(verdicts, key=attrgetter("log", "table"))
    next_table, next_verdicts = next(verdicts_by_table, _NO_VERDICTS)
    totals: Counter[str] = Counter()
    # An element begins with counts of its content, so the content is first written to a file.
    with temporary_file() as suites:
        for log in logs:
            for table_number, table in enumerate(log.tables, start=1):
                has_verdicts = next_table == (log.source, table_number)
                totals += _write_suite(log, table, table_number, next_verdicts if has_verdicts else (), suites)
                if has_verdicts:
                    next_table, next_verdicts = next(verdicts_by_table, _NO_VERDICTS)
        assert next_table is None  # every verdict was written
        root = ElementTree.Element("testsuites", name="busbw")
        for attribute in ("tests", *STATES):
            root.set(attribute, str(totals[attribute]))
        out.write(b"<?xml version='1.0' encoding='utf-8'?>\n")
        _write_around(root, suites, out)


def _write_around(element: ElementTree.Element, content: IO[bytes], out: BinaryIO) -> None:
    """Writes the start tag of an element, then the content of a file, then the end tag."""
    element.text = "\n"  # separates the two tags
    beginning, end = ElementTree.tostring(element, encoding="utf-8").rsplit(b"\n", 1)
    out.write(beginning + b"\n")
    content.seek(0)
    shutil.copyfileobj(content, out)
    out.write(end + b"\n")


def _write_suite(
    log: Log, table: Table, table_number: int, verdicts: Iterable[JudgedConfiguration], out: BinaryIO
) -> Counter[str]:
    """Writes the suite of a table and returns its counts."""
    name = table.program or table.collective or table.title or "table"
    suite = ElementTree.Element("testsuite", name=xml_text(f"{log.source}#{table_number} {name}"))
    if table.start_time:
        suite.set("timestamp", xml_text(table.start_time))
    if table.hosts:
        suite.set("hostname", xml_text(table.hosts[0]))
    counts = Counter(dict.fromkeys(("tests", *STATES), 0))  # a count of zero is written, too
    time_s = 0.0
    with SpooledTemporaryFile(_MAX_SUITE_BYTES_IN_MEMORY) as cases:
        remaining = chain(_cases(table), map(_verdict_case, verdicts))
        while some_cases := list(islice(remaining, _CASES_PER_BLOCK)):
            counts["tests"] += len(some_cases)
            tags = [element.tag for case in some_cases for element in case]
            counts.update({attribute: tags.count(tag) for attribute, tag in STATES.items()})
            for case in some_cases:
                time_s += float(case.get("time", "0"))
            cases.write(_adjacent_elements(some_cases))
        for attribute, count in counts.items():
            suite.set(attribute, str(count))
        suite.set("time", f"{time_s:.9f}")
        _write_around(suite, cases, out)
    return counts


def _adjacent_elements(elements: Iterable[ElementTree.Element]) -> bytes:
    """Returns the text of elements, each on lines of its own. Writing them together takes a third of the time."""
    parent = ElementTree.Element("parent")
    for element in elements:
        ElementTree.indent(element)
        element.tail = "\n"
        parent.append(element)
    text: str = ElementTree.tostring(parent, encoding="unicode")  # faster than bytes
    return text.removeprefix("<parent>").removesuffix("</parent>").encode()


def _cases(table: Table) -> Iterator[ElementTree.Element]:
    if table.complete is not None:
        yield _end_case(table)
    for row in table.rows:
        for placement, figure in row.figures.items():
            yield _measurement_case(table, row, placement, figure)


def _end_case(table: Table) -> ElementTree.Element:
    case = ElementTree.Element("testcase", classname="run", name="completes", time="0")
    if not table.complete:
        reason = table.end_reason or table.early_end_text
        ElementTree.SubElement(case, "error", message=xml_text(reason), type="no end")
    return case


def _measurement_case(table: Table, row: Row, placement: Placement, figure: Figure) -> ElementTree.Element:
    collective = table.collective_of(row) or "unknown collective"
    class_name = ".".join(xml_text(part) for part in (collective, row.dtype, row.redop, row.variant) if part)
    name_parts = [size_text(row.size_bytes), PLACEMENT_WORDS[placement]]
    if row.root is not None:
        name_parts.append(f"root {row.root}")
    if row.group:
        name_parts.append(f"group {row.group}")
    if row.cycle:
        name_parts.append(f"cycle {row.cycle}")
    # The word of an unstated placement is empty.
    case = ElementTree.Element("testcase", classname=class_name, name=" ".join(filter(None, name_parts)))
    if figure.time_us is not None:
        case.set("time", f"{figure.time_us / 1e6:.9f}")
    if figure.wrong_elements:
        message = count_text(figure.wrong_elements, "wrong element")
        failure = ElementTree.SubElement(case, "failure", message=message, type="wrong data")
        failure.text = xml_text("\n".join(_wrong_element_lines(figure))) or None
    elif figure.check != "checked":
        ElementTree.SubElement(case, "skipped", message=f"data {figure.check.replace('_', ' ')}")
    bandwidths = {"algbw_gbps": figure.algbw_gbps, "busbw_gbps": figure.busbw_gbps}
    bandwidth_texts = [f"{name}={value:.6g}" for name, value in bandwidths.items() if value is not None]
    ElementTree.SubElement(case, "system-out").text = xml_text("\n".join([" ".join(bandwidth_texts), *figure.warnings]))
    return case


def _verdict_case(configuration: JudgedConfiguration) -> ElementTree.Element:
    verdict = configuration.verdict
    case = ElementTree.Element("testcase", classname="verdict", name=xml_text(verdict.title), time="0")
    labels = {
        "grade": verdict.grade,
        "hosts": " ".join(configuration.hosts),
        "group": str(configuration.group),
        "system": configuration.system or "",
    }
    properties = ElementTree.SubElement(case, "properties")
    for name, value in labels.items():
        if value:
            ElementTree.SubElement(properties, "property", name=name, value=xml_text(value))
    message = xml_text(f"{verdict.grade}: {'; '.join(verdict.reasons)}")
    if verdict.grade in FAILED_GRADES:
        failure = ElementTree.SubElement(case, "failure", message=message, type=verdict.grade)
        failure.text = xml_text("\n".join(f"{label}: {text}" for label, text in verdict.labeled_sentences()))
    elif verdict.grade == "UNSURE":
        ElementTree.SubElement(case, "skipped", message=message)
    ElementTree.SubElement(case, "system-out").text = xml_text(f"{message}\nagainst {verdict.yardstick}")
    return case


def _wrong_element_lines(figure: Figure) -> list[str]:
    return [
        f"rank {wrong.rank}, {wrong.place}, index {wrong.index}: expected {wrong.expected}, got {wrong.got}"
        for wrong in figure.first_wrong
    ]


def suite_document(name: str, cases: Iterable[ElementTree.Element], *, time_s: float | None = None) -> bytes:
    """Returns a document with one suite and its counts."""
    root = ElementTree.Element("testsuites", name="busbw")
    suite = ElementTree.SubElement(root, "testsuite", name=name)
    suite.extend(cases)
    counts = {attribute: len(suite.findall(f"*/{tag}")) for attribute, tag in STATES.items()}
    for attribute, count in {"tests": len(suite), **counts}.items():
        root.set(attribute, str(count))
        suite.set(attribute, str(count))
    if time_s is not None:
        suite.set("time", f"{time_s:.3f}")
    ElementTree.indent(root)
    document: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return document


def xml_text(text: str) -> str:
    """Replaces the characters that XML cannot represent."""
    return _INVALID_IN_XML.sub("?", text)
