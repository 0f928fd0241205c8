"""Pieces of POSIX shell that launchers run on the machines of the ranks, as lists of script lines."""

import shlex
from collections.abc import Mapping, Sequence

PROGRAM_MISSING = 127
"""Exit code of a shell that does not find its command."""
_ALREADY_COLLECTED = 127
"""Exit code of `wait` if an earlier `wait` has returned the exit code of the process. Some versions of bash use -1."""


def find_program(programs: Sequence[str]) -> list[str]:
    """Returns lines that set `program` to the first existing path or name of `programs`, or to the empty string."""
    candidates = " ".join(map(shlex.quote, programs))
    return ["program=", f'for each in {candidates}; do [ -n "$program" ] || program=$(command -v "$each"); done']


def run_forwarding_signals(command: str, signals: Mapping[str, str], *, caught_only: str = "") -> list[str]:
    """Returns lines that run a command in the background, forward signals to it, and set `code` to its exit code.

    A signal makes `wait` return early, with 128 plus the number of the signal. After such a return the command may be
    running or may have ended. Its process ID proves nothing, because it may be free or reused. So the loop calls `wait`
    again whenever a signal arrived during the last call, and the next value replaces the early one. `code` keeps its
    value if the exit code was already collected.

    Args:
        command: Shell words to run.
        signals: Maps the signals that the shell receives to the one that the command gets, such as "USR1 INT" to "INT".
        caught_only: Names of signals that the shell catches and does not forward.
    """
    start = [
        *([f"trap again=yes {caught_only}"] if caught_only else []),
        f"{command} & pid=$!",
        *(f"trap 'again=yes; kill -{sent} $pid 2>/dev/null' {caught}" for caught, sent in signals.items()),
    ]
    return [
        *start,
        f"code={_ALREADY_COLLECTED}; again=yes",
        f'while [ "$again" ]; do again=; wait $pid; now=$?; '
        f"[ $now -lt 0 ] || [ $now -eq {_ALREADY_COLLECTED} ] || code=$now; done",
    ]
