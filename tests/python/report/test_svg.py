"""Tests of SVG elements: text with any characters stays text."""

import xml.etree.ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from busbw.report.svg import clean, element, group


@given(st.text(), st.text())
def test_text_and_attributes_stay_what_they_are(inner: str, attribute: str) -> None:
    root = ET.fromstring(element("text", inner, aria_label=attribute))
    assert (root.tag, len(root), root.text or "") == ("text", 0, clean(inner))
    assert root.attrib == {"aria-label": clean(attribute)}


@given(st.text())
def test_clean_text_controls_nothing_and_keeps_the_rest(text: str) -> None:
    cleaned = clean(text)
    assert len(cleaned) == len(text)
    assert clean(cleaned) == cleaned
    cleaned.encode("utf-8")  # a lone surrogate could not be written
    for before, after in zip(text, cleaned, strict=True):
        assert before == after or before in "\t\n\r" or not before.isprintable()


def test_control_characters_and_changes_of_direction_are_replaced() -> None:
    assert clean("a\x1b[31m\x00b\u202ec\td") == "a\ufffd[31m\ufffdb\ufffdc d"


def test_attributes() -> None:
    assert element("rect", x=1.26, y=2.0, class_="node", aria_hidden="true", rx=None) == Markup(
        '<rect x="1.3" y="2" class="node" aria-hidden="true"/>'
    )
    assert group(element("a"), "b<") == Markup("<g><a/>b&lt;</g>")
