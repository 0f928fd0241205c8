"""Finds lines of a log that stand in strings of JSON, as container runtimes, notebooks and Ansible write them.

If one string with a key holds rows or lines of a header, all later strings with this key are returned. The key of an
element is the key of its array. Strings that Python prints, such as `['# size', ...]` and `b'# size'`, are found too.
"""

import json
import re
from typing import NamedTuple

from busbw.readers.wrappers import cleaning
from busbw.readers.wrappers.anchors import find_anchor, may_have_anchor

_JSON_STRING = r'"(?P<text>[^"\\]*(?:\\.[^"\\]*)*)(?P<end>"|\Z)'
_STRING = re.compile(_JSON_STRING, re.DOTALL)
_APOSTROPHE_STRING = r"'(?P<python_text>[^'\\]*(?:\\.[^'\\]*)*)(?P<python_end>')(?![^\s\]),}:])"
"""A string between apostrophes. Only a blank or punctuation may follow it."""
_PYTHON_STRING = re.compile(rf"(?<![^\s\[({{,:=])b?(?:{_JSON_STRING}|{_APOSTROPHE_STRING})", re.DOTALL)
"""A string that Python prints, such as `'# size'` and `b"8"`. It begins after a blank or punctuation, so the apostrophe
of "don't" begins none."""
_PYTHON_LINES = re.compile(r"\\n|['\"],\s?b?['\"]")
"""Sign that a line with an apostrophe holds strings of Python: an escaped line feed, or two neighboring strings."""
_COLON = re.compile(r"\s{0,20}:")
_BETWEEN_FIELDS = " ,:"
"""Characters between the strings of an object. Other text may open or close an object or a list."""
_PADDING = " \t,'"
"""Characters that may follow a bracket in a line. A string of a wrapper around the line may end with an apostrophe."""


class QuotedText(NamedTuple):
    """A string that holds lines of a log."""

    text: str
    surroundings: str
    """The line around the string, which may name the writer."""
    is_closed: bool
    """False if the line ends within the string."""


class _String(NamedTuple):
    """A string in a text, with its escapes."""

    start: int
    end: int
    escaped: str
    is_closed: bool
    """False if the text ends within the string."""
    is_json: bool
    """True if it has the quotation marks of JSON, which Python uses too. False for a string between apostrophes."""
    is_bytes: bool
    """True if Python printed bytes."""

    def decode(self) -> str:
        """Returns the text without its escapes."""
        return _decode(self.escaped) if self.is_json else _decode_python(self.escaped, is_bytes=self.is_bytes)


def _make_string(match: "re.Match[str]") -> _String:
    """Returns the string that `_STRING` or `_PYTHON_STRING` matched."""
    escaped = match["text"]
    is_json = escaped is not None
    return _String(
        start=match.start(),
        end=match.end(),
        escaped=escaped if is_json else match["python_text"],
        is_closed=bool(match["end"]) if is_json else True,
        is_json=is_json,
        is_bytes=match[0][0] == "b",
    )


_REPEATED_SUFFIX = "_lines"
"""Ansible writes the text of the key K again as an array of lines, with the key K_lines."""
_MAX_KEYS = 4096
"""Maximum number of keys that are kept. A log of any length may have a new key on each line."""
_BEFORE_ELEMENT = " \t,[("
"""Characters that may stand before an element of an array."""
_MAX_SURROUNDINGS = 8000
"""Characters. The surroundings of a string in a longer line are left out."""


class QuotedStrings:
    """Finds the strings in the lines of a log, in order."""

    def __init__(self, keys: set[str]) -> None:
        self._keys = keys
        """Keys of strings that hold lines; "" stands for strings without a key. All scanners of one log share them."""
        self._array_key = ""
        """Key of the open array. Empty if no array is open, or if it has no key."""

    def find(self, text: str) -> list[QuotedText]:
        """Returns the strings with known keys, and those that hold rows or header lines.

        Remembers the keys of the latter, up to a limit.
        """
        is_python = "'" in text and _PYTHON_LINES.search(text)
        if not is_python and '"' not in text:
            self._read_end(text.rstrip(_PADDING), text)
            return []
        found: list[QuotedText] = []
        end = 0
        for match in (_PYTHON_STRING if is_python else _STRING).finditer(text):
            between = text[end : match.start()]
            end = match.end()
            if between.strip(_BETWEEN_FIELDS):  # may have brackets
                self._read_between(between, match.start(), text)
            string = _make_string(match)
            # As long as no key is known, an empty string can neither have a known key nor hold lines.
            is_empty_and_unknown = not string.escaped and not self._keys
            is_key = string.is_closed and _COLON.match(text, end)
            if is_empty_and_unknown or is_key:
                continue
            if (quoted := self._read_value(string, between, text)) is not None:
                found.append(quoted)
        self._read_end(text[end:].rstrip(_PADDING), text)
        return found

    def _read_value(self, string: "_String", between: str, text: str) -> QuotedText | None:
        """Returns a string that is a value or an element if it holds lines. `between` is the text before it."""
        own_key = _key_before(text, string.start)
        key = own_key or self._array_key
        # True for a string without a key after other text, as in `output of job "..."`. Without an escaped line feed
        # it is a quotation, such as a name. With one, a program has printed several lines as one string.
        follows_text = not key and bool(between.strip(_BEFORE_ELEMENT)) and not between.endswith("[")
        if follows_text and "\\n" not in string.escaped:
            return None
        if key.endswith(_REPEATED_SUFFIX) and key.removesuffix(_REPEATED_SUFFIX) in self._keys:
            return QuotedText("", "", is_closed=True)  # counts as found, but its rows are not read twice
        content = string.decode()
        if key not in self._keys and not _has_anchor(content):
            return None
        if len(self._keys) < _MAX_KEYS:
            self._keys.add(key)
        # The surroundings of an element are other elements. They do not name the writer.
        has_surroundings = bool(own_key) or follows_text
        length = len(text) - (string.end - string.start)
        if not has_surroundings or length >= _MAX_SURROUNDINGS:
            return QuotedText(content, "", string.is_closed)
        surroundings = f'{text[: string.start]}""{text[string.end :].rstrip(_PADDING)}'
        return QuotedText(content, surroundings, string.is_closed)

    def _read_between(self, between: str, end: int, text: str) -> None:
        """Sets the key of the array. The text before the string at `end` may end an array or begin one."""
        is_after_string = len(between) < end  # otherwise `between` begins at the beginning of the line
        if is_after_string and between.lstrip().startswith("]"):
            self._array_key = ""
        if between.rstrip().endswith("["):
            self._array_key = _key_before(text, text.rindex("[", 0, end))

    def _read_end(self, rest: str, text: str) -> None:
        """Sets the key of the array. `rest`, the end of the line, may end an array or begin one."""
        if rest.endswith("]"):
            self._array_key = ""
        elif rest.endswith("["):
            self._array_key = _key_before(text, text.rindex("["))


_MAX_KEY_NAME = 100
_MAX_KEY_LENGTH = 150
"""Maximum number of characters of a key with its quotation marks and blanks."""
_KEY_BEFORE_EQUALS = re.compile(r"\b(\w{1,100})=\Z")


def _key_before(text: str, end: int) -> str:
    """Returns the key of the value that begins at `end`, as in `"key": ` and `key=`. Empty if it has none.

    A regular expression would take too long on each string of a long line.
    """
    before = text[max(0, end - _MAX_KEY_LENGTH) : end].rstrip()
    if before.endswith(":"):
        before = before[:-1].rstrip()
        if before.endswith(('"', "'")):
            key = before[max(before.rfind('"', 0, -1), before.rfind("'", 0, -1)) + 1 : -1]
            return key if len(key) <= _MAX_KEY_NAME and len(key) + 2 <= len(before) and "\\" not in key else ""
    elif before.endswith("=") and (match := _KEY_BEFORE_EQUALS.search(before)):
        return match[1]
    return ""


_TABLE_TAG = re.compile(r"(?:^|\\n)[ \t]{0,40}<(?:table|t[rdh])\b", re.IGNORECASE | re.MULTILINE)
"""Tag of an HTML table, which is the header of a published table or holds a row."""


def _has_anchor(content: str) -> bool:
    has_markup = "<" in content or "&" in content
    if not (has_markup or may_have_anchor(content)):
        return False
    return (has_markup and _TABLE_TAG.search(content) is not None) or any(
        find_anchor(cleaning.without_markup(line)) is not None for line in content.splitlines()
    )


_JSON_DECODER = json.JSONDecoder(strict=False)
"""Decodes strings. `json.loads` would make a new decoder for each."""


def _decode(escaped: str) -> str:
    """Returns the text of a JSON string, or of one that Python prints with quotation marks.

    Lone surrogates, which UTF-8 cannot encode, are replaced.
    """
    if "\\" not in escaped:
        return escaped
    try:
        text = str(_JSON_DECODER.raw_decode(f'"{escaped}"')[0])
    except ValueError:
        return _decode_python(escaped)
    return text.encode("utf-8", errors="replace").decode()


_PYTHON_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", re.DOTALL)
_PYTHON_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", "'": "'", '"': '"'}
_VALUE_WITH_LINES = re.compile(r'":\s?"(?:[^"\\]|\\[^n\\])*\\n')
"""A value of JSON with a line feed that is escaped once."""


def _decode_python(escaped: str, *, is_bytes: bool = False) -> str:
    r"""Returns the text of a string that Python prints. Unknown escapes remain.

    JSON may stand between apostrophes, such as '{"log": "a\nb"}'. Python would have printed its line feed as two
    backslashes and an n. So JSON with a single backslash there was not printed by Python, and stays as it is.
    """
    if _VALUE_WITH_LINES.search(escaped):
        return escaped
    text = _PYTHON_ESCAPE.sub(_decode_escape, escaped)
    if is_bytes:
        return text.encode("latin-1", errors="replace").decode("utf-8", errors="replace")
    return text.encode("utf-8", errors="replace").decode()


def _decode_escape(match: "re.Match[str]") -> str:
    escape = match[1]
    if len(escape) > 1:
        return chr(int(escape[1:], 16))
    return _PYTHON_ESCAPES.get(escape, match[0])
