"""Wraps lines for a terminal, or if COLUMNS is set. Otherwise lines stay whole, so that searches find them."""

import os
import sys
import textwrap
from collections.abc import Iterator

from rich.text import Text

from busbw.terminal import terminal_width
from busbw.units import plain


def wrap_text(title: str, text: str, *, title_style: str = "") -> Iterator[Text]:
    """Yields the lines of a text after a title. Further lines are indented to the end of the title."""
    is_wrapped = sys.stdout.isatty() or bool(os.environ.get("COLUMNS"))
    wrapper = textwrap.TextWrapper(
        terminal_width() - len(title), break_long_words=False, break_on_hyphens=False, tabsize=4
    )
    beginning = title
    for line in map(plain, text.splitlines() or [""]):
        parts = wrapper.wrap(line) if is_wrapped else [line]
        for part in parts or [line]:  # an empty line has no part
            yield Text.assemble((beginning, title_style), part)
            beginning = " " * len(title)
