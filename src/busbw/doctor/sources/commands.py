"""Runs commands for checks, with limits of time and output. Kills a command that exceeds a limit, with its children.

A process can remain if it waits for a device, has another user or process group, or has closed the output.
"""

import os
import shlex
import subprocess
import time
from contextlib import suppress
from signal import SIGKILL
from threading import RLock

from busbw.doctor.model import Absent, Unreadable

MAX_OUTPUT_BYTES = 4 << 20
LIMIT_S = 3.5
"""Time limit of all commands together. The checks have a longer limit, so that they can still decide."""
_POLL_S = 0.005
"""Interval between reads of the output."""
_REAP_S = 0.1
"""How long to wait for the end of a killed process."""
_FOLDERS = ("/usr/sbin", "/sbin", "/usr/local/sbin", "/opt/amazon/efa/bin")
"""Folders of commands in addition to PATH, which often lacks them for users other than root."""

_Process = subprocess.Popen[bytes]


class Commands:
    """Runs commands, in several threads at once."""

    def __init__(self) -> None:
        self._end_s = time.monotonic() + LIMIT_S
        self._running: set[_Process] = set()
        self._lock = RLock()  # reentrant, because a signal handler may call `close` in the thread that holds the lock

    def output(self, words: list[str]) -> bytes:
        """Returns the output of a command. Its error output appears only in the reason of a failure.

        Raises:
            Absent: There is no such command.
            Unreadable: The command failed, printed too much, or did not end in time.
        """
        command = shlex.join(words)
        with self._lock:  # `close` must know each started process
            end_s = self._end_s
            if time.monotonic() >= end_s:
                raise Unreadable(f"{command} was not started, because the time for commands is over")
            process = _start(words)
            self._running.add(process)
        try:
            output, errors, has_ended = _read_until_end(process, end_s)
        finally:
            self._running.discard(process)
        if len(output) + len(errors) > MAX_OUTPUT_BYTES:
            raise Unreadable(f"{command} printed more than {MAX_OUTPUT_BYTES >> 20} MiB")
        if not has_ended:
            raise Unreadable(f"{command} did not end in time")
        if process.returncode:
            first_line = (errors.strip() or output.strip()).decode(errors="replace").partition("\n")[0][:120]
            raise Unreadable(f"{command} failed: {first_line or f'exit code {process.returncode}'}")
        return output

    def close(self) -> None:
        """Kills all running commands. No command starts after this call."""
        with self._lock:
            self._end_s = 0.0
            running = tuple(self._running)
        for process in running:
            _kill(process)


def _start(words: list[str]) -> _Process:
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *_FOLDERS])
    try:
        return subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,  # apart from the output, because a warning would change what a check reads
            env=os.environ | {"PATH": path, "LC_ALL": "C"},
            start_new_session=True,  # to kill the process with its children
        )
    except (FileNotFoundError, IndexError) as error:  # IndexError: `words` is empty
        raise Absent(f"the command {shlex.join(words)}") from error
    except (OSError, ValueError) as error:
        raise Unreadable(f"{words[0]} cannot be started: {getattr(error, 'strerror', error)}") from error


def _read_until_end(process: _Process, end_s: float) -> tuple[bytes, bytes, bool]:
    """Returns output and error output of a process, and True if it ended within the limits of time and output.

    Otherwise kills the process and its children.
    """
    assert process.stdout is not None
    assert process.stderr is not None
    output, errors = bytearray(), bytearray()
    with process.stdout, process.stderr:
        open_pipes = [(process.stdout, output), (process.stderr, errors)]
        for pipe, _ in open_pipes:
            os.set_blocking(pipe.fileno(), False)
        # A child may keep a pipe open after the end of the process.
        while open_pipes and time.monotonic() < end_s and len(output) + len(errors) <= MAX_OUTPUT_BYTES:
            parts = [pipe.read(1 << 16) for pipe, _ in open_pipes]  # None: no output yet. Empty: the end of the pipe
            for (_, content), part in zip(open_pipes, parts, strict=True):
                content += part or b""
            open_pipes = [entry for entry, part in zip(open_pipes, parts, strict=True) if part != b""]
            if open_pipes and not any(parts):
                time.sleep(_POLL_S)
    if not open_pipes:
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, end_s - time.monotonic()))
            return bytes(output), bytes(errors), True
    _kill(process)
    return bytes(output), bytes(errors), False


def _kill(process: _Process) -> None:
    """Kills a process and all children in its process group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, SIGKILL)
    # A process that waits for a device may never end, so this wait has a limit.
    with suppress(subprocess.TimeoutExpired):
        process.wait(_REAP_S)
