"""Where text goes: with colour to a terminal that has it, and plain to everything else."""

import os
import shutil
import sys
from typing import TextIO

from rich.console import Console

NARROWEST, WIDEST = 60, 200
_USUAL = (80, 24)


class StreamConsole(Console):
    """A console that leaves it to the command line to say that its output was closed."""

    def on_broken_pipe(self) -> None:
        """Rich would end the program with 1, which means wrong data here."""
        raise BrokenPipeError


def console(stream: TextIO | None = None) -> Console:
    """A console that writes text as it is: no markup, no wrapping; colour only where it is welcome.

    Welcome it is on a terminal, unless NO_COLOR is set or TERM is dumb. No escape sequence is written elsewhere.
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
    """The terminal's columns, or COLUMNS, or 80 where neither says."""
    return min(max(shutil.get_terminal_size(_USUAL).columns, NARROWEST), WIDEST)
