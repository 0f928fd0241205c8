"""Child processes of a launcher: forwards signals to them, ends them after time limits, and collects exit codes.

`processes.run_all` is the interface for the launchers. "Command" means the local child process, such as ssh, mpirun or
the program itself. `command_start` starts a command, `command_output` reads its pipes.
"""

import os
import signal
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from time import monotonic
from types import FrameType

from busbw.errors import SIGNALLED, ExitCode
from busbw.launchers.job.command_output import CommandOutput
from busbw.launchers.job.command_start import ChildProcess, ExitStatus, start_process
from busbw.launchers.job.grace_period import GracePeriod
from busbw.launchers.job.job import Command, LaunchCallbacks
from busbw.support.termination_signals import collected_signals

_TICK_S = 1.0
"""Maximum wait for output or a signal before time limits are checked again."""
_BACKLOG_TICK_S = 0.05
"""Poll interval while the reader of the output has paused, or while commands are connecting."""
_DRAIN_S = 1.0
"""How long pipes are read after all commands ended. A process that a command left behind may keep a pipe open."""
_DRAIN_TICK_S = 0.02
"""Poll interval during `_DRAIN_S`."""
_KILL_S = 10.0
"""Time from the first end signal to SIGKILL."""


@dataclass(frozen=True)
class TerminationPolicy:
    """Conditions and signals that end the processes."""

    on_interrupt: Callable[[], int | None] | None = None
    """Called on the first received signal instead of forwarding it. The returned signal, if any, is sent."""
    end_signal: int = signal.SIGKILL
    """Signal for an end at once: on the second received signal, or if this process dies."""
    grace_s: float | None = None
    """After a command ends, the others get this time to end by themselves (`GracePeriod`). None: they are not ended."""
    follows_first: bool = False
    """True if the grace period begins only when the first command ends. The other commands may end earlier."""
    limit_s: float | None = None
    """All commands are ended after this time. None: no limit."""
    should_end: Callable[[], bool] | None = None
    """Polled condition: all commands are ended once it returns true."""
    first_end_signal: Callable[[], int] = lambda: signal.SIGTERM
    """Returns the first signal for any other end (`grace_s`, `limit_s`, `should_end`). SIGKILL follows after 10 s."""
    signal_to_send: Callable[[], int | None] | None = None
    """Polled for a signal to send to all commands. None: no signal."""


class ChildProcesses:
    """Runs commands as child processes. A signal that arrives before the last start is forwarded after that start."""

    def __init__(self, callbacks: LaunchCallbacks | None, policy: TerminationPolicy) -> None:
        self._callbacks = callbacks
        self._policy = policy
        self._children: list[ChildProcess] = []
        self._handled_count = 0
        """Number of received signals that were handled."""
        self._end_at_s = None if policy.limit_s is None else monotonic() + policy.limit_s
        """Time at which the commands are ended. None: not planned."""
        self._grace = None if policy.grace_s is None else GracePeriod(policy.grace_s)
        self._cleanup = ExitStack()

    def __enter__(self) -> "ChildProcesses":
        # A handler without effect is enough for SIGCHLD: the end of a command then wakes `select`.
        other_handlers = {signal.SIGTSTP: self._stop_all, signal.SIGCHLD: lambda _number, _frame: None}
        self._received_signals = self._cleanup.enter_context(collected_signals(other_handlers))
        self._output = CommandOutput(self._callbacks, self._received_signals)
        return self

    def __exit__(self, *exception: object) -> None:
        has_failed = exception[0] is not None
        if has_failed:
            self._signal_groups(signal.SIGKILL)
        self._output.stop()
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
        child = start_process(
            command,
            reads_stdout=self._callbacks is not None,
            reads_stderr=reads_stderr,
            parent_death_signal=self._policy.end_signal,
        )
        self._children.append(child)
        child.write_stdin()
        self._output.add(child)

    def wait_for_slot(self, max_connecting: int) -> None:
        """Waits until fewer than `max_connecting` commands are connecting, or until a signal arrives."""
        while not self._received_signals and sum(child.is_connecting() for child in self._children) >= max_connecting:
            self._output.read(_BACKLOG_TICK_S)
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
            self._output.pause_or_resume(may_pause=bool(running) and not self._received_signals)
            if drain_until_s is not None and (not self._output.has_pipes or monotonic() > drain_until_s):
                self._output.read(0)  # output may have arrived while this process was stopped
                break
            self._output.read(self._poll_interval_s(is_running=bool(running)))
            if self._callbacks:
                try:
                    self._callbacks.on_wait()
                except BrokenPipeError:
                    self._output.close_stdout()
        self._output.emit_incomplete_lines()

    def _poll_interval_s(self, *, is_running: bool) -> float:
        if not is_running:
            return _DRAIN_TICK_S
        return _BACKLOG_TICK_S if self._output.is_paused else _TICK_S

    def statuses(self) -> list[ExitStatus]:
        """Exit statuses in the order of the starts."""
        return [child.exit_status() for child in self._children]

    def _end_overdue(self, running: list[ChildProcess]) -> None:
        """Ends the running commands if a time limit is over or the policy requests it. Kills them 10 s later."""
        self._update_grace(running)
        now_s = monotonic()
        if self._end_at_s is None or now_s < self._end_at_s:
            if not self._is_end_requested():
                return
            self._end_at_s = now_s  # the 10 s until SIGKILL begin, and later calls skip this condition
        for child in running:
            if not child.was_terminated:
                self._terminate(child)
            elif now_s > self._end_at_s + _KILL_S:
                child.signal_group(signal.SIGKILL)

    def _is_end_requested(self) -> bool:
        """True if the grace period is over, or the policy's condition is true."""
        is_grace_over = self._grace is not None and self._grace.is_over
        return is_grace_over or (self._policy.should_end is not None and self._policy.should_end())

    def _update_grace(self, running: list[ChildProcess]) -> None:
        """Passes the exit codes to the grace period, once a command has ended that begins this period."""
        if self._grace is None:
            return
        has_begun = len(running) < len(self._children)
        if self._policy.follows_first:
            has_begun = self._children[0] not in running
        if has_begun:
            codes = [child.process.returncode for child in self._children if not child.was_terminated]
            self._grace.update([code for code in codes if code is not None], is_paused=self._output.is_paused)

    def _terminate(self, child: ChildProcess) -> None:
        """Sends the first end signal. After a grace period without a failure, the command counts as lost."""
        child.was_terminated = True
        if self._grace and not self._grace.has_failed:
            child.is_lost = True
            if self._callbacks:
                self._callbacks.emit_error(self._grace.lost_message, child.command.label)
        child.send_interrupt(self._policy.first_end_signal())

    def _forward_signals(self) -> None:
        """Sends the policy's signal, and handles the received ones. `processes.run_all` describes repeated signals."""
        if self._policy.signal_to_send:
            self._interrupt_all(self._policy.signal_to_send())
        # A single ordinary command gets every signal unchanged.
        escalates = len(self._children) > 1 or self._has_custom_interrupt()
        while self._handled_count < len(self._received_signals):
            number = self._received_signals[self._handled_count]
            self._handled_count += 1
            is_first, is_second = self._handled_count == 1, self._handled_count == 2
            if self._callbacks and escalates:
                self._callbacks.on_status("interrupted: the processes are ending; Ctrl-C again ends them at once")
            if is_first and self._policy.on_interrupt:
                self._interrupt_all(self._policy.on_interrupt())
            elif is_first or not escalates:
                self._interrupt_all(number)
            elif is_second:
                self._end_at_once(self._policy.end_signal)
            else:
                self._end_at_once(signal.SIGKILL)

    def _interrupt_all(self, number: int | None) -> None:
        """Interrupts all commands, as `ChildProcess.send_interrupt` does. None: sends no signal."""
        if number is not None:
            for child in self._children:
                child.send_interrupt(number)

    def _end_at_once(self, number: int) -> None:
        """Sends a signal to the process groups of all commands. Those that still run count as terminated by busbw."""
        is_ctrl_c = self._received_signals[0] == signal.SIGINT
        for child in self._children:
            if child.process.poll() is None:
                child.was_terminated = True
                child.interrupt_code = ExitCode.INTERRUPTED if is_ctrl_c else SIGNALLED + signal.SIGTERM
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
            child.signal_group(number)
