"""A pod's log, each line once: it is read again from where a connection was lost.

The API stamps each line with the time at which it was written (to the nanosecond) and can be asked for what came since
a time (to the second). So after a reconnection some lines come again; they are known by their stamps.
"""

import re

_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ?")


class LogDeduplicator:
    """Takes the stamped lines of one reading after the other and gives out each line once, without its stamp."""

    def __init__(self) -> None:
        self.since = ""
        """What to ask for next: the stamp of the last line; empty at the beginning."""
        self._last = b""
        self._taken_with_last = 0
        self._met_with_last = 0

    def reconnected(self) -> None:
        """A new reading begins, from `since`."""
        self._met_with_last = 0

    def take(self, line: bytes) -> bytes | None:
        """The line as the program wrote it; None when it has been given out before.

        A line without a stamp is something that the API itself says, and is passed on as it is.
        """
        found = _STAMP.match(line)
        if not found:
            return line
        stamp = b"%s.%s%s" % (found[1], (found[2] or b"").ljust(9, b"0"), found[3])
        if stamp < self._last:
            return None
        if stamp == self._last:
            self._met_with_last += 1
            if self._met_with_last <= self._taken_with_last:
                return None
        else:
            self._last, self._taken_with_last, self._met_with_last = stamp, 0, 1
            self.since = found[0].decode().strip()
        self._taken_with_last += 1
        return line[found.end() :]
