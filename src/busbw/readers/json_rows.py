"""Splits a JSON document of any length into its rows and the rest, without parsing it as a whole.

Rows are the elements of the list `results`, of a list in the object `results`, or of the document if it is a list.
"""

import re
from collections.abc import Iterator
from typing import IO, NamedTuple

from busbw.errors import UsageError
from busbw.readers.source import LogSource

MAX_BYTES = 64 << 20
"""Maximum size of one row, and of all text outside of rows."""
_CHUNK_BYTES = 1 << 20
_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_TOKEN = re.compile(_STRING + rb'(\s*:)?|[{}\[\]]|"', re.DOTALL)
_FLAT_TEXT = rb'[^"{}\[\]]*(?:' + _STRING + rb'[^"{}\[\]]*)*'
"""Text without brackets outside of strings."""
_FLAT_CONTAINER = rb"[{\[]" + _FLAT_TEXT + rb"[}\]]"
_NEXT_BRACKET = re.compile(_FLAT_TEXT + rb"(?:" + _FLAT_CONTAINER + _FLAT_TEXT + rb"){0,50}([{}\[\]])", re.DOTALL)
"""Text up to the next bracket, except some containers without inner ones.

Within rows this is faster than single tokens. The limit of containers bounds the memory of the expression."""
_SEPARATORS = b" \t\r\n,"
_SIZE_KEY = re.compile(rb'"size"\s*:')


class JsonRow(NamedTuple):
    """Text of one row, which ends early if the document is cut."""

    key: str
    """Key of the row's list within `results`. Empty if the document has only one list."""
    line: int
    """Line of the key "size", or of the row's beginning if it has no such key."""
    text: bytes


class JsonRows:
    """Iterates over the rows of a document. Each iteration reads the file again."""

    def __init__(self, source: LogSource) -> None:
        self._source = source
        self.rest = b""
        """The document without its rows, after an iteration."""

    def __iter__(self) -> Iterator[JsonRow]:
        """Yields the rows in order.

        Raises:
            UsageError: A row, or the rest of the document, is too long.
        """
        rest = bytearray()
        containers: list[tuple[bytes, str]] = []
        """Opening bracket and key of each open container, outside of rows."""
        key = row_key = ""
        depth = 0  # number of open containers within a row, including the row; 0 outside
        row_start = done = 0  # positions in the buffer
        line = 1  # at `done`, or at `row_start` within a row
        window = _Window(self._source.rewind())
        while True:
            while match := (_NEXT_BRACKET.match if depth else _TOKEN.search)(window.buffer, window.scanned):
                if depth:
                    window.scanned = match.end()
                    depth += 1 if match[1] in b"{[" else -1
                    if not depth:
                        text = window.buffer[row_start : match.end()]
                        yield _make_row(row_key, line, text)
                        line += text.count(b"\n")
                        done = match.end()
                    continue
                token = match.group()
                if token == b'"' or (match.end() == len(window.buffer) and not window.is_at_end):
                    break  # incomplete
                window.scanned = match.end()
                first = token[:1]
                if first in b"{[" and _is_row_list(containers):
                    line += _append(rest, window.buffer[done : match.start()], is_between_rows=True)
                    row_start, row_key, depth = match.start(), containers[-1][1] if len(containers) > 2 else "", 1
                    continue
                line += _append(rest, window.buffer[done : match.end()], is_between_rows=False)
                done = match.end()
                if first == b'"':
                    key = token[1 : token.rindex(b'"')].decode("utf-8", errors="replace") if match[1] else key
                elif first in b"{[":
                    containers.append((first, key))
                elif containers:
                    containers.pop()
                    if not containers:
                        self.rest = bytes(rest)
                        return
                if len(rest) > MAX_BYTES:
                    self._raise_too_long()
            if window.is_at_end:
                break
            start = row_start if depth else done
            if len(window.buffer) - start > MAX_BYTES:
                self._raise_too_long()
            window.advance(start)
            row_start = done = 0
        if depth:
            yield _make_row(row_key, line, window.buffer[row_start:])
        else:
            rest += window.buffer[done:]
        self.rest = bytes(rest)

    def _raise_too_long(self) -> None:
        raise UsageError(
            f"{self._source.name} has a part without rows, or a row, of more than {MAX_BYTES >> 20} MiB",
            remedy="pass the file unchanged, as the program wrote it",
        )


class _Window:
    """Part of the file that is in memory."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.buffer = b""
        self.scanned = 0
        """Position in the buffer up to which tokens were read."""
        self.is_at_end = False

    def advance(self, start: int) -> None:
        """Drops the text before a position and reads more: as much as is kept, so that a long token is read fast."""
        kept = self.buffer[start:]
        chunk = self._file.read(max(_CHUNK_BYTES, len(kept)))
        self.buffer = kept + chunk
        self.scanned -= start
        self.is_at_end = not chunk


def _is_row_list(containers: list[tuple[bytes, str]]) -> bool:
    """True if the elements of the innermost container are rows."""
    if not containers or containers[-1][0] != b"[":
        return False
    keys = [key for _, key in containers[1:]]
    brackets = b"".join(bracket for bracket, _ in containers)
    return brackets == b"[" or (brackets in (b"{[", b"{{[") and keys[0] == "results")


def _append(rest: bytearray, text: bytes, *, is_between_rows: bool) -> int:
    """Adds text outside of rows and returns its number of line breaks. Separators of rows are omitted."""
    if not is_between_rows or text.strip(_SEPARATORS):
        rest += text
    return text.count(b"\n")


def _make_row(key: str, line: int, text: bytes) -> JsonRow:
    match = _SIZE_KEY.search(text)
    return JsonRow(key, line + text.count(b"\n", 0, match.start()) if match else line, text)
