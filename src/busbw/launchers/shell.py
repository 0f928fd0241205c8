"""Pieces of POSIX shell that launchers run on other machines."""

import shlex
from collections.abc import Sequence

PROGRAM_MISSING = 127
"""The exit code of a shell whose command is not there."""


def find_program(programs: Sequence[str]) -> list[str]:
    """Lines that set `program` to the first of the programs that is there, as a path or a name; else to nothing."""
    words = " ".join(map(shlex.quote, programs))
    return ["program=", f'for each in {words}; do [ -n "$program" ] || program=$(command -v "$each"); done']
