"""Wraps lines for a terminal, or if COLUMNS is set. Otherwise lines stay whole, so that searches find them."""

import os
import sys
from collections.abc import Iterator

from rich.text import Text

from busbw.terminal import labeled_lines, terminal_width
from busbw.units import plain


def wrap_text(title: str, text: str, *, title_style: str = "") -> Iterator[Text]:
    """Yields the lines of a text after a title. Further lines are indented to the end of the title."""
    is_wrapped = sys.stdout.isatty() or bool(os.environ.get("COLUMNS"))
    width = terminal_width() if is_wrapped else sys.maxsize
    for line in map(plain, text.splitlines() or [""]):
        yield from labeled_lines(title, line, width, label_style=title_style)
        title = " " * len(title)
