"""Pieces of POSIX shell that launchers run on other machines."""

import shlex
from collections.abc import Mapping, Sequence

PROGRAM_MISSING = 127
"""The exit code of a shell whose command is not there."""


def find_program(programs: Sequence[str]) -> list[str]:
    """Lines that set `program` to the first of the programs that is there, as a path or a name; else to nothing."""
    words = " ".join(map(shlex.quote, programs))
    return ["program=", f'for each in {words}; do [ -n "$program" ] || program=$(command -v "$each"); done']


def run_forwarding_signals(command: str, signals: Mapping[str, str], *, outlived: str = "") -> list[str]:
    """Lines that run a command beside the shell, hand signals on to it, and set `code` to its exit code.

    A signal makes `wait` return before the command has ended, and a shell may have collected the command's exit code by
    the time it is asked whether there still is such a process; so it waits once more after each signal. A `wait` after
    the one that said the exit code ends with 127, in bash with -1 at times.

    Args:
        command: The words to run, as shell.
        signals: What the shell gets, one name or several, and the signal that the command gets for it.
        outlived: Names of signals that the shell outlives and hands on to nobody.
    """
    traps = [
        *([f"trap again=yes {outlived}"] if outlived else []),
        f"{command} & pid=$!",
        *(f"trap 'again=yes; kill -{to} $pid 2>/dev/null' {names}" for names, to in signals.items()),
    ]
    return [
        *traps,
        f"code={PROGRAM_MISSING}; again=yes",
        f'while [ "$again" ]; do again=; wait $pid; now=$?; '
        f"[ $now -lt 0 ] || [ $now -eq {PROGRAM_MISSING} ] || code=$now; done",
    ]
