"""POSIX shell scripts that run on hosts over ssh.

A host reads its script from stdin, so no secret is on a command line, and the login shell need not be POSIX. The mark
separates the output of a login shell's start files from that of the script.
"""

import shlex
from collections.abc import Mapping, Sequence

from busbw.launchers.job import shell

_END_OF_SCRIPT = "#start"
"""Last line of a script. The rest of stdin is input of the script."""

READ_SCRIPT = (
    'exec /bin/sh -c \'n=$(printf "\\nx"); n=${n%x}; s=; '
    f'while IFS= read -r l && [ "$l" != "{_END_OF_SCRIPT}" ]; do s=$s$l$n; done; eval "$s"\''
)
"""Remote command: collects the lines of a script ($l) with line breaks ($n) in $s up to its last line, and runs it.

The x keeps the line break, which $(...) would drop at the end of its text. `read` consumes no byte after its line, so
the script gets the rest of stdin. The quoting works in sh, csh and fish."""

MARK = "busbw-output-follows"
"""Line that the script prints before its own output."""
_PRINT_MARK = f"printf '\\n%s\\n' {MARK}"
"""Begins with a newline, because earlier output such as a terminal title may lack one."""

INTERRUPT = "{signal}\n"
"""Line on stdin at which the script sends the named signal to its processes. At the end of stdin it kills them."""


def is_mark(line: str) -> bool:
    """True if the output of the script begins after this line."""
    return line.rstrip().endswith(MARK)


def preflight(programs: Sequence[str]) -> str:
    """Returns a script that prints the program's path and versions on stderr. Start files mostly print on stdout."""
    lines = [
        "exec 1>&2",
        _PRINT_MARK,
        *_require_program(programs),
        'echo "program $program"',
        '"$program" --version </dev/null',
    ]
    return _script(lines)


def start(
    programs: Sequence[str],
    arguments: Sequence[str],
    shared: Mapping[str, str],
    per_process: Sequence[Mapping[str, str]],
    *,
    remove: str = "",
) -> str:
    """Returns a script that runs the host's processes. The script reads the token from the line after its end.

    Its exit code is that of the first failed process, in the order of `per_process`. The processes are killed when the
    connection ends, because their output cannot be delivered any more.

    Args:
        programs: Paths or names of the program, in the order to try.
        arguments: Arguments of the program.
        shared: Variables of all processes.
        per_process: Variables of each process.
        remove: Folder to remove after the processes, also if the connection was lost. Empty: none.
    """
    program_command = " ".join(['"$program"', *map(shlex.quote, arguments)])
    # The watcher, a subshell in the background, interrupts or kills the processes. It reads stdin as descriptor
    # 3, because a shell gives background commands /dev/null as stdin.
    lines = [
        "IFS= read -r BUSBW_TOKEN || exit 1",
        _PRINT_MARK,
        # After a lost connection, the shell's own message about a killed process must not end the script before `rm`.
        "trap : PIPE",
        *_require_program(programs),
        "export BUSBW_TOKEN",
        *(f"export {name}={shlex.quote(value)}" for name, value in shared.items()),
        "exec 3<&0",
        "pids=",
        *(
            f'{_assignments(variables)} {program_command} </dev/null {_redirection(variables)}3<&- & pids="$pids $!"'
            for variables in per_process
        ),
        "(",
        "  trap '' INT TERM HUP",
        '  while IFS= read -r signal; do kill -s "$signal" $pids; done',
        "  kill -KILL $pids",
        ") <&3 >/dev/null 2>&1 &",
        "watcher=$!",
        "exec 3<&-",
        "result=0",
        'for pid in $pids; do wait "$pid"; code=$?; [ $result -ne 0 ] || result=$code; done',
        'kill -KILL "$watcher" 2>/dev/null',
        *([f"rm -rf {shlex.quote(remove)}"] if remove else []),
        "exit $result",
    ]
    return _script(lines)


def _script(lines: Sequence[str]) -> str:
    return "\n".join([*lines, _END_OF_SCRIPT]) + "\n"


def _require_program(programs: Sequence[str]) -> list[str]:
    return [*shell.find_program(programs), f'[ -n "$program" ] || exit {shell.PROGRAM_MISSING}']


def _redirection(variables: Mapping[str, str]) -> str:
    """Redirection of stdout to stderr. Empty for process 0, so that other lines cannot interrupt its lines."""
    return "" if variables["BUSBW_RANK"] == "0" else ">&2 "


def _assignments(variables: Mapping[str, str]) -> str:
    return " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
