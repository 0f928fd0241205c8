"""Output console: colors on a terminal that supports them, plain text otherwise."""

import os
import shutil
import sys
from typing import TextIO

from rich.console import Console

MIN_WIDTH, MAX_WIDTH = 60, 200
_DEFAULT_SIZE = (80, 24)


class StreamConsole(Console):
    """A console that raises BrokenPipeError if its output was closed, for the command line to handle."""

    def on_broken_pipe(self) -> None:
        """Raises instead of Rich's exit with code 1, which means wrong data in busbw."""
        raise BrokenPipeError


def console(stream: TextIO | None = None) -> Console:
    """Makes a console without markup and wrapping, on stdout by default.

    It writes colors only to a terminal, and not if NO_COLOR is set or TERM is dumb. Otherwise it writes no escape
    sequences.
    """
    out = stream or sys.stdout
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb" or not out.isatty()
    return StreamConsole(
        file=out,
        color_system=None if plain else "standard",
        force_terminal=None if out.isatty() else False,
        no_color=plain,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=True,
    )


def width_of() -> int:
    """Width in columns: COLUMNS, the terminal's width, or 80, within MIN_WIDTH and MAX_WIDTH."""
    return min(max(shutil.get_terminal_size(_DEFAULT_SIZE).columns, MIN_WIDTH), MAX_WIDTH)
