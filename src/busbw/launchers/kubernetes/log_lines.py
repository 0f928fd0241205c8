"""Removes repeated lines from a pod's log, which is read again after a lost connection.

The API gives each line a timestamp in nanoseconds, but accepts only whole seconds as a start time. So some lines
arrive again after a reconnection. Their timestamps identify them. Several lines may have the same timestamp, so those
with the last timestamp are also counted.
"""

import re

_TIMESTAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ?")


class LogDeduplicator:
    """Filter that passes each line of a log once and without its timestamp, across several connections."""

    def __init__(self) -> None:
        self.since = ""
        """Start time of the next connection: the timestamp of the last line. Empty before the first line."""
        self._last_timestamp = b""
        self._returned_with_last = 0
        """Number of returned lines with the last timestamp."""
        self._seen_with_last = 0
        """Number of lines with the last timestamp in the current connection."""

    def on_reconnect(self) -> None:
        """Notes that a new connection delivers lines from `since` on."""
        self._seen_with_last = 0

    def deduplicate(self, line: bytes) -> bytes | None:
        """Returns the line as the program wrote it, or None if it was returned before.

        A line without a timestamp is a message of the API itself and is returned unchanged.
        """
        match = _TIMESTAMP.match(line)
        if not match:
            return line
        # All timestamps get nine decimal places, so that they can be compared as text.
        timestamp = b"%s.%s%s" % (match[1], (match[2] or b"").ljust(9, b"0"), match[3])
        if timestamp < self._last_timestamp:
            return None
        if timestamp == self._last_timestamp:
            self._seen_with_last += 1
            if self._seen_with_last <= self._returned_with_last:
                return None
        else:
            self._last_timestamp, self._returned_with_last, self._seen_with_last = timestamp, 0, 1
            self.since = match[0].decode().strip()
        self._returned_with_last += 1
        return line[match.end() :]
