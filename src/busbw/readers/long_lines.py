"""Moves the cuts of lines that are too long for memory, so that each part can be read alone.

`LogSource.lines` cuts a long line anywhere. Here the cuts move to line breaks in a string of JSON, or between strings.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator

from busbw.readers.quoting import KEY_PATTERN, MAX_KEY_LENGTH
from busbw.readers.source import MAX_LINE_BYTES

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*("|\\?\Z)', re.DOTALL)
_ESCAPE = re.compile(rb"\\.", re.DOTALL)
_KEY = re.compile(KEY_PATTERN.encode())


def move_cuts(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yields the lines. Each part of a string that is longer than a read begins with the key of the string.

    Args:
        lines: Lines of a log. A long one comes in parts, and only its last part may end with a line feed.
    """
    head = b""
    """Key and quotation mark of the string that the last part ended in. Empty if it ended in none."""
    rest = b""
    """Text that follows the last part."""
    for line in lines:
        if len(line) < MAX_LINE_BYTES and not head and not rest:
            yield line
            continue
        text = head + rest + line
        if head and (string := _STRING.match(text, len(head) - 1)) and string[1] == b'"':
            yield text[: string.end()]
            text = text[string.end() :]
        *parts, head, rest = _cut(text)
        yield from filter(None, parts)
    if rest:
        yield head + rest


def _cut(text: bytes) -> tuple[bytes, bytes, bytes, bytes]:
    """Returns the text before the string that `text` ends in, the part of that string, its head and the rest."""
    start = -1 if text.endswith(b"\n") else _find_open_string(text)
    if start < 0:
        return text, b"", b"", b""
    key_start = _find_key(text, start)
    head = text[key_start : start + 1]
    escapes = [(escape.end(), escape[0]) for escape in _ESCAPE.finditer(text, start)]
    end = max((end for end, escape in escapes if escape == rb"\n"), default=0)
    if end:
        return text[:key_start], text[key_start:end] + b'"', head, text[end:]
    if len(text) - start < MAX_LINE_BYTES:
        return text[:key_start], b"", b"", text[key_start:]
    # The string is no log, for example an encoded file. It stays open, so that no figure at its end counts as whole.
    end = len(text) - (text.endswith(b"\\") and (not escapes or escapes[-1][0] < len(text)))
    return text[:key_start], text[key_start:end], head, text[end:]


def _find_open_string(text: bytes) -> int:
    """Returns the position of the string that the text ends in; -1 if it ends in none."""
    last_string = deque(_STRING.finditer(text), maxlen=1)
    return last_string[0].start() if last_string and last_string[0][1] != b'"' else -1


def _find_key(text: bytes, start: int) -> int:
    """Returns the position of the key of the string at `start`; `start` if it has none."""
    begin = max(0, start - MAX_KEY_LENGTH)
    key = _KEY.search(text[begin:start])
    return begin + key.start() if key else start
