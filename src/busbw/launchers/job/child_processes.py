"""Child processes of a launcher: starts them, reads their pipes, forwards signals and collects exit codes.

`processes.run_all` is the interface for the launchers. "Command" means the local child process, such as ssh, mpirun or
the program itself. A policy can have a grace period, which begins when a command ends. Commands that still run at the
end of this period get a signal, and SIGKILL 10 s later (`_end_overdue`). `processes.job_exit_code` decides the job's
exit code.
"""

import ctypes
import os
import resource
import selectors
import signal
import subprocess
import warnings
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from errno import EAGAIN, EMFILE, ENFILE, ENOMEM
from time import monotonic
from types import FrameType
from typing import IO

from busbw.engine import WORLD_VARIABLES
from busbw.errors import SIGNALLED, BusbwError, ExitCode
from busbw.launchers.job.grace_period import GracePeriod
from busbw.launchers.job.job import Command, LaunchCallbacks
from busbw.termination_signals import collected_signals

_TICK_S = 1.0
"""Maximum wait for output or a signal before time limits are checked again."""
_BACKLOG_TICK_S = 0.05
"""Poll interval while the reader of the output has paused, or while commands are connecting."""
_DRAIN_S = 1.0
"""How long pipes are read after all commands ended. A process that a command left behind may keep a pipe open."""
_DRAIN_TICK_S = 0.02
"""Poll interval during `_DRAIN_S`."""
_CONNECT_LIMIT_S = 10.0
"""How long a command without output delays the start of others."""
_KILL_S = 10.0
"""Time from the first end signal to SIGKILL."""
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
class TerminationPolicy:
    """Conditions and signals that end the processes."""

    on_interrupt: Callable[[], int | None] | None = None
    """Called on the first interrupt, which is then not forwarded. The returned signal, if any, is sent instead."""
    end_signal: int = signal.SIGKILL
    """Signal for an immediate end: on the second interrupt, or if this process dies."""
    grace_s: float | None = None
    """After a command ends, the others get this time to end by themselves (`GracePeriod`). None: they are not ended."""
    follows_first: bool = False
    """True if the grace period begins only when the first command ends. The other commands may end earlier."""
    limit_s: float | None = None
    """All commands are ended after this time. None: no limit."""
    should_end: Callable[[], bool] | None = None
    """Polled condition: all commands are ended once it returns true."""
    first_end_signal: Callable[[], int] = lambda: signal.SIGTERM
    """Returns the first signal after `grace_s`, `limit_s` or `should_end`. SIGKILL follows after 10 s."""
    signal_to_send: Callable[[], int | None] | None = None
    """Polled for a signal to send to all commands. None: no signal."""


@dataclass(frozen=True)
class ExitStatus:
    """Exit status of a command."""

    code: int
    """Exit code, or 128 + the signal's number if a signal ended the command."""
    was_terminated: bool = False
    """True if we ended the command: after the grace period or a time limit, on a second interrupt, or by the policy."""


@dataclass
class ChildProcess:
    """A started command."""

    command: Command
    process: "subprocess.Popen[bytes]"
    incomplete_lines: dict[int, bytes] = field(default_factory=dict)
    """Output after the last newline, by descriptor of the pipe."""
    was_terminated: bool = False
    is_lost: bool = False
    """True if we ended the command after the grace period, and no command had failed. It then counts as a lost rank."""
    has_output: bool = False
    started_s: float = field(default_factory=monotonic)

    def is_connecting(self) -> bool:
        """True for the first 10 s of a running command without output."""
        return not self.has_output and self.process.poll() is None and monotonic() < self.started_s + _CONNECT_LIMIT_S


class ChildProcesses:
    """Runs commands as child processes. Signals that arrived before a start are also sent to the new process."""

    def __init__(self, callbacks: LaunchCallbacks | None, policy: TerminationPolicy) -> None:
        self._callbacks = callbacks
        self._policy = policy
        self._children: list[ChildProcess] = []
        self._handled_count = 0
        """Number of received signals that were handled."""
        self._end_at_s = None if policy.limit_s is None else monotonic() + policy.limit_s
        """Time at which the commands are ended. None: not planned."""
        self._grace = None if policy.grace_s is None else GracePeriod(policy.grace_s)
        self._is_paused = False
        """True while the first command's stdout is not read."""
        self._selector = selectors.DefaultSelector()
        self._cleanup = ExitStack()

    def __enter__(self) -> "ChildProcesses":
        # A handler without effect is enough for SIGCHLD: the end of a command then wakes `select`.
        other_handlers = {signal.SIGTSTP: self._stop_all, signal.SIGCHLD: lambda _number, _frame: None}
        self._received_signals = self._cleanup.enter_context(collected_signals(other_handlers))
        self._selector.register(self._received_signals, selectors.EVENT_READ)
        return self

    def __exit__(self, *exception: object) -> None:
        has_failed = exception[0] is not None
        if has_failed:
            self._signal_groups(signal.SIGKILL)
        self._selector.close()
        self._cleanup.close()  # restores the signal handlers
        for child in self._children:
            for pipe in (child.process.stdin, child.process.stdout, child.process.stderr):
                if pipe:
                    with suppress(OSError):
                        pipe.close()
            child.process.wait()
        if not has_failed:
            self._end_by_unanswered_signal()

    def _end_by_unanswered_signal(self) -> None:
        """Ends this process by the first received signal if no command ended by a signal."""
        if not self._received_signals or self._has_custom_interrupt():
            return  # after a custom interrupt, the exit codes do not show if it worked
        codes = [child.process.returncode for child in self._children]
        if not any(code < 0 or code >= SIGNALLED for code in codes):
            os.kill(os.getpid(), self._received_signals[0])

    def start(self, command: Command) -> None:
        """Starts a command.

        Raises:
            BusbwError: The command cannot be started.
        """
        reads_stderr = self._callbacks is not None and self._callbacks.on_error is not None
        try:
            with warnings.catch_warnings():
                # Python warns of forks with threads, which numerical libraries start. `preexec_fn` takes no lock.
                warnings.simplefilter("ignore", DeprecationWarning)
                process = subprocess.Popen(
                    command.words,
                    env=_environment(command),
                    stdin=subprocess.DEVNULL if command.stdin is None else subprocess.PIPE,
                    stdout=subprocess.PIPE if self._callbacks else None,
                    stderr=subprocess.PIPE if reads_stderr else None,
                    start_new_session=True,
                    preexec_fn=_set_parent_death_signal(self._policy.end_signal),
                )
        except OSError as error:
            remedy = _START_REMEDIES.get(error.errno or 0, "install it, or correct its path")
            raise BusbwError(f"cannot start {command.words[0]}: {error.strerror}", remedy=remedy) from error
        child = ChildProcess(command, process)
        self._children.append(child)
        if command.stdin is not None and process.stdin:
            with suppress(BrokenPipeError):  # the command has ended already; its stderr tells why
                process.stdin.write(command.stdin.encode())
                process.stdin.flush()
        for pipe in (process.stdout, process.stderr):
            if pipe:
                self._selector.register(pipe, selectors.EVENT_READ, child)

    def wait_for_slot(self, max_connecting: int) -> None:
        """Waits until fewer than `max_connecting` commands are connecting, or until a signal arrives."""
        while not self._received_signals and sum(child.is_connecting() for child in self._children) >= max_connecting:
            self._read(_BACKLOG_TICK_S)
            if self._callbacks:
                self._callbacks.on_wait()
        if self._received_signals and self._policy.on_interrupt:
            self._forward_signals()  # on_interrupt may raise, before the next start
        if self._policy.limit_s is not None:  # the limit counts from the last start
            self._end_at_s = monotonic() + self._policy.limit_s

    def run_to_end(self) -> None:
        """Forwards output and signals until all commands have ended and their pipes are closed, at most 1 s later."""
        drain_until_s: float | None = None
        while True:
            self._forward_signals()
            running = [child for child in self._children if child.process.poll() is None]
            self._end_overdue(running)
            if not running and drain_until_s is None:
                drain_until_s = monotonic() + _DRAIN_S
            # Resumes before the check for pipes: a paused pipe is not registered, but may still hold output.
            self._pause_or_resume(may_pause=bool(running) and not self._received_signals)
            has_pipes = len(self._selector.get_map()) > 1  # one entry is the wake-up pipe
            if drain_until_s is not None and (not has_pipes or monotonic() > drain_until_s):
                self._read(0)  # output may have arrived while this process was stopped
                break
            self._read(self._poll_interval_s(is_running=bool(running)))
            if self._callbacks:
                try:
                    self._callbacks.on_wait()
                except BrokenPipeError:
                    self._close(self._children[0].process.stdout)
        for child in self._children:
            for descriptor in list(child.incomplete_lines):
                self._emit_lines(child, descriptor, b"", at_end=True)

    def _poll_interval_s(self, *, is_running: bool) -> float:
        if not is_running:
            return _DRAIN_TICK_S
        return _BACKLOG_TICK_S if self._is_paused else _TICK_S

    def statuses(self) -> list[ExitStatus]:
        """Exit statuses in the order of the starts."""
        return [_exit_status(child) for child in self._children]

    def _pause_or_resume(self, *, may_pause: bool) -> None:
        """Stops reading the first command's stdout while the reader of its output has paused."""
        stdout = self._children[0].process.stdout
        should_pause = may_pause and self._callbacks is not None and self._callbacks.is_backlogged()
        if not stdout or stdout.closed or should_pause == self._is_paused:
            return
        self._is_paused = should_pause
        if should_pause:
            self._selector.unregister(stdout)
        else:
            self._selector.register(stdout, selectors.EVENT_READ, self._children[0])

    def _read(self, limit_s: float) -> None:
        """Waits for output or a signal, at most `limit_s`, and emits the output."""
        for key, _ in self._selector.select(limit_s):
            if key.fileobj is self._received_signals:
                self._received_signals.clear_wake()
                continue
            child: ChildProcess = key.data
            chunk = os.read(key.fd, 65536)
            should_close = not chunk  # the end of the pipe
            try:
                self._emit_lines(child, key.fd, chunk, at_end=not chunk)
            except BrokenPipeError:
                should_close = True  # the program then gets SIGPIPE
            if should_close:
                child.incomplete_lines.pop(key.fd, None)
                self._close(key.fileobj)  # type: ignore[arg-type]  # as it was registered

    def _close(self, pipe: IO[bytes] | None) -> None:
        if pipe and not pipe.closed:
            if pipe in self._selector.get_map():
                self._selector.unregister(pipe)
            else:
                self._is_paused = False  # only the paused stdout is not registered
            pipe.close()

    def _emit_lines(self, child: ChildProcess, descriptor: int, chunk: bytes, *, at_end: bool) -> None:
        """Passes the complete lines to the callbacks, and at the end of the pipe also an incomplete one."""
        assert self._callbacks is not None
        child.has_output = True
        *complete, rest = (child.incomplete_lines.get(descriptor, b"") + chunk).split(b"\n")
        lines = [line + b"\n" for line in complete]
        if at_end and rest:
            lines.append(rest)
        child.incomplete_lines[descriptor] = b"" if at_end else rest
        stdout = child.process.stdout
        is_stdout = stdout is not None and not stdout.closed and stdout.fileno() == descriptor
        for line in lines:
            if not is_stdout and self._callbacks.on_error:
                self._callbacks.on_error(line, child.command.process)
            elif child is self._children[0]:
                self._callbacks.on_line(line)

    def _end_overdue(self, running: list[ChildProcess]) -> None:
        """Ends the running commands if a time limit is over or the policy requests it. Kills them 10 s later."""
        self._update_grace(running)
        now_s = monotonic()
        if self._end_at_s is None or now_s < self._end_at_s:
            is_grace_over = self._grace is not None and self._grace.is_over
            if not is_grace_over and not (self._policy.should_end and self._policy.should_end()):
                return
            self._end_at_s = now_s
        for child in running:
            if not child.was_terminated:
                self._terminate(child)
            elif now_s > self._end_at_s + _KILL_S:
                _signal_group(child, signal.SIGKILL)

    def _update_grace(self, running: list[ChildProcess]) -> None:
        """Passes the exit codes to the grace period, once a command has ended that begins this period."""
        if self._grace is None:
            return
        has_begun = len(running) < len(self._children)
        if self._policy.follows_first:
            has_begun = self._children[0] not in running
        if has_begun:
            codes = [child.process.returncode for child in self._children if not child.was_terminated]
            self._grace.update([code for code in codes if code is not None], is_paused=self._is_paused)

    def _terminate(self, child: ChildProcess) -> None:
        """Sends the first end signal. After a grace period without a failure, the command counts as lost."""
        child.was_terminated = True
        if self._grace and not self._grace.has_failed:
            child.is_lost = True
            if self._callbacks and self._callbacks.on_error:
                self._callbacks.on_error(self._grace.lost_message, child.command.process)
        _send_interrupt(child, self._policy.first_end_signal())

    def _forward_signals(self) -> None:
        """Sends the policy's signal, and handles the received ones. `processes.run_all` describes repeated signals."""
        if self._policy.signal_to_send:
            self._interrupt_all(self._policy.signal_to_send())
        # A single ordinary command gets every signal unchanged.
        escalates = len(self._children) > 1 or self._has_custom_interrupt()
        while self._handled_count < len(self._received_signals):
            number = self._received_signals[self._handled_count]
            is_first = self._handled_count == 0
            self._handled_count += 1
            if self._callbacks and escalates:
                self._callbacks.on_status("interrupted: the processes are ending; Ctrl-C again ends them at once")
            if is_first and self._policy.on_interrupt:
                self._interrupt_all(self._policy.on_interrupt())
            elif is_first or not escalates:
                self._interrupt_all(number)
            elif self._handled_count == 2:
                self._end_at_once(self._policy.end_signal)
            else:
                self._end_at_once(signal.SIGKILL)

    def _interrupt_all(self, number: int | None) -> None:
        """Interrupts all commands, as `_send_interrupt` does. None: sends no signal."""
        if number is not None:
            for child in self._children:
                _send_interrupt(child, number)

    def _end_at_once(self, number: int) -> None:
        """Sends a signal to the process groups of all commands. Those that still run count as terminated by us."""
        for child in self._children:
            child.was_terminated = child.was_terminated or child.process.poll() is None
        self._signal_groups(number)

    def _has_custom_interrupt(self) -> bool:
        """True if a command is interrupted in another way than by the received signal."""
        return self._policy.on_interrupt is not None or any(child.command.interrupt for child in self._children)

    def _stop_all(self, _number: int, _frame: FrameType | None) -> None:
        """Signal handler for Ctrl-Z: stops all commands and this process. The commands continue with this process."""
        self._signal_groups(signal.SIGSTOP)
        stopped_at_s = monotonic()
        os.kill(os.getpid(), signal.SIGSTOP)
        stopped_s = monotonic() - stopped_at_s  # the commands could not use this time
        if self._end_at_s is not None:
            self._end_at_s += stopped_s
        if self._grace:
            self._grace.postpone(stopped_s)
        self._signal_groups(signal.SIGCONT)

    def _signal_groups(self, number: int) -> None:
        for child in self._children:
            _signal_group(child, number)


def raise_open_file_limit(commands: int) -> None:
    """Raises the limit of open files, at most to its hard limit, for the pipes of this many commands."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    required = _FILES_PER_COMMAND * commands + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < required:
        limit = required if hard == resource.RLIM_INFINITY else min(required, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def _exit_status(child: ChildProcess) -> ExitStatus:
    if child.is_lost:
        return ExitStatus(ExitCode.RANK_LOST)
    code = child.process.returncode
    return ExitStatus(code if code >= 0 else SIGNALLED - code, child.was_terminated)


def _signal_group(child: ChildProcess, number: int) -> None:
    """Signals the process group of a child."""
    if child.process.poll() is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.process.pid, number)


def _send_interrupt(child: ChildProcess, number: int) -> None:
    """Sends a signal to a child, or instead the interrupt of its command: text on stdin, or another signal."""
    interrupt = child.command.interrupt
    if isinstance(interrupt, str) and child.process.stdin:
        with suppress(BrokenPipeError):
            child.process.stdin.write(interrupt.encode())
            child.process.stdin.flush()
    elif child.process.poll() is None:
        child.process.send_signal(interrupt if isinstance(interrupt, int) else number)
        child.process.send_signal(signal.SIGCONT)  # a stopped process would not handle the signal


def _environment(command: Command) -> dict[str, str]:
    """Returns our environment merged with the variables of the command.

    If the command sets one of WORLD_VARIABLES, it inherits none of these variables, which may belong to another job.
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
