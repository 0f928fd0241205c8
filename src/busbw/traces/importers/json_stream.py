"""Reads a long JSON document value by value, so that only one value is in memory."""

import codecs
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from busbw.traces.building import TraceBuilder
from busbw.traces.importers.recording import BufferedFile, add_damage, open_recording, read_block

_BLOCK_BYTES = 1 << 20
_MAX_VALUE_LENGTH = 1 << 26
"""Maximum length of a value, in characters. A longer value is damage, and would fill the memory."""
_BLANKS = re.compile(r"[ \t\r\n]*")
_decode = json.JSONDecoder(strict=False).raw_decode


class _DamageError(Exception):
    """The rest of the document is not JSON."""


class _Text:
    """The part of the document that is in memory."""

    def __init__(self, file: BufferedFile) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._text = ""
        self._position = 0
        self._is_at_end = False

    def _read(self) -> bool:
        """Appends a block. False at the end.

        Blocks grow with an unfinished value. So the time to read a long value stays proportional to its length.
        """
        rest = self._text[self._position :]
        block = read_block(self._file, max(_BLOCK_BYTES, len(rest)))
        self._text, self._position = rest + self._decoder.decode(block), 0
        self._is_at_end = not block
        return not self._is_at_end

    def peek(self) -> str:
        """Returns the next character that is not blank. Empty at the end."""
        while True:
            self._position = _BLANKS.match(self._text, self._position).end()  # type: ignore[union-attr]
            if self._position < len(self._text):
                return self._text[self._position]
            if not self._read():
                return ""

    def skip(self, expected: str) -> bool:
        """Skips this character. False if it is not the next one."""
        is_next = self.peek() == expected
        if is_next:
            self._position += 1
        return is_next

    def require(self, expected: str) -> None:
        """Skips this character, which must be the next one."""
        if not self.skip(expected):
            raise _DamageError

    def items(self, opening: str, closing: str) -> Iterator[None]:
        """Yields at each item of a list or an object. The caller must read the item before the next one."""
        self.require(opening)
        while not self.skip(closing):
            yield
            if not self.skip(",") and self.peek() != closing:
                raise _DamageError

    def value(self) -> Any:
        """Returns the next value. Reads more blocks until the value is complete."""
        self.peek()
        while True:
            try:
                value, end = _decode(self._text, self._position)
            except json.JSONDecodeError:
                end = len(self._text)
                if self._is_at_end or end - self._position > _MAX_VALUE_LENGTH:
                    raise _DamageError from None
            except (ValueError, RecursionError):  # a number with thousands of digits, deep nesting
                raise _DamageError from None
            # A number at the end of the text may continue in the next block.
            is_complete = end < len(self._text) or self._is_at_end
            if is_complete:
                self._position = end
                return value
            self._read()


def stream_json(builder: TraceBuilder, path: Path, list_key: str) -> Iterator[tuple[str, Any]]:
    """Yields keys and values of the object in a file, in order.

    Each element of the list with the key `list_key` is yielded separately. A file may also consist of this list. If the
    file ends early or is not JSON, the items before the damage are yielded, and the builder receives a problem.
    """
    with open_recording(path) as file:
        text = _Text(file)
        try:
            if text.peek() == "[":
                yield from ((list_key, text.value()) for _ in text.items("[", "]"))
                return
            for _ in text.items("{", "}"):
                key = text.value()
                text.require(":")
                if key == list_key and text.peek() == "[":
                    yield from ((list_key, text.value()) for _ in text.items("[", "]"))
                else:
                    yield str(key), text.value()
        except _DamageError:
            add_damage(builder, path)
