"""Follows a pod's log by `kubectl logs`, and takes it up again where a connection was lost."""

import os
import select
import subprocess
from contextlib import suppress
from time import monotonic

from busbw.launchers.kubernetes.kubectl import command, end, start
from busbw.launchers.kubernetes.log_lines import LogDeduplicator
from busbw.launchers.kubernetes.pods import CONTAINER
from busbw.launchers.kubernetes.target import KubernetesTarget

_END_S = 5.0
"""How long kubectl may take to end once its output has."""
_LONGEST_PAUSE_S = 16.0


class LogReader:
    """One pod's log, each line once. Whoever connects it disconnects it, whatever happens between."""

    def __init__(self, where: KubernetesTarget, pod: str) -> None:
        self.words = ""
        """Why the last connection ended, in kubectl's words; empty when it said nothing."""
        self.is_whole = False
        """Whether the last connection brought the log to its end, as far as it went then."""
        self.failures = 0
        """How many connections in a row failed and brought no line."""
        self._vain = 0
        self._again_at_s = 0.0
        self._where = where
        self._pod = pod
        self._joiner = LogDeduplicator()
        self._process: subprocess.Popen[bytes] | None = None
        self._pending = b""

    @property
    def is_connected(self) -> bool:
        """Whether more may come."""
        return self._process is not None

    def is_due(self) -> bool:
        """Whether to connect again: later and later, while there is nothing to be had."""
        return monotonic() >= self._again_at_s

    def connect(self, *, follow: bool) -> None:
        """Begins to read what has not been read yet; with `follow` until the container's end."""
        since = (f"--since-time={self._joiner.since}",) if self._joiner.since else ()
        call = command(self._where, "logs", self._pod, "-c", CONTAINER, "--timestamps", *since)
        self._joiner.reconnected()
        self.is_whole = False
        self._process = start((*call, "-f") if follow else call)

    def lines(self, limit_s: float) -> list[bytes]:
        """Lines that have come, after at most so long a wait. Disconnects at the end of the log."""
        assert self._process is not None
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        if not select.select([descriptor], [], [], limit_s)[0]:
            return []
        chunk = os.read(descriptor, 1 << 16)
        *whole, self._pending = (self._pending + chunk).split(b"\n")
        stamped = [line + b"\n" for line in whole]
        if not chunk:
            with suppress(subprocess.TimeoutExpired):
                self.is_whole = self._process.wait(_END_S) == 0
            if self.is_whole and self._pending:
                stamped.append(self._pending)  # a last line without an end; one that was cut off comes again
        found = [line for one in stamped if (line := self._joiner.take(one)) is not None]
        if found:
            self.failures = self._vain = 0
        if not chunk:
            self.failures += not self.is_whole
            self._again_at_s = monotonic() + min(2.0**self._vain, _LONGEST_PAUSE_S)
            self._vain += 1
            self.disconnect()
        return found

    def disconnect(self) -> None:
        """Ends the connection; `connect` takes the log up again."""
        process, self._process, self._pending = self._process, None, b""
        if process is None:
            return
        said = end(process)
        lines = said.decode(errors="replace").strip().splitlines()
        self.words = lines[-1].removeprefix("error: ") if lines else ""
