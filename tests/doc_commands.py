"""Commands of the documents: read from ```console blocks, run in one shell per page, compared with the printed output.

A line `$ COMMAND` is a command; a backslash at its end continues it on the next line. The lines up to the next command
are its expected output, where `...` on a line of its own matches any lines. The word after `console` says what a block
needs that a test machine lacks: see MARKS.
"""

import difflib
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from installed import installed_in, plain_environment

ROOT = Path(__file__).resolve().parents[1]

MARKS = ("needs-gpu", "needs-cluster")
"""Marks of a block that is not run with the page: it needs GPUs, or the nodes or the registry of a cluster."""

MAX_COMMAND_S = 120.0
"""Limit of one command. It guards against hangs; the commands of the documents take seconds."""

_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```[ \t]*$", re.DOTALL | re.MULTILINE)
_READERS = frozenset(("check", "compare", "expect", "export", "import", "refs", "show"))
"""Commands of busbw with the same output on every machine if they read only files of the repository."""
_MASKS = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (r"\d{8}T\d{6}Z", "TIME"),
        (r"\[cpu\] .*", "[cpu] #"),
        (r"\bPid +\d+", "Pid #"),
        (r"\bon +\S+", "on #"),
        (r"\b\d+\.\d+(e[+-]?\d+)?", "#"),
        (r"\b\d+(?= ?(us|ms|s|GB/s|%)(\W|$))", "#"),
    )
)
"""Times, bandwidths, processes and hosts, which differ between two runs."""


@dataclass(frozen=True)
class Fence:
    """A fenced block: the words after the backticks, its text, and the number of its first line in the page."""

    info: tuple[str, ...]
    text: str
    line: int

    @property
    def language(self) -> str:
        return self.info[0] if self.info else ""

    @property
    def marks(self) -> tuple[str, ...]:
        return self.info[1:]


@dataclass(frozen=True)
class DocCommand:
    """A command, the lines that must follow it, and its line number in the page."""

    command: str
    expected: tuple[str, ...]
    line: int


@dataclass(frozen=True)
class Output:
    """Lines that a command printed on stdout and stderr, and its exit code."""

    lines: tuple[str, ...]
    code: int


def read_fences(page: Path) -> list[Fence]:
    """Returns the fenced blocks of a page."""
    text = page.read_text()
    return [
        Fence(tuple(match["info"].split()), match["text"], text.count("\n", 0, match.start()) + 2)
        for match in _FENCE.finditer(text)
    ]


def read_commands(page: Path, marks: tuple[str, ...] = ()) -> list[DocCommand]:
    """Returns the commands of all console blocks with exactly these marks."""
    return [
        command
        for fence in read_fences(page)
        if fence.language == "console" and fence.marks == marks
        for command in fence_commands(fence)
    ]


def fence_commands(fence: Fence) -> list[DocCommand]:
    """Returns the commands of one console block. Lines before the first command are an error."""
    found: list[DocCommand] = []
    lines = fence.text.splitlines()
    index = 0
    while index < len(lines):
        first = index
        if not lines[first].startswith("$ "):
            raise ValueError(f"line {fence.line + first}: no command before this output")
        words = [lines[index].removeprefix("$ ")]
        while words[-1].endswith("\\"):
            index += 1
            words.append(lines[index])
        index += 1
        start = index
        while index < len(lines) and not lines[index].startswith("$ "):
            index += 1
        found.append(DocCommand("\n".join(words), tuple(lines[start:index]), fence.line + first))
    return found


def make_page_folder(folder: Path) -> None:
    """Makes the folder that the commands of a page start in: empty but for the links `tests` and `docs`."""
    folder.mkdir(parents=True)
    for name in ("tests", "docs"):
        (folder / name).symlink_to(ROOT / name)


def shell_environment() -> dict[str, str]:
    """Returns a user's environment: `busbw` and the programs on PATH, output 80 columns wide."""
    programs = installed_in()
    path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    kept = {name: value for name, value in plain_environment().items() if name not in {"COLUMNS", "LINES"}}
    return {**kept, "PATH": path, "BUSBW_PROGRAMS": str(programs)}


class Shell:
    """One bash for all commands of a page, so that folder, variables and `$?` carry over. It has no terminal."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._script = folder.with_name(f"{folder.name}.command")
        self._process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def __enter__(self) -> "Shell":
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def run(self, command: str) -> Output:
        """Runs a command to its end. Fails after MAX_COMMAND_S."""
        assert self._process.stdin is not None
        self._script.write_text(command + "\n")
        end = f"end-of-command-{time.monotonic_ns()}"
        # Sourcing keeps folder and variables. `$?` of the command before is restored for `echo $?`.
        script = shlex.quote(str(self._script))
        line = f"(exit ${{code:-0}}); . {script} </dev/null; code=$?; printf '\\n{end} %d\\n' $code\n"
        self._process.stdin.write(line.encode())
        self._process.stdin.flush()
        text = self._read_until(re.compile(rf"\n{end} (\d+)\n".encode()), command)
        output, code = text.decode(errors="replace").rstrip("\n").rsplit(f"\n{end} ", 1)
        return Output(tuple(output.splitlines()), int(code))

    def _read_until(self, end: "re.Pattern[bytes]", command: str) -> bytes:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        end_s = time.monotonic() + MAX_COMMAND_S
        text = b""
        while not end.search(text):
            ready, _, _ = select.select([descriptor], [], [], max(0.0, end_s - time.monotonic()))
            assert ready, f"{command}: no end after {MAX_COMMAND_S:g} s; it printed {text!r}"
            block = os.read(descriptor, 65536)
            assert block, f"{command}: ended the shell; it printed {text!r}"
            text += block
        return text


def is_reproducible(command: str, folder: Path) -> bool:
    """True if a command prints the same figures everywhere: it reads only files of the repository."""
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    if len(words) < 2 or words[0] != "busbw" or words[1] not in _READERS:
        return False
    own = [
        word for word in words[2:] if (folder / word).exists() and Path(word).parts[:1] not in (("tests",), ("docs",))
    ]
    return not own and "last" not in words


def difference(expected: tuple[str, ...], output: Output, exact: bool) -> str:
    """Returns how an output differs from the page, or an empty string. Unless exact, figures are not compared."""
    want, got = (_normalized(lines, exact) for lines in (expected, output.lines))
    pattern = "".join(r"(?:.*\n)*?" if line == "..." else re.escape(line) + "\n" for line in want)
    if re.fullmatch(pattern, "".join(line + "\n" for line in got)):
        return ""
    return "\n".join(difflib.unified_diff(want, got, "page", "output", lineterm="", n=2))


def is_failure_shown(commands: list[DocCommand], index: int) -> bool:
    """True if a page shows that a command fails: by a line of its output, or by `echo $?` as the next command."""
    shown = any(line.strip() not in ("", "...") for line in commands[index].expected)
    return shown or (index + 1 < len(commands) and commands[index + 1].command == "echo $?")


def _normalized(lines: tuple[str, ...], exact: bool) -> list[str]:
    """Without blank lines, and with single blanks."""
    kept = [line for line in lines if line.strip()]
    if not exact:
        for pattern, text in _MASKS:
            kept = [pattern.sub(text, line) for line in kept]
    return [" ".join(line.split()) for line in kept]
