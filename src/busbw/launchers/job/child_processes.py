"""Processes that a launcher has started: their pipes, the signals on their way to them, and their end."""

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
from busbw.errors import SIGNALLED, BusbwError
from busbw.launchers.job.job import PLACE, Command, LaunchCallbacks

_TICK_S = 1.0
_BEHIND_S = 0.05
"""How often a reader that has paused is looked at."""
_DRAIN_S = 1.0
"""How long pipes are read after the commands' end: a process that they left behind may keep one open for ever."""
_CONNECTS_S = 10.0
"""How long a command that says nothing may hold up the start of others."""
_KILL_S = 10.0
"""How long a command may take to end after it was asked to."""
_PR_SET_PDEATHSIG = 1
_FILES_EACH = 4
_FILES_BESIDES = 256
_REMEDIES = {
    EMFILE: "raise the limit of open files (ulimit -n), or start fewer processes",
    ENFILE: "start fewer processes: this machine has no more open files",
    EAGAIN: "raise the limit of processes (ulimit -u, or the container's), or start fewer",
    ENOMEM: "start fewer processes: the memory is used up",
}


@dataclass(frozen=True)
class TerminationPolicy:
    """When and how processes are ended."""

    on_interrupt: Callable[[], int | None] | None = None
    """Called at the first interrupt in place of passing it on, for what is ended in another way, or by the signal that
    it returns."""
    end_signal: int = signal.SIGKILL
    """Ends a command at once: at the second interrupt, and when this process dies without a word."""
    grace_s: float | None = None
    """When a command fails the others may take so long to end by themselves; then they are ended."""
    limit_s: float | None = None
    """All are ended after so long."""
    should_end: Callable[[], bool] | None = None
    """Asked now and then; all are ended once it is true."""
    first_end_signal: Callable[[], int] = lambda: signal.SIGTERM
    """What those that are ended get first; 10 s later they are killed."""
    signal_to_send: Callable[[], int | None] | None = None
    """Asked now and then for a signal that all are to get."""


@dataclass(frozen=True)
class ExitStatus:
    """How a command ended."""

    code: int
    """Its exit code; 128 + the signal's number when a signal ended it."""
    was_terminated: bool = False
    """Whether it was ended because another one had failed, or its time was over."""


@dataclass
class ChildProcess:
    """One of them."""

    command: Command
    process: "subprocess.Popen[bytes]"
    pending: dict[int, bytes] = field(default_factory=dict)
    by_us: bool = False
    has_spoken: bool = False
    since_s: float = field(default_factory=monotonic)

    def is_connecting(self) -> bool:
        """Whether nothing was heard from it, for as long as that means something."""
        return not self.has_spoken and self.process.poll() is None and monotonic() < self.since_s + _CONNECTS_S


class ChildProcesses:
    """Processes, their pipes, and the signals on their way to them; those that came before a start reach it too."""

    def __init__(self, watch: LaunchCallbacks | None, rules: TerminationPolicy) -> None:
        self._watch = watch
        self._rules = rules
        self._children: list[ChildProcess] = []
        self._received: list[int] = []
        self._handled = 0
        self._end_at_s = None if rules.limit_s is None else monotonic() + rules.limit_s
        self._has_failed = False
        self._is_held = False
        self._selector = selectors.DefaultSelector()
        self._before: dict[int, signal._HANDLER] = {}
        self._wake_read, self._wake_write = os.pipe()
        self._wake_before = -1

    def __enter__(self) -> "ChildProcesses":
        for end in (self._wake_read, self._wake_write):
            os.set_blocking(end, False)
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        # Each signal writes a byte at once: Python calls its handler only after a wait that has just begun.
        self._wake_before = signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        self._before = {
            number: signal.signal(number, self._receive) for number in termination_signals.handled_signals()
        }
        self._before[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, self._stop)
        self._before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda _number, _frame: None)  # it ends the wait
        return self

    def __exit__(self, *error: object) -> None:
        if error[0] is not None:
            self._signal_groups(signal.SIGKILL)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wake_before, warn_on_full_buffer=False)
        for child in self._children:
            for pipe in (child.process.stdin, child.process.stdout, child.process.stderr):
                if pipe:
                    with suppress(OSError):
                        pipe.close()
            child.process.wait()
        self._selector.close()
        os.close(self._wake_read)
        os.close(self._wake_write)
        heeded = any(child.process.returncode < 0 or child.process.returncode >= SIGNALLED for child in self._children)
        if error[0] is None and self._received and not heeded and not self._has_own_interrupt():
            os.kill(os.getpid(), self._received[0])

    def start(self, command: Command) -> None:
        """Starts one more.

        Raises:
            BusbwError: It cannot be started.
        """
        reads_errors = self._watch is not None and self._watch.on_error is not None
        try:
            with warnings.catch_warnings():
                # Python warns of threads, which numerical libraries have: a danger to code that takes locks.
                warnings.simplefilter("ignore", DeprecationWarning)
                process = subprocess.Popen(
                    command.words,
                    env=_environment(command),
                    stdin=subprocess.DEVNULL if command.stdin is None else subprocess.PIPE,
                    stdout=subprocess.PIPE if self._watch else None,
                    stderr=subprocess.PIPE if reads_errors else None,
                    start_new_session=True,
                    preexec_fn=_set_parent_death_signal(self._rules.end_signal),
                )
        except OSError as error:
            remedy = _REMEDIES.get(error.errno or 0, "install it, or correct its path")
            raise BusbwError(f"cannot start {command.words[0]}: {error.strerror}", remedy=remedy) from error
        child = ChildProcess(command, process)
        self._children.append(child)
        if command.stdin is not None and process.stdin:
            with suppress(BrokenPipeError):  # it has ended already, and will say why
                process.stdin.write(command.stdin.encode())
                process.stdin.flush()
        for pipe in (process.stdout, process.stderr):
            if pipe:
                self._selector.register(pipe, selectors.EVENT_READ, child)

    def wait_for_slot(self, at_a_time: int) -> None:
        """Until fewer of them have yet to say something, or a signal came, which is for those that come, too."""
        while not self._received and sum(child.is_connecting() for child in self._children) >= at_a_time:
            self._read(_BEHIND_S)
            if self._watch:
                self._watch.on_wait()
        if self._received and self._rules.on_interrupt:
            self._pass_on()  # what it breaks off by must come before the next start
        if self._rules.limit_s is not None:
            self._end_at_s = monotonic() + self._rules.limit_s

    def run_to_end(self) -> None:
        """Until all have ended and what they said is read."""
        drain_until_s: float | None = None
        while True:
            self._pass_on()
            alive = [child for child in self._children if child.process.poll() is None]
            self._end_the_rest(alive)
            if not alive and drain_until_s is None:
                drain_until_s = monotonic() + _DRAIN_S
            # First of all: a pipe that is held is not among those that are read, and may be full at the end.
            self._hold(is_wanted=bool(alive) and not self._received)
            has_pipes = len(self._selector.get_map()) > 1
            if drain_until_s is not None and (not has_pipes or monotonic() > drain_until_s):
                self._read(0)  # the time may have gone by without a look: while this process was stopped
                break
            self._read(_TICK_S if alive and not self._is_held else _BEHIND_S if alive else 0.02)
            if self._watch:
                try:
                    self._watch.on_wait()
                except BrokenPipeError:
                    self._close(self._children[0].process.stdout)
        for child in self._children:
            for key in list(child.pending):
                self._hand_on(child, key, b"", at_end=True)

    def ended(self) -> list[ExitStatus]:
        """How each ended, in the order of their start."""
        codes = [(child.process.returncode, child.by_us) for child in self._children]
        return [ExitStatus(code if code >= 0 else SIGNALLED - code, by_us) for code, by_us in codes]

    def _hold(self, *, is_wanted: bool) -> None:
        """Leaves in its pipe what the first one says, while the reader of what it said before has paused."""
        out = self._children[0].process.stdout
        is_held = is_wanted and self._watch is not None and self._watch.is_backlogged()
        if not out or out.closed or is_held == self._is_held:
            return
        self._is_held = is_held
        if is_held:
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
                self._hand_on(child, key.fd, chunk, at_end=not chunk)
            except BrokenPipeError:
                chunk = b""  # closing our end tells the program that nobody reads any more
            if not chunk:
                child.pending.pop(key.fd, None)
                self._close(key.fileobj)  # type: ignore[arg-type]  # as it was registered

    def _close(self, pipe: IO[bytes] | None) -> None:
        if pipe and not pipe.closed:
            if pipe in self._selector.get_map():
                self._selector.unregister(pipe)
            pipe.close()

    def _hand_on(self, child: ChildProcess, descriptor: int, chunk: bytes, *, at_end: bool) -> None:
        assert self._watch is not None
        child.has_spoken = True
        *lines, rest = (child.pending.get(descriptor, b"") + chunk).split(b"\n")
        child.pending[descriptor] = b"" if at_end else rest
        out = child.process.stdout
        is_out = out is not None and not out.closed and out.fileno() == descriptor
        for line in [*(line + b"\n" for line in lines), *([rest] if at_end and rest else [])]:
            if not is_out and self._watch.on_error:
                self._watch.on_error(line, child.command.process)
            elif child is self._children[0]:
                self._watch.on_line(line)

    def _end_the_rest(self, alive: list[ChildProcess]) -> None:
        """Where their time is over, or one has failed and the others do not end by themselves."""
        now_s = monotonic()
        if self._rules.grace_s is not None and not self._has_failed:
            self._has_failed = any(child.process.returncode not in (None, 0) for child in self._children)
            if self._has_failed:
                self._end_at_s = min(self._end_at_s or math.inf, now_s + self._rules.grace_s)
        if self._end_at_s is None and self._rules.should_end and self._rules.should_end():
            self._end_at_s = now_s
        if self._end_at_s is None:
            return
        for child in alive:
            if now_s > self._end_at_s + _KILL_S:
                _signal_group(child, signal.SIGKILL)
            elif now_s >= self._end_at_s and not child.by_us:
                child.by_us = True
                _interrupt(child, self._rules.first_end_signal())

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        """As a handler of signals."""
        self._received.append(number)

    def _pass_on(self) -> None:
        if self._rules.signal_to_send and (number := self._rules.signal_to_send()):
            for child in self._children:
                _interrupt(child, number)
        has_more = len(self._children) > 1 or self._has_own_interrupt()
        while self._handled < len(self._received):
            number = self._received[self._handled]
            self._handled += 1
            if self._watch and has_more:
                self._watch.on_status("interrupted: the processes are ending; Ctrl-C again ends them at once")
            if self._handled == 1 and self._rules.on_interrupt:
                if instead := self._rules.on_interrupt():
                    for child in self._children:
                        _interrupt(child, instead)
            elif self._handled > 1 and has_more:
                for child in self._children:
                    child.by_us = child.by_us or child.process.poll() is None
                self._signal_groups(self._rules.end_signal if self._handled == 2 else signal.SIGKILL)
            else:
                for child in self._children:
                    _interrupt(child, number)

    def _has_own_interrupt(self) -> bool:
        """Whether the exit codes do not show what became of an interrupt: the launcher knows."""
        return self._rules.on_interrupt is not None or any(child.command.interrupt for child in self._children)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        """Ctrl-Z: all of them stop, then this process; they go on together."""
        self._signal_groups(signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        self._signal_groups(signal.SIGCONT)

    def _signal_groups(self, number: int) -> None:
        for child in self._children:
            _signal_group(child, number)


def raise_open_file_limit(commands: int) -> None:
    """Raises the limit of open files, as far as it goes, where the pipes of so many commands would not fit."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES_EACH * commands + _FILES_BESIDES
    if now != resource.RLIM_INFINITY and now < wanted:
        limit = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))


def _signal_group(child: ChildProcess, number: int) -> None:
    """The process and what it started."""
    if child.process.poll() is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.process.pid, number)


def _interrupt(child: ChildProcess, number: int) -> None:
    how = child.command.interrupt
    if isinstance(how, str) and child.process.stdin:
        with suppress(BrokenPipeError):
            child.process.stdin.write(how.encode())
            child.process.stdin.flush()
    elif child.process.poll() is None:
        child.process.send_signal(how if isinstance(how, int) else number)
        child.process.send_signal(signal.SIGCONT)  # one that is stopped would not heed it


def _environment(command: Command) -> dict[str, str]:
    """Ours and the command's. A place in another job is not inherited beside one that is given.

    Where none is given, one stays that we have ourselves.
    """
    given = dict(command.environment)
    has_place = not given.keys().isdisjoint(PLACE)
    return {
        name: value
        for name, value in {**os.environ, **given}.items()
        if name in given or not ((has_place and name in PLACE) or name in command.unset)
    }


def _set_parent_death_signal(number: int) -> Callable[[], None]:
    """What a child runs before its program, so that no rank outlives a launcher that was killed."""
    control = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def ask() -> None:
        control(_PR_SET_PDEATHSIG, number)
        if os.getppid() != parent:
            os._exit(SIGNALLED + number)  # it died before that took effect

    return ask
