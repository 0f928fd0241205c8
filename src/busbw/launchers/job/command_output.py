"""Reads the output of commands from their pipes, and passes it to the callbacks line by line."""

import os
import selectors
from typing import IO

from busbw.launchers.job.command_start import ChildProcess
from busbw.launchers.job.job import LaunchCallbacks
from busbw.support.termination_signals import ReceivedSignals


class CommandOutput:
    """Pipes of the commands. The stdout of the first command is the output of the job."""

    def __init__(self, callbacks: LaunchCallbacks | None, received_signals: ReceivedSignals) -> None:
        """Lets a received signal end the wait in `read`."""
        self._callbacks = callbacks
        self._received_signals = received_signals
        self._children: list[ChildProcess] = []
        self._selector = selectors.DefaultSelector()
        self._selector.register(received_signals, selectors.EVENT_READ)
        self.is_paused = False
        """True while the first command's stdout is not read."""

    def add(self, child: ChildProcess) -> None:
        """Reads the pipes of a command from now on."""
        self._children.append(child)
        for pipe in (child.process.stdout, child.process.stderr):
            if pipe:
                self._selector.register(pipe, selectors.EVENT_READ, child)

    @property
    def has_pipes(self) -> bool:
        """True while a pipe is read. A paused pipe does not count."""
        return len(self._selector.get_map()) > 1  # one entry is `received_signals`

    def pause_or_resume(self, *, may_pause: bool) -> None:
        """Stops reading the first command's stdout while the reader of its output has paused."""
        stdout = self._children[0].process.stdout
        should_pause = may_pause and self._callbacks is not None and self._callbacks.is_backlogged()
        if not stdout or stdout.closed or should_pause == self.is_paused:
            return
        self.is_paused = should_pause
        if should_pause:
            self._selector.unregister(stdout)
        else:
            self._selector.register(stdout, selectors.EVENT_READ, self._children[0])

    def read(self, limit_s: float) -> None:
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
                self._close(key.fileobj)  # type: ignore[arg-type]  # `add` registered a pipe

    def _close(self, pipe: IO[bytes] | None) -> None:
        if pipe and not pipe.closed:
            if pipe in self._selector.get_map():
                self._selector.unregister(pipe)
            else:
                self.is_paused = False  # only the paused stdout is not registered
            pipe.close()

    def _emit_lines(self, child: ChildProcess, descriptor: int, chunk: bytes, *, at_end: bool) -> None:
        """Passes the complete lines to the callbacks, and at the end of the pipe also an incomplete one.

        Drops the stdout of all commands but the first.
        """
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
                self._callbacks.on_error(line, child.command.label)
            elif child is self._children[0]:
                self._callbacks.on_line(line)

    def close_stdout(self) -> None:
        """Closes the stdout of the first command and drops its incomplete line. Its program then gets SIGPIPE."""
        child = self._children[0]
        stdout = child.process.stdout
        if stdout and not stdout.closed:
            child.incomplete_lines.pop(stdout.fileno(), None)
        self._close(stdout)

    def emit_incomplete_lines(self) -> None:
        """Passes the output after the last newline of each pipe to the callbacks."""
        for child in self._children:
            for descriptor in list(child.incomplete_lines):
                self._emit_lines(child, descriptor, b"", at_end=True)

    def stop(self) -> None:
        """Ends the reading of all pipes. Their owner closes them."""
        self._selector.close()
