"""Starts a command as a child process, with its environment, its pipes and the signal for the death of this process."""

import ctypes
import os
import resource
import signal
import subprocess
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from errno import EAGAIN, EMFILE, ENFILE, ENOMEM
from time import monotonic

from busbw.engine import WORLD_VARIABLES
from busbw.errors import SIGNALLED, BusbwError, ExitCode
from busbw.launchers.job.job import Command

_CONNECT_LIMIT_S = 10.0
"""How long a command without output delays the start of others."""
_PR_SET_PDEATHSIG = 1
"""Number of the operation PR_SET_PDEATHSIG in linux/prctl.h."""
_FILES_PER_COMMAND = 4
"""Three pipes for stdin, stdout and stderr, and one descriptor in reserve."""
_OTHER_FILES = 256
"""Descriptors for everything else in this process."""
_START_REMEDIES = {
    EMFILE: "raise the limit of open files (ulimit -n), or start fewer processes",
    ENFILE: "start fewer processes: the machine's open file limit is reached",
    EAGAIN: "raise the process limit (ulimit -u, or the container's), or start fewer",
    ENOMEM: "start fewer processes: the memory is exhausted",
}
"""Remedies by the error number of a failed start."""


@dataclass(frozen=True)
class ExitStatus:
    """Exit status of a command."""

    code: int
    """Exit code, or 128 + the signal's number if a signal ended the command."""
    was_terminated: bool = False
    """True if busbw ended the command: after the grace period or a time limit, on a second signal, or by the policy."""
    interrupt_code: int = 0
    """Exit code of the interrupt if busbw ended the command on a second signal. 0: no second signal."""


@dataclass
class ChildProcess:
    """A started command."""

    command: Command
    process: "subprocess.Popen[bytes]"
    incomplete_lines: dict[int, bytes] = field(default_factory=dict)
    """Output after the last newline, by descriptor of the pipe."""
    was_terminated: bool = False
    interrupt_code: int = 0
    """The member of `ExitStatus` with this name."""
    is_lost: bool = False
    """True if busbw ended the command after the grace period, and no command had failed. It counts as a lost rank."""
    has_output: bool = False
    started_s: float = field(default_factory=monotonic)

    def is_connecting(self) -> bool:
        """True for the first 10 s of a running command without output."""
        return not self.has_output and self.process.poll() is None and monotonic() < self.started_s + _CONNECT_LIMIT_S

    def write_stdin(self) -> None:
        """Writes the text that the command reads from stdin, if any."""
        if self.command.stdin is not None and self.process.stdin:
            with suppress(BrokenPipeError):  # the command has ended already; its stderr tells why
                self.process.stdin.write(self.command.stdin.encode())
                self.process.stdin.flush()

    def exit_status(self) -> ExitStatus:
        """Exit status of an ended command."""
        if self.is_lost:
            return ExitStatus(ExitCode.RANK_LOST)
        code = self.process.returncode
        return ExitStatus(code if code >= 0 else SIGNALLED - code, self.was_terminated, self.interrupt_code)

    def signal_group(self, number: int) -> None:
        """Signals the process group of the command."""
        if self.process.poll() is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)

    def send_interrupt(self, number: int) -> None:
        """Sends a signal to the command, or instead its own interrupt: text on stdin, or another signal."""
        interrupt = self.command.interrupt
        if isinstance(interrupt, str) and self.process.stdin:
            name = "INT" if number == signal.SIGINT else "TERM"  # a host may ignore SIGHUP, as under nohup
            with suppress(BrokenPipeError):
                self.process.stdin.write(interrupt.format(signal=name).encode())
                self.process.stdin.flush()
        elif self.process.poll() is None:
            self.process.send_signal(interrupt if isinstance(interrupt, int) else number)
            self.process.send_signal(signal.SIGCONT)  # a stopped process would not handle the signal


def start_process(
    command: Command, *, reads_stdout: bool, reads_stderr: bool, parent_death_signal: int
) -> ChildProcess:
    """Starts a command in a session of its own.

    Raises:
        BusbwError: The command cannot be started.
    """
    try:
        with warnings.catch_warnings():
            # Python warns of forks with threads, which numerical libraries start. `preexec_fn` takes no lock.
            warnings.simplefilter("ignore", DeprecationWarning)
            process = subprocess.Popen(
                command.words,
                env=_environment(command),
                stdin=subprocess.DEVNULL if command.stdin is None else subprocess.PIPE,
                stdout=subprocess.PIPE if reads_stdout else None,
                stderr=subprocess.PIPE if reads_stderr else None,
                start_new_session=True,
                preexec_fn=_set_parent_death_signal(parent_death_signal),
            )
    except OSError as error:
        remedy = _START_REMEDIES.get(error.errno or 0, "install it, or correct its path")
        raise BusbwError(f"cannot start {command.words[0]}: {error.strerror}", remedy=remedy) from error
    return ChildProcess(command, process)


def raise_open_file_limit(commands: int) -> None:
    """Raises the limit of open files, at most to its hard limit, for the pipes of this many commands."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    required = _FILES_PER_COMMAND * commands + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < required:
        limit = required if hard == resource.RLIM_INFINITY else min(required, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def _environment(command: Command) -> dict[str, str]:
    """Returns busbw's environment merged with the variables of the command.

    WORLD_VARIABLES define a job and the place of a process in it. A command that sets one of them inherits none of
    them, because those of busbw's environment may belong to another job.
    """
    command_variables = dict(command.environment)
    sets_world = not command_variables.keys().isdisjoint(WORLD_VARIABLES)
    not_inherited = {*command.unset, *(WORLD_VARIABLES if sets_world else ())}
    inherited = {name: value for name, value in os.environ.items() if name not in not_inherited}
    return inherited | command_variables


def _set_parent_death_signal(number: int) -> Callable[[], None]:
    """Returns a `preexec_fn` that has the kernel signal the child if this process dies, so that no rank outlives it."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def set_signal() -> None:
        prctl(_PR_SET_PDEATHSIG, number)
        if os.getppid() != parent:
            os._exit(SIGNALLED + number)  # the parent died before prctl took effect

    return set_signal
