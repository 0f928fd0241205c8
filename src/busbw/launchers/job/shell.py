"""Pieces of POSIX shell that launchers run on other machines, as lists of script lines."""

import shlex
from collections.abc import Mapping, Sequence

PROGRAM_MISSING = 127
"""Exit code of a shell that does not find its command."""


def find_program(programs: Sequence[str]) -> list[str]:
    """Returns lines that set `program` to the first existing path or name of `programs`, or to the empty string."""
    candidates = " ".join(map(shlex.quote, programs))
    return ["program=", f'for each in {candidates}; do [ -n "$program" ] || program=$(command -v "$each"); done']


def run_forwarding_signals(command: str, signals: Mapping[str, str], *, absorbed: str = "") -> list[str]:
    """Returns lines that run a command in the background, forward signals to it, and set `code` to its exit code.

    A signal makes `wait` return before the command has ended. The shell may also have reaped the command already, so
    its process ID proves nothing. Therefore the lines call `wait` once more after each signal. A `wait` for a reaped
    command returns 127, or -1 in some cases in bash; both are ignored.

    Args:
        command: Shell words to run.
        signals: Signals of the shell (one name or several), each with the signal to send to the command.
        absorbed: Names of signals that the shell catches and does not forward.
    """
    start = [
        *([f"trap again=yes {absorbed}"] if absorbed else []),
        f"{command} & pid=$!",
        *(f"trap 'again=yes; kill -{sent} $pid 2>/dev/null' {caught}" for caught, sent in signals.items()),
    ]
    return [
        *start,
        f"code={PROGRAM_MISSING}; again=yes",
        f'while [ "$again" ]; do again=; wait $pid; now=$?; '
        f"[ $now -lt 0 ] || [ $now -eq {PROGRAM_MISSING} ] || code=$now; done",
    ]
