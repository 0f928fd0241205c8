"""Wraps lines at the width of the terminal. Output to files and pipes has whole lines, for searches."""

import os
import sys
import textwrap
from collections.abc import Iterator

from rich.text import Text

from busbw.terminal import terminal_width
from busbw.units import plain


def wrap_text(title: str, text: str, *, title_style: str = "") -> Iterator[Text]:
    """Yields the lines of a text after a title. Further lines are indented to the end of the title."""
    has_width = sys.stdout.isatty() or bool(os.environ.get("COLUMNS"))
    indent = " " * len(title)
    first = True
    for line in text.splitlines() or [""]:
        shown = plain(line)
        parts = textwrap.wrap(
            shown, terminal_width() - len(indent), break_long_words=False, break_on_hyphens=False, tabsize=4
        )
        for part in (parts or [shown]) if has_width else [shown]:
            yield Text.assemble((title if first else indent, title_style), part)
            first = False
