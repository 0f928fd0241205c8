"""Child processes of a launcher: starts them, reads their pipes, forwards signals and collects exit codes."""

import ctypes
import math
import os
import resource
import selectors
import signal
import subprocess
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from errno import EAGAIN, EMFILE, ENFILE, ENOMEM
from time import monotonic
from types import FrameType
from typing import IO

from busbw import termination_signals
from busbw.engine import WORLD_VARIABLES
from busbw.errors import SIGNALLED, BusbwError
from busbw.launchers.job.job import Command, LaunchCallbacks

_TICK_S = 1.0
_BACKLOG_TICK_S = 0.05
"""Poll interval while the reader of the output has paused, or while commands are connecting."""
_DRAIN_S = 1.0
"""How long pipes are read after all commands ended. A process that they left behind may keep a pipe open."""
_CONNECT_LIMIT_S = 10.0
"""How long a command without output delays the start of others."""
_KILL_S = 10.0
"""Time from the first end signal to SIGKILL."""
_PR_SET_PDEATHSIG = 1
_FILES_PER_COMMAND = 4
_OTHER_FILES = 256
_REMEDIES = {
    EMFILE: "raise the limit of open files (ulimit -n), or start fewer processes",
    ENFILE: "start fewer processes: the machine's open file limit is reached",
    EAGAIN: "raise the process limit (ulimit -u, or the container's), or start fewer",
    ENOMEM: "start fewer processes: the memory is exhausted",
}


@dataclass(frozen=True)
class TerminationPolicy:
    """Conditions and signals that end the processes."""

    on_interrupt: Callable[[], int | None] | None = None
    """Called on the first interrupt, which is then not forwarded. The returned signal, if any, is sent instead."""
    end_signal: int = signal.SIGKILL
    """Signal that ends a command at once: on the second interrupt, or if this process dies."""
    grace_s: float | None = None
    """After a command fails, the others are ended after this time. None: they are not ended."""
    limit_s: float | None = None
    """All commands are ended after this time. None: no limit."""
    should_end: Callable[[], bool] | None = None
    """Polled condition: all commands are ended once it returns true."""
    first_end_signal: Callable[[], int] = lambda: signal.SIGTERM
    """Returns the first signal for a command that must end. SIGKILL follows after 10 s."""
    signal_to_send: Callable[[], int | None] | None = None
    """Polled for a signal to send to all commands. None: no signal."""


@dataclass(frozen=True)
class ExitStatus:
    """Exit status of a command."""

    code: int
    """Exit code, or 128 + the signal's number if a signal ended the command."""
    was_terminated: bool = False
    """True if we ended the command: another one had failed, its time was over, or a second interrupt came."""


@dataclass
class ChildProcess:
    """A command with its process and its incomplete output lines."""

    command: Command
    process: "subprocess.Popen[bytes]"
    pending: dict[int, bytes] = field(default_factory=dict)
    was_terminated: bool = False
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
        self._received: list[int] = []
        self._handled = 0
        self._end_at_s = None if policy.limit_s is None else monotonic() + policy.limit_s
        self._has_failed = False
        self._is_paused = False
        self._selector = selectors.DefaultSelector()
        self._old_handlers: dict[int, signal._HANDLER] = {}
        self._wake_read, self._wake_write = os.pipe()
        self._old_wakeup_fd = -1

    def __enter__(self) -> "ChildProcesses":
        for end in (self._wake_read, self._wake_write):
            os.set_blocking(end, False)
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        # Each signal also writes a byte to this pipe, so that it ends a `select` that has just begun.
        self._old_wakeup_fd = signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        self._old_handlers = {
            number: signal.signal(number, self._receive) for number in termination_signals.handled_signals()
        }
        self._old_handlers[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, self._stop)
        self._old_handlers[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda _number, _frame: None)  # wakes select
        return self

    def __exit__(self, *error: object) -> None:
        if error[0] is not None:
            self._signal_groups(signal.SIGKILL)
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_wakeup_fd, warn_on_full_buffer=False)
        for child in self._children:
            for pipe in (child.process.stdin, child.process.stdout, child.process.stderr):
                if pipe:
                    with suppress(OSError):
                        pipe.close()
            child.process.wait()
        self._selector.close()
        os.close(self._wake_read)
        os.close(self._wake_write)
        ended_by_signal = any(
            child.process.returncode < 0 or child.process.returncode >= SIGNALLED for child in self._children
        )
        if error[0] is None and self._received and not ended_by_signal and not self._has_own_interrupt():
            os.kill(os.getpid(), self._received[0])

    def start(self, command: Command) -> None:
        """Starts a command.

        Raises:
            BusbwError: The command cannot be started.
        """
        reads_stderr = self._callbacks is not None and self._callbacks.on_error is not None
        try:
            with warnings.catch_warnings():
                # Python warns of fork with threads, which numerical libraries start. Only code with locks is at risk.
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
            remedy = _REMEDIES.get(error.errno or 0, "install it, or correct its path")
            raise BusbwError(f"cannot start {command.words[0]}: {error.strerror}", remedy=remedy) from error
        child = ChildProcess(command, process)
        self._children.append(child)
        if command.stdin is not None and process.stdin:
            with suppress(BrokenPipeError):  # it has ended already; its stderr tells why
                process.stdin.write(command.stdin.encode())
                process.stdin.flush()
        for pipe in (process.stdout, process.stderr):
            if pipe:
                self._selector.register(pipe, selectors.EVENT_READ, child)

    def wait_for_slot(self, max_connecting: int) -> None:
        """Waits until fewer than `max_connecting` commands lack output, or until a signal arrives."""
        while not self._received and sum(child.is_connecting() for child in self._children) >= max_connecting:
            self._read(_BACKLOG_TICK_S)
            if self._callbacks:
                self._callbacks.on_wait()
        if self._received and self._policy.on_interrupt:
            self._forward_signals()  # on_interrupt may raise, before the next start
        if self._policy.limit_s is not None:
            self._end_at_s = monotonic() + self._policy.limit_s

    def run_to_end(self) -> None:
        """Forwards output and signals until all commands have ended and their pipes are empty."""
        drain_until_s: float | None = None
        while True:
            self._forward_signals()
            alive = [child for child in self._children if child.process.poll() is None]
            self._end_overdue(alive)
            if not alive and drain_until_s is None:
                drain_until_s = monotonic() + _DRAIN_S
            # Comes before the check for pipes: a paused pipe is not registered, but may still hold output.
            self._pause_or_resume(may_pause=bool(alive) and not self._received)
            has_pipes = len(self._selector.get_map()) > 1
            if drain_until_s is not None and (not has_pipes or monotonic() > drain_until_s):
                self._read(0)  # this process may have been stopped during the drain time
                break
            self._read(_TICK_S if alive and not self._is_paused else _BACKLOG_TICK_S if alive else 0.02)
            if self._callbacks:
                try:
                    self._callbacks.on_wait()
                except BrokenPipeError:
                    self._close(self._children[0].process.stdout)
        for child in self._children:
            for key in list(child.pending):
                self._emit_lines(child, key, b"", at_end=True)

    def statuses(self) -> list[ExitStatus]:
        """Exit statuses in the order of the starts."""
        codes = [(child.process.returncode, child.was_terminated) for child in self._children]
        return [ExitStatus(code if code >= 0 else SIGNALLED - code, was_terminated) for code, was_terminated in codes]

    def _pause_or_resume(self, *, may_pause: bool) -> None:
        """Stops reading the first command's stdout while the reader of its output has paused."""
        out = self._children[0].process.stdout
        is_paused = may_pause and self._callbacks is not None and self._callbacks.is_backlogged()
        if not out or out.closed or is_paused == self._is_paused:
            return
        self._is_paused = is_paused
        if is_paused:
            self._selector.unregister(out)
        else:
            self._selector.register(out, selectors.EVENT_READ, self._children[0])

    def _read(self, limit_s: float) -> None:
        for key, _ in self._selector.select(limit_s):
            if key.fd == self._wake_read:
                with suppress(BlockingIOError):
                    os.read(self._wake_read, 4096)
                continue
            child: ChildProcess = key.data
            chunk = os.read(key.fd, 65536)
            try:
                self._emit_lines(child, key.fd, chunk, at_end=not chunk)
            except BrokenPipeError:
                chunk = b""  # closing our end gives the program SIGPIPE
            if not chunk:
                child.pending.pop(key.fd, None)
                self._close(key.fileobj)  # type: ignore[arg-type]  # as it was registered

    def _close(self, pipe: IO[bytes] | None) -> None:
        if pipe and not pipe.closed:
            if pipe in self._selector.get_map():
                self._selector.unregister(pipe)
            pipe.close()

    def _emit_lines(self, child: ChildProcess, descriptor: int, chunk: bytes, *, at_end: bool) -> None:
        assert self._callbacks is not None
        child.has_output = True
        *lines, rest = (child.pending.get(descriptor, b"") + chunk).split(b"\n")
        child.pending[descriptor] = b"" if at_end else rest
        out = child.process.stdout
        is_out = out is not None and not out.closed and out.fileno() == descriptor
        for line in [*(line + b"\n" for line in lines), *([rest] if at_end and rest else [])]:
            if not is_out and self._callbacks.on_error:
                self._callbacks.on_error(line, child.command.process)
            elif child is self._children[0]:
                self._callbacks.on_line(line)

    def _end_overdue(self, alive: list[ChildProcess]) -> None:
        """Ends commands after their time limit, or after the grace period since another one failed."""
        now_s = monotonic()
        if self._policy.grace_s is not None and not self._has_failed:
            self._has_failed = any(child.process.returncode not in (None, 0) for child in self._children)
            if self._has_failed:
                self._end_at_s = min(self._end_at_s or math.inf, now_s + self._policy.grace_s)
        if self._end_at_s is None and self._policy.should_end and self._policy.should_end():
            self._end_at_s = now_s
        if self._end_at_s is None:
            return
        for child in alive:
            if now_s > self._end_at_s + _KILL_S:
                _signal_group(child, signal.SIGKILL)
            elif now_s >= self._end_at_s and not child.was_terminated:
                child.was_terminated = True
                _interrupt(child, self._policy.first_end_signal())

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        """Signal handler: queues the signal for `_forward_signals`."""
        self._received.append(number)

    def _forward_signals(self) -> None:
        if self._policy.signal_to_send and (number := self._policy.signal_to_send()):
            for child in self._children:
                _interrupt(child, number)
        has_more = len(self._children) > 1 or self._has_own_interrupt()
        while self._handled < len(self._received):
            number = self._received[self._handled]
            self._handled += 1
            if self._callbacks and has_more:
                self._callbacks.on_status("interrupted: the processes are ending; Ctrl-C again ends them at once")
            if self._handled == 1 and self._policy.on_interrupt:
                if replacement := self._policy.on_interrupt():
                    for child in self._children:
                        _interrupt(child, replacement)
            elif self._handled > 1 and has_more:
                for child in self._children:
                    child.was_terminated = child.was_terminated or child.process.poll() is None
                self._signal_groups(self._policy.end_signal if self._handled == 2 else signal.SIGKILL)
            else:
                for child in self._children:
                    _interrupt(child, number)

    def _has_own_interrupt(self) -> bool:
        """True if commands are not interrupted by the plain signal, so that exit codes cannot show its effect."""
        return self._policy.on_interrupt is not None or any(child.command.interrupt for child in self._children)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        """Handles Ctrl-Z: stops all commands, then this process, and continues them together."""
        self._signal_groups(signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        self._signal_groups(signal.SIGCONT)

    def _signal_groups(self, number: int) -> None:
        for child in self._children:
            _signal_group(child, number)


def raise_open_file_limit(commands: int) -> None:
    """Raises the limit of open files, at most to its hard limit, for the pipes of this many commands."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES_PER_COMMAND * commands + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def _signal_group(child: ChildProcess, number: int) -> None:
    """Signals the process group of a child."""
    if child.process.poll() is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.process.pid, number)


def _interrupt(child: ChildProcess, number: int) -> None:
    interrupt = child.command.interrupt
    if isinstance(interrupt, str) and child.process.stdin:
        with suppress(BrokenPipeError):
            child.process.stdin.write(interrupt.encode())
            child.process.stdin.flush()
    elif child.process.poll() is None:
        child.process.send_signal(interrupt if isinstance(interrupt, int) else number)
        child.process.send_signal(signal.SIGCONT)  # a stopped process would not handle it


def _environment(command: Command) -> dict[str, str]:
    """Returns our environment merged with the command's.

    If the command sets one of WORLD_VARIABLES, it inherits none of the others: they may belong to another job.
    """
    own = dict(command.environment)
    sets_world = not own.keys().isdisjoint(WORLD_VARIABLES)
    return {
        name: value
        for name, value in {**os.environ, **own}.items()
        if name in own or not ((sets_world and name in WORLD_VARIABLES) or name in command.unset)
    }


def _set_parent_death_signal(number: int) -> Callable[[], None]:
    """Returns a `preexec_fn` that has the kernel signal the child if this process dies, so that no rank outlives it."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def set_signal() -> None:
        prctl(_PR_SET_PDEATHSIG, number)
        if os.getppid() != parent:
            os._exit(SIGNALLED + number)  # the parent died before prctl took effect

    return set_signal
