"""Helpers of the report's tests: pages from logs, and an HTML reader that is independent of the templates."""

import xml.etree.ElementTree as ET
from html.parser import HTMLParser

from busbw.logs.log import Log
from busbw.report import Page, ReportInput, build

VOID_TAGS = {"meta", "link", "br", "hr", "img", "input"}


def subject(log: Log) -> ReportInput:
    """Returns the input of a report for a log without expectations."""
    return ReportInput(log, (None,) * len(log.tables))


def page_of(*logs: Log) -> Page:
    return build([subject(log) for log in logs])


class Parsed(HTMLParser):
    """Elements of a page with their text. Pages with elements that are not closed in order are rejected."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text: list[str] = []
        self._open_tags: list[str] = []
        self.feed(html)
        self.close()
        assert self._open_tags == [], self._open_tags

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID_TAGS:
            self._open_tags.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self._open_tags.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self._open_tags or self._open_tags[-1] not in {"style", "script"}:
            self.text.append(data)

    def named(self, tag: str) -> list[dict[str, str]]:
        """Returns the attributes of all elements with this tag."""
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def words(self) -> str:
        """Visible text, with single blanks."""
        return " ".join(" ".join(self.text).split())


def svg_root(svg: str) -> ET.Element:
    """Parses an SVG drawing as XML."""
    return ET.fromstring(svg)


def numbers_of(path: str) -> list[tuple[float, float]]:
    """Returns the points of a path that consists of absolute moves and lines."""
    points = path.strip("Mz").replace("M", "L").split("L")
    return [(float(x), float(y)) for x, y in (point.split() for point in points)]
