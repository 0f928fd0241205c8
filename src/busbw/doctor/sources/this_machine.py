"""Tree of this machine. Nothing here changes the machine, and nothing waits longer than the time limit."""

import os
import stat
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from busbw.doctor.model.check import Unreadable
from busbw.doctor.model.machine import Absent, shown
from busbw.doctor.model.tree import COMMANDS, FACTS, LATER, command_words

MAX_FILE_BYTES = 1 << 20
"""Maximum length of a file. Files of the kernel are shorter."""
MAX_OUTPUT_BYTES = 4 << 20
COMMAND_LIMIT_S = 3.0
"""Time limit of one command."""
GROWTH_PERIOD_S = 1.0
"""Minimum time between the two readings of a counter."""
_COMMAND_FOLDERS = ("/usr/sbin", "/sbin", "/usr/local/sbin", "/opt/amazon/efa/bin")
"""Folders of commands in addition to PATH, which often lacks them for users other than root."""


class ThisMachine:
    """Tree of this machine.

    Args:
        facts: Function that reads each fact, by key.
        root: Root of the files, other than / in tests.
    """

    def __init__(self, facts: Mapping[str, Callable[[], bytes]], root: Path = Path("/")) -> None:
        self._facts = facts
        self._root = root
        self._read_at: dict[str, float] = {}

    def read(self, key: str) -> bytes:
        """Returns the content of a file, the output of a command, or a fact."""
        if key.startswith(FACTS):
            if key not in self._facts:
                raise Absent(f"{key} is no fact of this version")
            return self._facts[key]()
        if key.startswith(LATER):
            first_key = key.removeprefix(LATER)
            time.sleep(max(0.0, self._read_at.get(first_key, 0.0) + GROWTH_PERIOD_S - time.monotonic()))
            return self._read_now(first_key)
        content = self._read_now(key)
        self._read_at[key] = time.monotonic()
        return content

    def _read_now(self, key: str) -> bytes:
        return run_command(command_words(key)) if key.startswith(COMMANDS) else self._read_file(key)

    def names(self, key: str) -> tuple[str, ...]:
        """Returns the names in a folder."""
        try:
            return tuple(path.name for path in (self._root / key).iterdir())
        except OSError as error:
            raise _unreadable(key, error) from error

    def target(self, key: str) -> str:
        """Returns the key of a file or folder without symbolic links in it."""
        try:
            target = (self._root / key).resolve(strict=True)
        except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links
            raise _unreadable(key, error) from error
        return str(target.relative_to(self._root.resolve())) if target.is_relative_to(self._root.resolve()) else key

    def _read_file(self, key: str) -> bytes:
        descriptor = -1
        try:
            # A pipe or a device would block or have side effects.
            descriptor = os.open(self._root / key, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Unreadable(f"{shown(key)} is not a regular file")
            content = bytearray()
            # Some files of the kernel return less than requested before their end.
            while part := os.read(descriptor, MAX_FILE_BYTES + 1 - len(content)):
                content += part
                if len(content) > MAX_FILE_BYTES:
                    raise Unreadable(f"{shown(key)} is longer than {MAX_FILE_BYTES >> 20} MiB")
        except OSError as error:
            raise _unreadable(key, error) from error
        finally:
            if descriptor >= 0:
                os.close(descriptor)
        return bytes(content)


def run_command(words: list[str], limit_s: float = COMMAND_LIMIT_S) -> bytes:
    """Returns the standard output of a command.

    Raises:
        Absent: There is no such command.
        Unreadable: It failed, printed too much, or did not end in time.
    """
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *_COMMAND_FOLDERS])
    environment = os.environ | {"PATH": path, "LC_ALL": "C"}
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise Absent(f"the command {words[0]}") from error
    except OSError as error:
        raise Unreadable(f"{words[0]} cannot be started: {error.strerror}") from error
    output, has_ended = _read_output(process, limit_s)
    command = " ".join(words)
    if len(output) > MAX_OUTPUT_BYTES:
        raise Unreadable(f"{command} printed more than {MAX_OUTPUT_BYTES >> 20} MiB")
    if not has_ended:
        raise Unreadable(f"{command} did not end within {limit_s:g} s")
    if process.returncode:
        first_line = output.decode(errors="replace").strip().partition("\n")[0][:120]
        raise Unreadable(f"{command} failed: {first_line or f'exit code {process.returncode}'}")
    return bytes(output)


def _read_output(process: "subprocess.Popen[bytes]", limit_s: float) -> tuple[bytes, bool]:
    """Returns the output of a process, and whether it ended in time. Kills it and its children otherwise."""
    assert process.stdout is not None
    end = time.monotonic() + limit_s
    output = bytearray()
    os.set_blocking(process.stdout.fileno(), False)
    is_open = True
    while is_open and time.monotonic() < end and len(output) <= MAX_OUTPUT_BYTES:
        part = process.stdout.read(1 << 16)
        if part is None:
            time.sleep(0.005)
        else:
            output += part
            is_open = bool(part)
    has_ended = not is_open
    try:
        process.wait(max(0.0, end - time.monotonic()) if has_ended else 0)
    except subprocess.TimeoutExpired:
        has_ended = False
        # A process that waits for a device does not end, so nobody waits for it.
        os.killpg(process.pid, 9)
    process.stdout.close()
    return bytes(output), has_ended


def _unreadable(key: str, error: Exception) -> Unreadable:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return Absent(f"{shown(key)} does not exist")
    if isinstance(error, PermissionError):
        return Unreadable(f"permission to read {shown(key)}")
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return Unreadable(f"{shown(key)} cannot be read: {reason}")
