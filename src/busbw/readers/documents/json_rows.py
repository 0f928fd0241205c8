"""Splits a JSON document of any length into its rows and the rest, without parsing it as a whole.

Rows are the elements of the list `results`, of a list in the object `results`, or of the document if it is a list.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from busbw.errors import UsageError
from busbw.readers.lines.source import LogSource

MAX_BYTES = 64 << 20
"""Maximum size of one row, and of all text outside of rows."""
_CHUNK_BYTES = 1 << 20
_MAX_BEGINNING = 300
"""Maximum number of bytes of a document that is not read."""
_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_TOKEN = re.compile(_STRING + rb'(\s*:)?|[{}\[\]]|"', re.DOTALL)
"""String, bracket, or the quotation mark of a string without an end. Group 1 is the colon after a key."""
_FLAT_TEXT = rb'[^"{}\[\]]*(?:' + _STRING + rb'[^"{}\[\]]*)*'
"""Text without brackets outside of strings."""
_FLAT_CONTAINER = rb"[{\[]" + _FLAT_TEXT + rb"[}\]]"
_NEXT_BRACKET = re.compile(_FLAT_TEXT + rb"(?:" + _FLAT_CONTAINER + _FLAT_TEXT + rb"){0,50}([{}\[\]])", re.DOTALL)
"""Passes over up to 50 containers that hold no further container, to the bracket after them.

Most objects within a row are such containers, so this is faster than single tokens. The limit of 50 bounds the memory
of the expression."""
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
    """Rows of a document, and the rest of it. Both read the file from its beginning."""

    def __init__(self, source: LogSource) -> None:
        self._source = source
        self.next_document: JsonRow | None = None
        """First line of a document that follows in the same file. Known after `read_rest`; None without one."""

    def __iter__(self) -> Iterator[JsonRow]:
        """Yields the rows in order.

        Raises:
            UsageError: A row, or the rest of the document, is too long.
        """
        scanner = _Scanner(self._source)
        while scanner.find_row():
            yield scanner.take_row()

    def read_rest(self) -> bytes:
        """Returns the document without its rows.

        Raises:
            UsageError: As in `__iter__`.
        """
        scanner = _Scanner(self._source)
        while scanner.find_row():
            scanner.skip_row()
        self.next_document = scanner.take_next_beginning()
        return bytes(scanner.rest)


class _Scanner:
    """Reads a document once, from row to row."""

    def __init__(self, source: LogSource) -> None:
        self.rest = bytearray()
        """Text outside of the rows so far."""
        self._window = _Window(source)
        self._containers: list[tuple[bytes, str]] = []
        """Opening bracket and key of each open container, outside of rows."""
        self._is_in_row_list = False
        """True if the elements of the innermost container are rows."""
        self._last_key = ""
        self._line = 1
        """Line number of the first text that was not taken from the window."""

    def find_row(self) -> bool:
        """Moves to the next row. Returns false if the document ends before one."""
        while match := self._window.find_token():
            token = match.group()
            is_row = self._is_in_row_list and token in (b"{", b"[")
            self._add_to_rest(self._window.take(match.start() if is_row else match.end()), is_between_rows=is_row)
            if is_row:
                return True
            if token in (b"{", b"["):
                self._containers.append((token, self._last_key))
                self._is_in_row_list = _is_row_list(self._containers)
            elif token in (b"}", b"]") and self._containers:
                self._containers.pop()
                self._is_in_row_list = _is_row_list(self._containers)
                if not self._containers:
                    return False  # the end of the document
            elif match[1]:  # a key
                self._last_key = token[1 : token.rindex(b'"')].decode("utf-8", errors="replace")
        self._add_to_rest(self._window.take_all(), is_between_rows=False)
        return False

    def take_row(self) -> JsonRow:
        """Returns the row that `find_row` found. It ends early if the document is cut."""
        key = self._containers[-1][1] if len(self._containers) > 2 else ""
        line = self._line
        text = self.skip_row()
        if size_key := _SIZE_KEY.search(text):
            line += text.count(b"\n", 0, size_key.start())
        return JsonRow(key, line, text)

    def skip_row(self) -> bytes:
        """Moves behind the row that `find_row` found, and returns its text."""
        text = self._window.take_container()
        self._line += text.count(b"\n")
        return text

    def take_next_beginning(self) -> JsonRow | None:
        """Returns the first line of the document that follows. None if no bracket is the next token."""
        match = self._window.find_token()
        if match is None or match.group() not in (b"{", b"["):
            return None
        self._line += self._window.take(match.start()).count(b"\n")
        return JsonRow("", self._line, self._window.take_all().partition(b"\n")[0][:_MAX_BEGINNING])

    def _add_to_rest(self, text: bytes, *, is_between_rows: bool) -> None:
        """Adds text outside of rows. Separators of rows are omitted."""
        self._line += text.count(b"\n")
        if not is_between_rows or text.strip(_SEPARATORS):
            self.rest += text
        self._window.require_bounded(len(self.rest))


class _Window:
    """Part of the file that is in memory."""

    def __init__(self, source: LogSource) -> None:
        self._name = source.name
        self._file = source.rewind()
        self._buffer = b""
        self._start = 0
        """Position in the buffer of the first text that was not taken."""
        self._position = 0
        """Position in the buffer at which the search for tokens continues."""
        self._is_at_end = False

    def find_token(self) -> "re.Match[bytes] | None":
        """Returns the next string or bracket. None if only other text follows."""
        while True:
            match = _TOKEN.search(self._buffer, self._position)
            # A string without an end may end in the next part of the file, and a key may get its colon there.
            if match and match[0] != b'"' and (match.end() < len(self._buffer) or self._is_at_end):
                self._position = match.end()
                return match
            if not self._read_more():
                return None

    def take(self, end: int) -> bytes:
        """Returns the text up to a position in the buffer, from the end of the text that was taken before."""
        text, self._start = self._buffer[self._start : end], end
        return text

    def take_all(self) -> bytes:
        """Returns the rest of the buffer."""
        return self.take(len(self._buffer))

    def take_container(self) -> bytes:
        """Returns the text up to the end of the container that begins with the last token."""
        depth = 1
        while depth:
            if match := _NEXT_BRACKET.match(self._buffer, self._position):
                self._position = match.end()
                depth += 1 if match[1] in b"{[" else -1
            elif not self._read_more():
                self._position = len(self._buffer)  # the document is cut
                break
        return self.take(self._position)

    def _read_more(self) -> bool:
        """Drops the text that was taken, and reads more. Returns false if the end was reached before.

        It reads as much as is kept, so that a long token is read fast.
        """
        if self._is_at_end:
            return False
        kept = self._buffer[self._start :]
        self.require_bounded(len(kept))
        chunk = self._file.read(max(_CHUNK_BYTES, len(kept)))
        self._buffer = kept + chunk
        self._position -= self._start
        self._start = 0
        self._is_at_end = not chunk
        return True

    def require_bounded(self, length: int) -> None:
        """Checks the length of a part of the document.

        Raises:
            UsageError: The part is too long.
        """
        if length > MAX_BYTES:
            raise UsageError(
                f"{self._name} has a part without rows, or a row, of more than {MAX_BYTES >> 20} MiB",
                remedy="pass the file unchanged, as the program wrote it",
            )


def _is_row_list(containers: list[tuple[bytes, str]]) -> bool:
    """True if the elements of the innermost container are rows."""
    if not containers or containers[-1][0] != b"[":
        return False
    brackets = b"".join(bracket for bracket, _ in containers)
    if brackets == b"[":
        return True
    _, key_in_document = containers[1]
    return brackets in (b"{[", b"{{[") and key_in_document == "results"
