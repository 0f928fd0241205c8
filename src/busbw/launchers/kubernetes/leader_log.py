"""Forwards the log of the leader pod to the callbacks, as the stdout and stderr of process 0."""

from collections.abc import Sequence
from time import monotonic, sleep

from busbw.launchers.job.job import LaunchCallbacks
from busbw.launchers.kubernetes.log_reader import LogReader
from busbw.launchers.kubernetes.loss_detector import LossDetector
from busbw.launchers.kubernetes.target import KubernetesTarget

TICK_S = 0.25
"""Interval between checks for signals."""
_LOG_REST_LIMIT_S = 15.0
"""Time limit to read the rest of a log."""
_SEARCH_MESSAGES = (b"busbw: ", b"busbw-engine flows: ")
"""Beginnings of lines on the stderr of `busbw find` in process 0, and of the engine that measures for it."""


class LeaderLog:
    """Log of one leader pod. Its caller must disconnect `reader`, also after an exception."""

    def __init__(
        self,
        target: KubernetesTarget,
        program: str,
        callbacks: LaunchCallbacks,
        received: Sequence[int],
        loss_detector: LossDetector,
        *,
        has_mpirun: bool,
    ) -> None:
        self._target = target
        self._program = program.encode()
        self._callbacks = callbacks
        self._received = received
        """Signals that this process received."""
        self._loss_detector = loss_detector
        self._has_mpirun = has_mpirun
        self.reader: LogReader | None = None
        """None before `open`."""

    def open(self, pod_name: str) -> LogReader:
        """Returns the reader of the pod's log. The first call connects it."""
        if self.reader is None:
            self.reader = LogReader(self._target, pod_name)
            self.reader.connect(follow=True)
        return self.reader

    def forward(self, reader: LogReader) -> None:
        """Forwards new lines, or reconnects if it is time to. Takes at most about `TICK_S`."""
        if reader.is_connected:
            self._forward_lines(reader.read_lines(TICK_S))
        elif reader.is_reconnect_due():
            reader.connect(follow=True)
        else:
            sleep(TICK_S)

    def read_rest(self, reader: LogReader) -> None:
        """Reads the unread part of the log after the connection ended or was lost."""
        reader.disconnect()
        reader.connect(follow=False)
        end_s = monotonic() + _LOG_REST_LIMIT_S
        while reader.is_connected and monotonic() < end_s and len(self._received) < 2:
            self._forward_lines(reader.read_lines(TICK_S))
            self._callbacks.on_wait()
        reader.disconnect()
        if not reader.is_complete:
            self._callbacks.print_error(
                f"the log of process 0 may be incomplete: {reader.error_text or 'the API server did not send it'}"
            )

    def _forward_lines(self, lines: Sequence[bytes]) -> None:
        """Separates stdout and stderr, which a container's log mixes: lines of stderr begin with the program's name."""
        if lines:
            self._loss_detector.on_line()
        for line in lines:
            if self._callbacks.on_error and line.startswith((self._program + b": ", *_SEARCH_MESSAGES)):
                # mpirun mixes the stderr of all processes, so the process of a line is unknown.
                self._callbacks.on_error(line, None if self._has_mpirun else 0)
            else:
                self._callbacks.on_line(line)
