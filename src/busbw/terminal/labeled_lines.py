"""Texts after a label, wrapped between words."""

import textwrap
from collections.abc import Iterator

from rich.text import Text

_MIN_TEXT_WIDTH = 40
"""Minimum width of a text in columns, for a narrow terminal."""


def labeled_lines(label: str, text: str, width: int, style: str = "", *, label_style: str = "") -> Iterator[Text]:
    """Yields the lines of a text after a label. Further lines are indented to the end of the label.

    An empty text is one line. A word longer than the width is not broken.
    """
    text_width = max(_MIN_TEXT_WIDTH, width - len(label))
    lines = textwrap.wrap(text, text_width, break_long_words=False, break_on_hyphens=False, tabsize=4)
    for line in lines or [""]:
        yield Text.assemble((label, label_style), (line, style))
        label = " " * len(label)
