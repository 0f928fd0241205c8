"""Completion of busbw and the programs by real shells, with the installed scripts."""

import fcntl
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from installed import share_folder
from polling import HANG_GUARD_S

from busbw.collectives import COLLECTIVES

from ..programs import Programs

_ESCAPE_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[=>]|[\r\x07\x08]")
_TAB = "\t"
_PRINT_LINE = "\x01echo '\x05'\r"
"""Keys that make the shell print its line instead of running it: to the start, echo, to the end."""


@dataclass(frozen=True)
class Environment:
    """Variables of a shell in which busbw and the programs are on the PATH."""

    variables: dict[str, str]
    share: Path


@pytest.fixture
def environment(programs: Programs, tmp_path: Path) -> Environment:
    folder = tmp_path / "bin"
    folder.mkdir()
    for collective in COLLECTIVES:
        (folder / f"{collective}_perf").symlink_to(programs.path(f"{collective}_perf"))
    command = folder / "busbw"
    command.write_text(f"#!{sys.executable}\nimport sys\nfrom busbw.cli.entry_point import main\nsys.exit(main())\n")
    command.chmod(0o755)
    variables = {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "BUSBW_PROGRAMS": str(programs.installed_in),
        "TERM": "dumb",
        "LC_ALL": "C.UTF-8",
    }
    return Environment(variables, share_folder())


class Terminal:
    """An interactive shell in a terminal of 200 columns."""

    def __init__(self, command: list[str], environment: Environment, folder: Path) -> None:
        self._controller, device = pty.openpty()
        fcntl.ioctl(device, termios.TIOCSWINSZ, struct.pack("HHHH", 60, 200, 0, 0))
        self._process = subprocess.Popen(
            command,
            stdin=device,
            stdout=device,
            stderr=device,
            env=environment.variables,
            cwd=folder,
            start_new_session=True,
        )
        os.close(device)
        self._text = ""

    def send(self, keys: str) -> None:
        os.write(self._controller, keys.encode())

    def read_until(self, pattern: str) -> str:
        """Returns the output since the last call, once the pattern is in it."""
        end_s = time.monotonic() + HANG_GUARD_S
        while not re.search(pattern, self._text):
            assert time.monotonic() < end_s, f"no {pattern} in {self._text!r}"
            if select.select([self._controller], [], [], 0.1)[0]:
                self._text += _ESCAPE_SEQUENCE.sub("", os.read(self._controller, 65536).decode(errors="replace"))
        text, self._text = self._text, ""
        return text

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._controller)


@pytest.fixture(params=["bash", "zsh"])
def terminal(request: pytest.FixtureRequest, environment: Environment, tmp_path: Path) -> Iterator[Terminal]:
    shell = request.param
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    folder = environment.share / "bash-completion" / "completions"
    setup, command = {
        "bash": (f"source {folder}/busbw; source {folder}/all_reduce_perf", ["bash", "--norc", "--noprofile", "-i"]),
        "zsh": (
            f"fpath=({environment.share}/zsh/site-functions $fpath); autoload -Uz compinit; compinit -u -D",
            ["zsh", "-f", "-i"],
        ),
    }[shell]
    found = Terminal(command, environment, tmp_path)
    try:
        found.send(f"{setup}; PS1='ready''> '\r")
        found.read_until("ready> ")
        yield found
    finally:
        found.close()


def test_a_unique_option_is_completed(terminal: Terminal) -> None:
    terminal.send(f"busbw check --sy{_TAB}")
    terminal.read_until("--sy.*stem ")
    terminal.send(_PRINT_LINE)
    terminal.read_until(r"\nbusbw check --system")


def test_element_types_of_a_program_are_listed(terminal: Terminal) -> None:
    terminal.send(f"all_reduce_perf -d {_TAB}{_TAB}")
    listed = terminal.read_until("f8e5m2[^$]*all")
    assert {"int8", "float", "bfloat16", "f8e4m3"} <= set(listed.split())


def test_a_value_of_a_program_is_completed(terminal: Terminal) -> None:
    terminal.send(f"all_reduce_perf -t 2 -d bf{_TAB}")
    terminal.read_until("loat16 ")
    terminal.send(_PRINT_LINE)
    terminal.read_until(r"\nall_reduce_perf -t 2 -d bfloat16")


def test_files_are_completed(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "measured.log").touch()
    terminal.send(f"busbw check meas{_TAB}")
    terminal.read_until("ured.log")
    terminal.send(_PRINT_LINE)
    terminal.read_until(r"\nbusbw check measured.log")


def fish_words(line: str, environment: Environment, folder: Path) -> list[str]:
    """Words that fish proposes for a line."""
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    program = line.split()[0]
    script = environment.share / "fish" / "vendor_completions.d" / f"{program}.fish"
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"source {script}; complete -C '{line}'"],
        env=environment.variables,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=HANG_GUARD_S,
        check=True,
    )
    assert done.stderr == ""
    return [word.partition("\t")[0] for word in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("busbw check --sy", ["--system"]),
        ("all_reduce_perf -t 2 -d bf", ["bfloat16"]),
        ("all_reduce_perf --placement ", ["in", "out", "both"]),
        ("busbw check meas", ["measured.log"]),
    ],
)
def test_fish_completes(line: str, expected: list[str], environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "measured.log").touch()
    assert fish_words(line, environment, tmp_path) == expected
