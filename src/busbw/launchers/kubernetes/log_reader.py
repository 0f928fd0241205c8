"""Follows a pod's log with `kubectl logs`, and continues after a lost connection."""

import os
import select
import subprocess
from contextlib import suppress
from time import monotonic

from busbw.launchers.kubernetes.kubectl import command, kill_kubectl, start_kubectl
from busbw.launchers.kubernetes.log_lines import LogDeduplicator
from busbw.launchers.kubernetes.pods import CONTAINER
from busbw.launchers.kubernetes.target import KubernetesTarget

_EXIT_LIMIT_S = 5.0
"""How long kubectl may take to exit after the end of its output."""
_MAX_PAUSE_S = 16.0
"""Maximum pause between two connections that deliver no line."""


class LogReader:
    """Reads one pod's log, each line once. The caller of `connect` must call `disconnect`, also after an exception."""

    def __init__(self, target: KubernetesTarget, pod: str) -> None:
        self.error_text = ""
        """kubectl's message at the end of the last connection. Empty if it printed none."""
        self.is_complete = False
        """True if kubectl ended without an error, so that the last connection delivered all lines up to its end."""
        self.failures = 0
        """Number of consecutive failed connections without a new line."""
        self._connections_without_line = 0
        """Number of consecutive connections without a new line, failed or not."""
        self._reconnect_at_s = 0.0
        self._target = target
        self._pod = pod
        self._deduplicator = LogDeduplicator()
        self._process: subprocess.Popen[bytes] | None = None
        self._incomplete_line = b""

    @property
    def is_connected(self) -> bool:
        """True while kubectl runs and may deliver lines."""
        return self._process is not None

    def is_reconnect_due(self) -> bool:
        """True if it is time to reconnect. The pause doubles while connections deliver no line."""
        return monotonic() >= self._reconnect_at_s

    def connect(self, *, follow: bool) -> None:
        """Starts to read the unread part of the log. With `follow`, reads until the container ends."""
        since = (f"--since-time={self._deduplicator.since}",) if self._deduplicator.since else ()
        call = command(self._target, "logs", self._pod, "-c", CONTAINER, "--timestamps", *since)
        self._deduplicator.on_reconnect()
        self.is_complete = False
        self._process = start_kubectl((*call, "-f") if follow else call)

    def read_lines(self, limit_s: float) -> list[bytes]:
        """Returns new lines, after a wait of at most `limit_s` seconds. Disconnects at the end of the log."""
        assert self._process is not None
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        if not select.select([descriptor], [], [], limit_s)[0]:
            return []
        chunk = os.read(descriptor, 1 << 16)
        *complete, self._incomplete_line = (self._incomplete_line + chunk).split(b"\n")
        timestamped = [line + b"\n" for line in complete]
        is_at_end = not chunk
        if is_at_end:
            with suppress(subprocess.TimeoutExpired):
                self.is_complete = self._process.wait(_EXIT_LIMIT_S) == 0
            if self.is_complete and self._incomplete_line:
                # The last line of a complete log may lack a newline. After a lost connection, the line arrives again.
                timestamped.append(self._incomplete_line)
        new_lines = [line for line in map(self._deduplicator.deduplicate, timestamped) if line is not None]
        if new_lines:
            self.failures = self._connections_without_line = 0
        if is_at_end:
            self._end_connection()
        return new_lines

    def _end_connection(self) -> None:
        """Disconnects at the end of kubectl's output, and plans the next connection."""
        if not self.is_complete:
            self.failures += 1
        self._reconnect_at_s = monotonic() + min(2.0**self._connections_without_line, _MAX_PAUSE_S)
        self._connections_without_line += 1
        self.disconnect()

    def disconnect(self) -> None:
        """Ends the connection. `connect` continues with the unread part."""
        process, self._process, self._incomplete_line = self._process, None, b""
        if process is None:
            return
        stderr = kill_kubectl(process)
        error_lines = stderr.decode(errors="replace").strip().splitlines()
        self.error_text = error_lines[-1].removeprefix("error: ") if error_lines else ""
