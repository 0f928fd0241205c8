"""Removes the wrappers of a log from its lines: prefixes, suffixes, quoting and markup.

Examples are the prefixes of syslog, journald, container runtimes (CRI), Docker Compose and pdsh.

A wrapper is detected from the lines themselves. `learn` reads lines ahead, and `unwrap` applies what they showed.
anchors.py finds rows and lines of headers and footers by their own text, and prefixes.py compares the texts before
them. quoting.py finds strings that hold lines, and delimited.py finds the column of a message.
"""

import copy
import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from busbw.readers.wrappers import cleaning
from busbw.readers.wrappers.anchors import MAX_LENGTH, Anchor, count_bars_before_rule, find_anchor
from busbw.readers.wrappers.delimited import MessageColumn, split_messages
from busbw.readers.wrappers.prefixes import PrefixTable
from busbw.readers.wrappers.quoting import QuotedStrings, QuotedText

_MAX_NESTING = 4
"""Maximum number of strings within strings."""
_ESCAPED_QUOTES = re.compile(r"&(?:quot|#34|#x22);")
_LINE_TAG = re.compile(r"<(?:br\s?/?|/(?:p|div|li|pre|h\d))>", re.IGNORECASE)
"""HTML tags after which a new line begins."""
_LINE_BREAK = re.compile(rf"{_LINE_TAG.pattern}|(?:\\r)?\\n|\| rc=-?\d{{1,9}} \| \(std(?:out|err)\) ", re.IGNORECASE)
"""End of a line: one of these tags, an escaped line feed, or the text of `ansible -o` before an output."""
_CELL_TAG = re.compile(r"<t[dhr]\b", re.IGNORECASE)
"""HTML tag of a table. grids.py reads its cells."""
_HIDDEN_STRINGS = re.compile(rf'""|{_ESCAPED_QUOTES.pattern}')
"""Escaped quotation marks of CSV or HTML, as around the strings of JSON in a cell: `{""log"": ""...""}`."""
_LINE_END = re.compile(r"\r\n|\n|\r")
_TAG = re.compile(r"<\s*[A-Za-z/]")
_MARKS = ('"', "'", "&", "\\", "| rc=", "[repeated ")
"""Texts of which a line that stands in a string or has escapes contains at least one."""
_SUFFIX = re.compile(r"[^\w.\s/+-][^\w.]{0,20}\Z")
"""Characters that no figure has at the end of a line, such as `",` in a list of strings."""
_MIN_SUFFIX_LINES = 3
"""Minimum number of different lines that show a suffix."""


class UnwrappedLine(NamedTuple):
    """A line without wrappers."""

    text: str
    writer: str
    """Identifies the process that wrote the line. Empty if the line has no wrapper."""
    original: str
    """The line with its prefix and suffix, but without the string that it stands in."""
    is_closed: bool
    """True if a part of the wrapper follows the line, so that the line cannot be cut."""
    is_open: bool = False
    """True if the line follows an escaped line break and has none, so that it may continue on the next line."""


class _Part(NamedTuple):
    """A line within strings and markup, with its prefix."""

    text: str
    surroundings: str
    """Text around the string that holds the line. Empty if it is in none."""
    is_inner: bool
    """True if the line of the file holds several lines or a string."""
    is_closed: bool
    continues: bool = False
    """True if the line follows another one in the same string or line, so that it has the same prefix."""
    is_open: bool = False
    """As in `UnwrappedLine`."""


def has_only_prefix(line: str) -> bool:
    """True if a line is not blank and a prefix is the only wrapper that it may have."""
    text = line.strip()
    return (
        text.isascii()
        and text.isprintable()  # has no tabs between messages and no controls
        and text[-1:] not in ("", "[", "]", ",")  # a list of strings may begin or end
        and not any(map(text.__contains__, _MARKS))
        and not ("<" in text and _TAG.search(text))
    )


class Unwrapper:
    """Removes the wrappers of one log."""

    def __init__(self) -> None:
        self._keys: set[str] = set()
        """Keys of the strings that hold lines, shared by all `QuotedStrings`."""
        self._strings = QuotedStrings(self._keys)
        self._column = MessageColumn()
        self._surroundings = PrefixTable()
        """Texts around strings. They name writers, as prefixes do."""
        self._prefixes = PrefixTable()
        """Texts before lines."""
        self._bar_count = 0
        """Number of vertical bars in the prefix of Markdown tables."""
        self._suffix = ""
        """Text after every line. Empty if they have none in common."""

    @property
    def has_text_after_lines(self) -> bool:
        """True if a part of the wrapper follows each line."""
        return bool(self._suffix) or self._column.is_known

    @property
    def knows_wrappers(self) -> bool:
        """True if any line had a wrapper."""
        has_prefixes = self._prefixes.has_shapes or self._surroundings.has_shapes
        return bool(self._keys or self._bar_count) or has_prefixes or self.has_text_after_lines

    def learn(self, lines: Iterable[str]) -> None:
        """Learns the wrappers of lines that follow each other. Each line may be learned once."""
        strings = copy.copy(self._strings)  # shares the keys, but not the open array
        bodies: list[str] = []
        lines = list(lines)
        self._column.learn(lines)
        parts = [part for line in lines for part in self._split(line, strings)]
        for part in parts:
            if (bar_count := count_bars_before_rule(part.text)) is not None:
                self._bar_count = bar_count
        for part in parts:
            if located := _locate(part.text, self._bar_count):
                self._observe(part, located)
                bodies.append(located.body)
        self._surroundings.classify()
        self._prefixes.classify()
        self._suffix = _common_suffix(bodies) or self._suffix

    def _observe(self, part: _Part, located: "_LocatedLine") -> None:
        self._surroundings.observe(part.surroundings, located.anchor)
        self._prefixes.observe(located.prefix, located.anchor)

    def unwrap(self, line: str, look_ahead: Callable[[], Iterable[str]]) -> Iterator[UnwrappedLine]:
        """Yields the lines of the log within one line of the file. Blank ones are left out.

        `look_ahead` returns lines that follow and were not learned. It is called if the line shows an unknown wrapper.
        """
        first_writer = ""
        for part in self._split(line, self._strings):
            located = _locate(part.text, self._bar_count)
            if located and not (self._surroundings.knows(part.surroundings) and self._prefixes.knows(located.prefix)):
                self._observe(part, located)
                self.learn(look_ahead())
            body, writer, is_closed = self._without_prefix(part.text, located)
            if part.continues:
                writer = writer or first_writer
            else:
                first_writer = writer
            if self._suffix and body.rstrip().endswith(self._suffix):
                body, is_closed = body.rstrip().removesuffix(self._suffix), True
            writer = self._surroundings.writer(part.surroundings) + writer
            is_closed |= part.is_closed
            yield UnwrappedLine(body, writer, part.text if part.is_inner else line, is_closed, is_open=part.is_open)

    def _without_prefix(self, text: str, located: "_LocatedLine | None") -> tuple[str, str, bool]:
        """Returns the text after its prefix, the writer, and true if a part of the wrapper follows the text."""
        if located:
            return located.body, self._prefixes.writer(located.prefix), located.is_closed
        candidates = (text, cleaning.without_markup(text)) if "<" in text or "&" in text else (text,)
        for candidate in candidates:
            if match := self._prefixes.match(candidate):
                end, writer = match
                return cleaning.without_markup(candidate[end:]), writer, False
        return text, "", False

    def _split(self, line: str, strings: QuotedStrings, surroundings: str = "", depth: int = 0) -> Iterator[_Part]:
        """Yields the lines within strings and markup.

        The first form that is found divides the line: the column of messages, tabs between messages, strings, or line
        breaks. Texts of the first three forms are split again.

        Args:
            line: Line of the file, or a text in it.
            strings: Finds the strings in `line`.
            surroundings: Text around `line` in the line of the file.
            depth: Number of strings and cells that contain `line`. 0 for a line of the file.
        """
        is_whole_line = depth == 0
        if has_only_prefix(line) and not (is_whole_line and self._column.is_known):
            yield _Part(cleaning.strip_controls(line), surroundings, is_inner=False, is_closed=False)
            return
        if is_whole_line and (message := self._column.find(line)):
            inner_strings = QuotedStrings(self._keys)
            for part in self._split(message.text, inner_strings, message.surroundings, depth + 1):
                yield part._replace(is_inner=True, is_closed=True)
            return
        if "\t" in line and len(messages := split_messages(line)) > 1:
            for text in messages:
                for part in self._split(text, strings, surroundings, depth):
                    yield part._replace(is_inner=True, is_closed=part.is_closed or text is not messages[-1])
            return
        text = cleaning.strip_controls(line)
        if depth < _MAX_NESTING:
            if "&" in text and _ESCAPED_QUOTES.search(text) and not _CELL_TAG.search(text):
                text = cleaning.without_markup(text)
            if found := strings.find(text):
                yield from self._split_strings(found, surroundings, depth)
                return
        yield from _split_at_line_breaks(text, surroundings)

    def _split_strings(self, strings: list[QuotedText], surroundings: str, depth: int) -> Iterator[_Part]:
        """Yields the lines within the strings of a line."""
        for string in strings:
            for line in filter(None, _LINE_END.split(string.text)):
                inner_strings = QuotedStrings(self._keys)
                for part in self._split(line, inner_strings, surroundings + string.surroundings, depth + 1):
                    yield part._replace(is_inner=True, is_closed=string.is_closed)


def _split_at_line_breaks(text: str, surroundings: str) -> Iterator[_Part]:
    """Yields the lines within a text that escapes or tags divide. Blank lines are left out."""
    if not ("<" in text or "\\n" in text or "| rc=" in text):
        if text.strip():
            yield _Part(text, surroundings, is_inner=False, is_closed=False)
        return
    has_escaped_lines = "\\n" in text and not _HIDDEN_STRINGS.search(text)
    lines = (_LINE_BREAK if has_escaped_lines else _LINE_TAG).split(text)
    for index, line in enumerate(lines):
        if line.strip():
            is_last = index == len(lines) - 1
            yield _Part(
                line,
                surroundings,
                is_inner=len(lines) > 1,
                is_closed=not is_last,
                continues=index > 0,
                is_open=has_escaped_lines and is_last and index > 0,
            )


class _LocatedLine(NamedTuple):
    """A line that identifies itself."""

    prefix: str
    body: str
    anchor: Anchor
    is_closed: bool
    """True if markup follows the line."""


def _locate(text: str, bar_count: int) -> _LocatedLine | None:
    """Returns a line that identifies itself, and its prefix. None for any other line."""
    if len(text) > MAX_LENGTH:
        return None
    anchor = find_anchor(text, bar_count)
    if anchor is None and ("<" in text or "&" in text):
        text = cleaning.without_markup(text)
        anchor = find_anchor(text, bar_count)
    if anchor is None:
        return None
    body = text[anchor.start :]
    is_closed = "<" in body and body.endswith(">")
    return _LocatedLine(text[: anchor.start].strip(), cleaning.without_markup(body), anchor, is_closed)


def _common_suffix(bodies: list[str]) -> str:
    """Returns the text after the last figure or word that all lines share. Empty if they share none."""
    if len(set(bodies)) < _MIN_SUFFIX_LINES:
        return ""
    reversed_bodies = [body.rstrip()[::-1] for body in bodies]
    shared = os.path.commonprefix(reversed_bodies)[::-1]  # noqa: RUF071
    match = _SUFFIX.search(shared)
    return match.group() if match else ""
