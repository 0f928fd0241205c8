r"""Moves the cuts of lines that are too long for memory, so that each part can be read alone.

`LogSource.lines` cuts a long line anywhere. Here the cuts move to line breaks in a string of JSON, or between strings:
the line `{"log": "a\nb\n"}` may become the parts `{`, `"log": "a\n"` and `"log": "b\n"}`. A string may hold further
strings. Their quotation marks and line breaks are escaped twice.
"""

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from busbw.readers.lines.source import MAX_LINE_BYTES
from busbw.readers.wrappers.quoting import KEY_PATTERN, MAX_KEY_LENGTH

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*("|\\?\Z)', re.DOTALL)
_ESCAPE = re.compile(rb"\\.", re.DOTALL)
_LINE_BREAK = re.compile(rb"\\n|[\t>]|', ")
"""End of a line outside of strings of JSON: an escape, a tab between messages, an HTML tag, or a string of Python."""
_KEY = re.compile(KEY_PATTERN.encode())


class _Cut(NamedTuple):
    """A text that is cut into parts."""

    parts: tuple[bytes, ...] = ()
    """Parts that can be read alone."""
    heads: tuple[bytes, ...] = ()
    """Key and quotation mark of the string that continues, and of the strings within it. Empty if none continues."""
    rest: bytes = b""
    """Text that belongs to the next part, after the heads."""


def move_cuts(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yields the lines. Each part of a string that is longer than a read begins with the key of the string.

    Args:
        lines: Lines of a log. A long one comes in parts, and only its last part may end with a line feed.
    """
    cut = _Cut()
    for line in lines:
        if len(line) < MAX_LINE_BYTES and not cut.heads and not cut.rest:
            yield line
            continue
        text = _join(cut.heads) + cut.rest + line
        if cut.heads and (string := _STRING.match(text, len(cut.heads[0]) - 1)) and string[1] == b'"':
            yield from _separate(text[: string.end()], cut.heads)
            text = text[string.end() :]
        cut = _cut(text)
        yield from filter(None, cut.parts)
    if cut.rest:
        yield _join(cut.heads) + cut.rest


def _join(heads: tuple[bytes, ...]) -> bytes:
    return heads[0] + _escape(_join(heads[1:])) if heads else b""


def _separate(text: bytes, heads: tuple[bytes, ...]) -> Iterator[bytes]:
    """Yields the last part of a string, and separately the text after the last part of the string within it."""
    inner = _unescape(text[len(heads[0]) : -1]) if len(heads) > 1 else None
    string = _STRING.match(inner, len(heads[1]) - 1) if inner else None
    if not inner or not string:
        yield text
        return
    for part in (*_separate(inner[: string.end()], heads[1:]), inner[string.end() :]):
        yield heads[0] + _escape(part) + b'"'


def _cut(text: bytes) -> _Cut:
    if text.endswith(b"\n"):
        return _Cut((text,))
    start = _find_open_string(text)
    if start < 0:
        end = max((line_break.end() for line_break in _LINE_BREAK.finditer(text, text.rfind(b'"') + 1)), default=0)
        return _Cut((text[:end],), rest=text[end:]) if end else _Cut((text,))
    return _cut_string(text, start)


def _cut_string(text: bytes, start: int) -> _Cut:
    """Cuts a text that ends within the string at `start`."""
    key_start = _find_key(text, start)
    before, head = text[:key_start], text[key_start : start + 1]
    escapes = [(escape.end(), escape[0]) for escape in _ESCAPE.finditer(text, start)]
    last_escape = escapes[-1][0] - 2 if escapes else 0
    inner = _unescape(text[start + 1 : last_escape]) if any(escape == rb"\"" for _, escape in escapes) else None
    if inner is not None and _find_open_string(inner) >= 0:
        cut = _cut(inner)
        parts = [head + _escape(part) + b'"' for part in cut.parts]
        return _Cut((before, *parts), (head, *cut.heads), _escape(cut.rest) + text[last_escape:])
    end = max((end for end, escape in escapes if escape == rb"\n"), default=0)
    if end:
        return _Cut((before, text[key_start:end] + b'"'), (head,), text[end:])
    if len(text) - start < MAX_LINE_BYTES:
        return _Cut((before,), rest=text[key_start:])
    # The string is no log, for example an encoded file. It stays open, so that no figure at its end counts as whole.
    has_half_escape = text.endswith(b"\\") and (not escapes or escapes[-1][0] < len(text))
    end = len(text) - has_half_escape
    return _Cut((before, text[key_start:end]), (head,), text[end:])


def _unescape(escaped: bytes) -> bytes | None:
    """Returns the text of a string of JSON; None if it is not valid."""
    try:
        return str(json.loads(b'"' + escaped + b'"', strict=False)).encode()
    except ValueError:
        return None


def _escape(text: bytes) -> bytes:
    return json.dumps(text.decode(), ensure_ascii=False)[1:-1].encode()


def _find_open_string(text: bytes) -> int:
    """Returns the position of the string that the text ends in; -1 if it ends in none."""
    last_string = deque(_STRING.finditer(text), maxlen=1)
    return last_string[0].start() if last_string and last_string[0][1] != b'"' else -1


def _find_key(text: bytes, start: int) -> int:
    """Returns the position of the key of the string at `start`; `start` if it has none."""
    begin = max(0, start - MAX_KEY_LENGTH)
    key = _KEY.search(text[begin:start])
    return begin + key.start() if key else start
