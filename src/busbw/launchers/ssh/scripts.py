"""What runs on a host that is reached by ssh: POSIX shell, read from stdin.

So no secret stands on a command line, and a login shell of any kind can start it.
"""

import shlex
from collections.abc import Mapping, Sequence

from busbw.launchers.job import shell

_END_OF_SCRIPT = "#start"

READ_SCRIPT = (
    'exec /bin/sh -c \'n=$(printf "\\nx"); n=${n%x}; s=; '
    f'while IFS= read -r l && [ "$l" != "{_END_OF_SCRIPT}" ]; do s=$s$l$n; done; eval "$s"\''
)
"""The remote command: reads a script up to its last line and runs it, with the rest of stdin left to the script. `read`
takes no byte more than its line. Quoted so that csh and fish understand it as well as sh does."""

MARK = "busbw-output-follows"
"""A line before the first of ours: whatever a login shell's start files print comes before it."""
_SAY_MARK = f"printf '\\n%s\\n' {MARK}"
"""On a line of its own, also where what was printed before has no end of line, such as a terminal's title."""

INTERRUPT = "interrupt\n"
"""A line that tells the host to interrupt its processes; the end of the input tells it to kill them."""


def is_mark(line: str) -> bool:
    """Whether our output begins after this line."""
    return line.rstrip().endswith(MARK)


def preflight(programs: Sequence[str]) -> str:
    """Says which program there is, and all of its versions; on stderr, which login shells leave alone."""
    lines = [
        "exec 1>&2",
        _SAY_MARK,
        *_require_program(programs),
        'echo "program $program"',
        '"$program" --version </dev/null',
    ]
    return _script(lines)


def start(
    programs: Sequence[str], arguments: Sequence[str], common: Mapping[str, str], places: Sequence[Mapping[str, str]]
) -> str:
    """Starts the host's processes with the token, which is the line after the script; ends when they have ended.

    Its exit code is that of the first process that failed, in the order of the places. The processes are killed
    when the connection ends: what they still had to say would reach nobody, and to the others they are lost.

    Args:
        programs: Where the program may be, in order.
        arguments: Of the program.
        common: Variables of all processes.
        places: Variables of each process.
    """
    start_one = " ".join(['"$program"', *map(shlex.quote, arguments)])
    lines = [
        "IFS= read -r BUSBW_TOKEN || exit 1",
        _SAY_MARK,
        *_require_program(programs),
        "export BUSBW_TOKEN",
        *(f"export {name}={shlex.quote(value)}" for name, value in common.items()),
        "exec 3<&0",
        "pids=",
        *(f'{_assignments(one)} {start_one} </dev/null {_stdout(one)}3<&- & pids="$pids $!"' for one in places),
        "(",
        "  trap '' INT TERM HUP",
        "  while IFS= read -r word; do kill -INT $pids; done",
        "  kill -KILL $pids",
        ") <&3 >/dev/null 2>&1 &",
        "watcher=$!",
        "exec 3<&-",
        "result=0",
        'for pid in $pids; do wait "$pid"; code=$?; [ $result -ne 0 ] || result=$code; done',
        'kill -KILL "$watcher" 2>/dev/null',
        "exit $result",
    ]
    return _script(lines)


def _script(lines: Sequence[str]) -> str:
    return "\n".join([*lines, _END_OF_SCRIPT]) + "\n"


def _require_program(programs: Sequence[str]) -> list[str]:
    return [*shell.find_program(programs), f'[ -n "$program" ] || exit {shell.PROGRAM_MISSING}']


def _stdout(place: Mapping[str, str]) -> str:
    """Only process 0 says something to other programs; what the others print would cut its lines apart."""
    return "" if place["BUSBW_RANK"] == "0" else ">&2 "


def _assignments(variables: Mapping[str, str]) -> str:
    return " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
