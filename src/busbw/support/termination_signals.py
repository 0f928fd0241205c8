"""Handlers of the signals that end a command.

No handler raises, because an exception at an arbitrary point leaves half-done work and tracebacks. Handlers add the
signal to a list, and the code reads the list at points of its choice. A command without such points ends at once, after
the cleanup of `cleaned_up_by`: `cli.entry_point` handles SIGINT, and the other signals have their default action.
"""

import os
import select
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType

Handler = Callable[[int, FrameType | None], object]


def handled_signals() -> tuple[signal.Signals, ...]:
    """Returns SIGINT, SIGTERM and SIGHUP, without SIGHUP if it is ignored, as under nohup.

    The engine follows the same rule.
    """
    is_hangup_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    signals = (signal.SIGINT, signal.SIGTERM)
    return signals if is_hangup_ignored else (*signals, signal.SIGHUP)


@contextmanager
def handled_by(handler: Handler, others: Mapping[signal.Signals, Handler] | None = None) -> Iterator[None]:
    """Installs `handler` for all termination signals, and `others` for further signals, until the end of the block.

    Restores the previous handlers at the end.
    """
    handlers = {**dict.fromkeys(handled_signals(), handler), **(others or {})}
    previous_handlers = {number: signal.signal(number, handlers[number]) for number in handlers}
    try:
        yield
    finally:
        for number, previous_handler in previous_handlers.items():
            signal.signal(number, previous_handler)


class ReceivedSignals(list[int]):
    """Received signals in order. `select` on this object ends when a signal arrives."""

    def __init__(self) -> None:
        super().__init__()
        self._read_end, self.write_end = os.pipe()
        for end in (self._read_end, self.write_end):
            os.set_blocking(end, False)

    def fileno(self) -> int:
        """Returns a descriptor that is readable after a signal, until `clear_wake`."""
        return self._read_end

    def clear_wake(self) -> None:
        """Makes the next `select` wait for the next signal."""
        with suppress(BlockingIOError):
            os.read(self._read_end, 4096)

    def wait(self, limit_s: float) -> None:
        """Waits for a signal, at most `limit_s` seconds."""
        select.select([self], [], [], limit_s)
        self.clear_wake()

    def close(self) -> None:
        """Closes the pipe."""
        os.close(self._read_end)
        os.close(self.write_end)


@contextmanager
def collected_signals(others: Mapping[signal.Signals, Handler] | None = None) -> Iterator[ReceivedSignals]:
    """Yields a list that receives the termination signals within the block. They have no other effect.

    Args:
        others: Handlers of further signals. These signals end a `select` on the list too.
    """
    received = ReceivedSignals()
    # The interpreter writes a byte for each signal, also for one that arrives just before `select` begins to wait.
    previous_descriptor = signal.set_wakeup_fd(received.write_end, warn_on_full_buffer=False)
    try:
        with handled_by(lambda number, _frame: received.append(number), others):
            yield received
    finally:
        signal.set_wakeup_fd(previous_descriptor, warn_on_full_buffer=False)
        received.close()


@contextmanager
def deferred_signals() -> Iterator[None]:
    """Defers the termination signals to the end of the block, so that a short change of files is complete or undone.

    Does nothing in other threads, because Python runs handlers only in the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    try:
        with handled_by(lambda number, _frame: received.append(number)):
            yield
    finally:
        if received:
            os.kill(os.getpid(), received[0])


@contextmanager
def cleaned_up_by(clean_up: Callable[[], object]) -> Iterator[None]:
    """Calls `clean_up` on a termination signal, and then sends the signal again to the previous handler.

    The previous handler may only store the signal, and the command then continues. So `clean_up` must not remove
    anything that the command still needs. Does nothing in other threads.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous_handlers = {number: signal.getsignal(number) for number in handled_signals()}

    def handle(number: int, _frame: FrameType | None) -> None:
        clean_up()
        signal.signal(number, previous_handlers[signal.Signals(number)])
        os.kill(os.getpid(), number)

    with handled_by(handle):
        yield
