"""A live machine with files and commands that hang or never end: each is "could not check" in time."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from conftest import BUSBW
from polling import HANG_GUARD_S

from busbw.doctor.cost import Job
from busbw.doctor.examination import examine
from busbw.doctor.model import Absent, Check, Finding, Machine, Unreadable
from busbw.doctor.sources import commands
from busbw.doctor.sources.capture import capture_of
from busbw.doctor.sources.recording import Recording
from busbw.doctor.sources.this_machine import ThisMachine

SHORT_S = 0.4
MARGIN_S = 20.0
"""Allowance for a loaded machine. What hangs in these tests hangs for longer."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "sys").mkdir()
    return tmp_path


def machine_at(root: Path, **facts: Callable[[], bytes]) -> Machine:
    return Machine(ThisMachine({f"facts/{name}.json": read for name, read in facts.items()}, root))


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_loop(path: Path) -> None:
    path.symlink_to(path.name)


def make_folder(path: Path) -> None:
    path.mkdir()


def make_long(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(100 << 20)


def link_to(target: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


@pytest.mark.parametrize(
    "make", [make_fifo, make_loop, make_folder, make_long, link_to("/dev/zero"), link_to("/dev/stdin")]
)
def test_what_is_no_short_file_cannot_be_read(root: Path, make: Callable[[Path], None]) -> None:
    make(root / "sys" / "file")
    start_s = time.monotonic()
    with pytest.raises(Unreadable) as error:
        machine_at(root).text("sys/file")
    assert not isinstance(error.value, Absent)
    assert time.monotonic() - start_s < MARGIN_S


@pytest.mark.parametrize("key", ["sys/\0", "sys/" + "x" * 5000, "sys/" + "x/" * 3000])
def test_an_impossible_name_cannot_be_read(root: Path, key: str) -> None:
    machine = machine_at(root)
    for read in (machine.text, machine.names, machine.target):
        with pytest.raises(Unreadable):
            read(key)
    with suppress(Unreadable):
        assert not machine.has(key)


def test_a_folder_without_permission_is_not_absent(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_folder: Path) -> Iterator[Path]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)  # root reads every folder
    with pytest.raises(Unreadable, match="permission") as error:
        machine_at(root).names("sys")
    assert not isinstance(error.value, Absent)


def test_a_name_that_is_not_utf_8_is_replaced(root: Path) -> None:
    Path(os.fsdecode(os.fsencode(root) + b"/sys/a\xff")).write_text("x")
    (name,) = machine_at(root).names("sys")
    assert name.isprintable()
    assert name.encode()


@pytest.fixture
def bin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """First folder of PATH, with short time limits for commands."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    monkeypatch.setattr(commands, "LIMIT_S", SHORT_S)
    return folder


def write_command(folder: Path, script: str, name: str = "tool") -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def processes_with(word: str) -> list[int]:
    """Processes with a word in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if word.encode() in path.read_bytes():
                found.append(int(path.parent.name))
    return found


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Word in the environment of all processes that the test starts."""
    word = f"mark-{os.getpid()}-{time.monotonic_ns()}"
    monkeypatch.setenv("NOT_OURS_TEST_MARK", word)
    yield word
    for process in processes_with(word):
        os.kill(process, signal.SIGKILL)


HANGING = {
    "it hangs": "exec sleep 1000",
    "it prints endlessly": "exec yes",
    "it ignores SIGTERM": "trap '' TERM HUP INT; while :; do sleep 1; done",
    "its child keeps the pipe open": "sleep 1000 & echo done",
    "its child hangs": "sleep 1000; echo done",
    "it closes its output and hangs": "exec >&- 2>&-; sleep 1000",
}


@pytest.mark.parametrize("kind", HANGING)
def test_a_command_that_does_not_end_leaves_no_process(root: Path, bin_folder: Path, mark: str, kind: str) -> None:
    write_command(bin_folder, HANGING[kind])
    start_s = time.monotonic()
    with pytest.raises(Unreadable, match=r"tool (did not end|printed more)"):
        machine_at(root).output("tool")
    assert time.monotonic() - start_s < SHORT_S + MARGIN_S
    assert wait_until_none(mark) == []


def wait_until_none(mark: str) -> list[int]:
    """Returns the processes that remain. A killed process needs a moment to end."""
    end_s = time.monotonic() + HANG_GUARD_S
    while (found := processes_with(mark)) and time.monotonic() < end_s:
        time.sleep(0.05)
    return found


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo broken >&2; exit 3", "tool failed: broken"),
        ("exit 3", "tool failed: exit code 3"),
        ("kill -9 $$", "tool failed: exit code -9"),
    ],
)
def test_a_command_that_fails_cannot_be_read(root: Path, bin_folder: Path, script: str, message: str) -> None:
    write_command(bin_folder, script)
    with pytest.raises(Unreadable, match=message):
        machine_at(root).output("tool")


def test_a_missing_command_is_absent(root: Path) -> None:
    with pytest.raises(Absent):
        machine_at(root).output("no-such-command-anywhere")


def test_a_command_without_permission_cannot_be_read(root: Path, bin_folder: Path) -> None:
    (bin_folder / "unusable-tool").mkdir()
    with pytest.raises(Unreadable):
        machine_at(root).output(str(bin_folder / "unusable-tool"))


def test_a_fact_that_fails_cannot_be_read(root: Path) -> None:
    def fail() -> bytes:
        raise OSError("\x1b[31mno driver")

    with pytest.raises(Unreadable, match=r"OSError: \?\[31mno driver"):
        machine_at(root, limits=fail)._tree.read("facts/limits.json")


def check_of(examine_machine: Callable[[Machine], object]) -> Check[Machine]:
    def run(machine: Machine) -> Iterator[Finding]:
        examine_machine(machine)
        yield from ()

    return Check(name="test", area="host", reads="", rule="", source="", cost="", fix="", examine=run)


def test_a_reading_that_hangs_is_undecided_also_in_the_capture(root: Path) -> None:
    def hang() -> bytes:
        time.sleep(HANG_GUARD_S)
        return b""

    recording = Recording(ThisMachine({"facts/limits.json": hang}, root))
    check = check_of(lambda machine: machine._tree.read("facts/limits.json"))
    result = examine([check], Machine(recording), Job(), limit_s=SHORT_S)
    (missing,) = result.could_not_check
    assert "did not end" in missing.missing
    capture = capture_of(recording)
    (missing,) = examine([check], Machine(capture), Job()).could_not_check
    assert "in time" in missing.missing


@pytest.mark.parametrize("error", [TypeError("x"), RecursionError(), MemoryError(), KeyError("k"), OSError(5, "I/O")])
def test_a_check_that_fails_is_undecided(root: Path, capfd: pytest.CaptureFixture[str], error: Exception) -> None:
    def fail(_machine: Machine) -> None:
        raise error

    (missing,) = examine([check_of(fail)], machine_at(root), Job()).could_not_check
    assert type(error).__name__ in missing.missing
    assert capfd.readouterr() == ("", "")


PROGRAM = """
import ctypes, sys, time
from busbw.doctor.facts import process
from busbw.doctor.sources import commands
libc = ctypes.CDLL(None)
process.read_limits = lambda: libc.sleep(1000) or process.Limits()   # a driver's library that hangs
from busbw.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def test_the_command_ends_in_time_although_a_library_hangs(mark: str) -> None:
    start_s = time.monotonic()
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, "doctor", "--check", "memlock"],
        capture_output=True,
        text=True,
        timeout=HANG_GUARD_S,
        check=False,
    )
    assert time.monotonic() - start_s < 5.0 + MARGIN_S
    assert result.returncode == 3, result.stderr
    assert result.stderr == ""
    assert "could not check: memlock" in result.stdout
    assert processes_with(mark) == []


INTERRUPTED = """
import sys
from busbw.doctor import catalog
from busbw.doctor.facts.libraries import Libraries
from busbw.doctor.model import Check
check = Check(name="test", area="host", reads="", rule="", source="", cost="", fix="",
              examine=lambda machine: [print(READING)])
catalog.all_checks = lambda: (check,)
import busbw.cli.doctor.selection
busbw.cli.doctor.selection.all_checks = catalog.all_checks
from busbw.cli.entry_point import main
sys.argv[1:] = ["doctor"]
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("number", "reading"),
    [
        (signal.SIGINT, 'machine.output("tool")'),
        (signal.SIGTERM, 'machine.output("tool")'),
        (signal.SIGINT, "machine.fact(Libraries)"),
    ],
)
def test_an_interrupt_leaves_no_command(mark: str, bin_folder: Path, number: signal.Signals, reading: str) -> None:
    for name in ("tool", "ldconfig"):
        write_command(bin_folder, "exec sleep 1000", name)
    program = INTERRUPTED.replace("READING", reading)
    with subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE) as process:
        end_s = time.monotonic() + HANG_GUARD_S
        while len(processes_with(mark)) < 2 and time.monotonic() < end_s:
            time.sleep(0.05)
        process.send_signal(number)
        process.wait(HANG_GUARD_S)
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert wait_until_none(mark) == []


def test_the_result_of_this_machine_needs_no_arguments() -> None:
    result = subprocess.run([*BUSBW, "doctor"], capture_output=True, text=True, timeout=HANG_GUARD_S, check=False)
    assert result.returncode in (0, 1, 3, 5)
    assert result.stderr == ""
    assert " passed, " in result.stdout


def test_a_warning_is_no_part_of_the_output_of_a_command() -> None:
    assert commands.Commands().output(["sh", "-c", "echo warning >&2; echo value"]) == b"value\n"
    with pytest.raises(Unreadable, match=r"failed: the reason$"):
        commands.Commands().output(["sh", "-c", "echo table; echo 'the reason' >&2; exit 3"])
    with pytest.raises(Unreadable, match=r"failed: only output$"):
        commands.Commands().output(["sh", "-c", "echo 'only output'; exit 3"])


def test_endless_error_output_is_too_much() -> None:
    with pytest.raises(Unreadable, match="printed more than 4 MiB"):
        commands.Commands().output(["sh", "-c", "yes >&2"])
