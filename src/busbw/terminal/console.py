"""Consoles for the output of commands, and the width of stdout."""

import os
import shutil
import sys
from typing import TextIO

from rich.console import Console

MIN_WIDTH, MAX_WIDTH = 60, 200
"""Limits of the width that commands format their output for, in columns."""
_DEFAULT_SIZE = (80, 24)
"""Columns and lines if neither COLUMNS nor stdout states a width."""


class StreamConsole(Console):
    """A console that raises BrokenPipeError if its output was closed, for the command line to handle."""

    def on_broken_pipe(self) -> None:
        """Raises BrokenPipeError. Rich would exit with code 1, which busbw uses for wrong data."""
        raise BrokenPipeError


def console(stream: TextIO | None = None) -> Console:
    """Makes a console for plain text, on stdout by default. Markup and wrapping are disabled.

    It writes colors only to a terminal, and only if NO_COLOR is not set and TERM is not dumb. A console without colors
    writes no escape sequences.
    """
    output = stream or sys.stdout
    forbids_color = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    is_plain = forbids_color or not output.isatty()
    return StreamConsole(
        file=output,
        # Rich would write nothing at a width of 0, which some terminals without a size state.
        width=terminal_width() if os.environ.get("COLUMNS") == "0" else None,
        color_system=None if is_plain else "standard",
        force_terminal=None if output.isatty() else False,  # None: Rich decides; False: no terminal
        no_color=is_plain,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=True,  # disables wrapping
    )


def terminal_width() -> int:
    """Width of stdout from COLUMNS or its terminal, otherwise 80. Limited to MIN_WIDTH and MAX_WIDTH."""
    return min(max(shutil.get_terminal_size(_DEFAULT_SIZE).columns, MIN_WIDTH), MAX_WIDTH)
