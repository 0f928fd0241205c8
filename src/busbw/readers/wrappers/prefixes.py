"""Learns the prefixes that wrappers add to lines, and identifies the writer of a line by its prefix.

A prefix consists of words and separators. Its shape is the prefix without the words and the times:
`[1,0]<stdout>:` and `[1,12]<stdout>:` share a shape. The words of one position form a field:

- A *fixed* field names the writer, as rank, host and pod do: tables of different writers are kept apart.
- A *counter* increases while one table continues, as line numbers and epoch times do. It does not name the writer.
- A *unique* field has a new value in most lines, as identifiers of log entries do. It does not name the writer.

A field counts as fixed until the lines with an anchor (anchors.py) give evidence against that. The evidence is the
*changes* of the field: different values in a line and in the last line before it with an `Anchor.position`. A change is

- an *increase*, if the later line continues the table, and the value is larger and new: line numbers 7, 8;
- a *restart*, if both lines are rows, the later one may begin another table, and the value is smaller: 90, 7;
- a *contradiction*, if the later line continues the table, and the value is smaller or repeated: 7, 6;
- a *contradiction* also if the later line cannot continue the table, such as a row below a footer line.

`Anchor.continues` is True for a line that continues the table, None if it may begin another one, and False otherwise.

Changes of a fixed field are contradictions too, if lines of several writers are mixed: ranks 0, 1, 0.

Dates and clocks are recognized by their form, because they change without order if several sources are merged.
"""

import re
from functools import lru_cache
from itertools import compress

from busbw.readers.wrappers.anchors import Anchor

TIME = re.compile(
    r"(?<![\w.])"
    r"(?:(?:\d{4}[-/]\d\d[-/]\d\d|\d\d/\d\d/\d{2,4}|(?:[A-Z][a-z]{2},? )?[A-Z][a-z]{2} {1,2}\d{1,2}(?: \d{4})?)"
    r"[T ]{1,2})?\d{1,2}:[0-5]\d:[0-5]\d(?:[.,]\d{1,9})?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?(?![\w:])"
)
"""A clock with or without a date: 10:21:50, 2026-11-26T10:21:50.25Z, Nov 26 10:21:50."""
_WORD = re.compile(r"[^\W_]\w*|_\w+")
"""A word of letters, digits and underscores, but not a lone underscore, which is a separator."""
_BLANKS = re.compile(r"\s+")
_TIME_MARK, _WORD_MARK = "\0", "\1"
"""Marks of a time and of a word in a shape."""
_SEPARATOR = rf"[^\w{_TIME_MARK}{_WORD_MARK}]"
_BLANK_NEXT_TO_SEPARATOR = re.compile(rf" (?={_SEPARATOR})|(?<={_SEPARATOR}) ")
_NUMBERED_NAME = re.compile(r"([^\W\d_]{2}[^\W\d]*)\d+\Z")
"""A name with a number, such as gpu012, and its first part."""
_DIGITS = re.compile(r"(\d+)")
_MAX_WORDS = 200
_MAX_LENGTH = 8000
"""Maximum length of a prefix, in characters."""
_MAX_SHAPES = 256
_OTHER_WRITER = "\0"
"""Writer of all prefixes that are longer, have more words or are of further shapes. No shape has this writer."""
_MAX_VALUES = 4096
"""Maximum number of different values of a field, and of writers of a shape, that are kept."""
_MIN_UNIQUE_CHANGES = 3
"""Minimum number of contradictions of a unique field with repeated values. A host's name also has a few contradictions,
if the lines of several hosts are mixed."""
_MIN_UNIQUE_HEADER_CHANGES = 2
"""Minimum `_Field.header_changes` of a unique field without repeated values. A header has one writer, so a fixed field
seldom changes there."""
_MAX_JUMP = 10_000
"""Maximum difference of two consecutive line numbers. Lines in between may be missing, as in the output of grep -n."""


@lru_cache(maxsize=256)
def _split(prefix: str) -> tuple[str, tuple[str, ...]]:
    """Returns the shape and the words of a prefix."""
    text = TIME.sub(_TIME_MARK, prefix)
    return _without_blanks(_WORD.sub(_WORD_MARK, text)), tuple(_WORD.findall(text))


@lru_cache(maxsize=256)
def _without_blanks(shape: str) -> str:
    """Returns a shape with single blanks, and only between words."""
    return _BLANK_NEXT_TO_SEPARATOR.sub("", _BLANKS.sub(" ", shape).strip())


def _order_key(word: str) -> list[str | int]:
    """Returns a key that sorts numbers within words by value: line 9 precedes line 10."""
    if len(word) > 40:
        return [word]
    return [int(part) if index % 2 else part for index, part in enumerate(_DIGITS.split(word))]


class _Field:
    """Values at one position of a shape."""

    def __init__(self) -> None:
        self.values: set[str] = set()
        self.is_fixed = True
        self.is_counter = False
        self.visited: set[str] = set()
        """Values since a new table may have begun."""
        self.increases = 0
        self.contradictions = 0
        self.restarts = 0
        self.header_changes = 0
        """Number of changes between lines of one table that are not both rows, such as header lines. The direction does
        not matter."""

    def add_change(self, earlier: str, word: str, *, continues: bool | None, are_rows: bool) -> None:
        """Adds a change between two lines.

        Args:
            earlier: Value in the earlier line.
            word: Value in the later line.
            continues: Result of `Anchor.continues` for the later line.
            are_rows: True if both lines are rows.
        """
        if (name := _NUMBERED_NAME.match(word)) and earlier.startswith(name[1]):
            return  # hosts and ranks, in any order
        is_larger = _order_key(word) > _order_key(earlier)
        if continues and not are_rows:
            self.header_changes += 1
        if continues is None:  # the later line may begin another table; a larger value is then no evidence
            if not is_larger:
                self._restart(are_rows=are_rows)
        elif continues and is_larger and word not in self.visited:
            self.increases += 1
        else:
            self.contradictions += 1

    def _restart(self, *, are_rows: bool) -> None:
        # Only restarts between two rows count, because a header may repeat within a table.
        if are_rows:
            self.restarts += 1
        self.visited.clear()

    def add_value(self, word: str) -> None:
        """Adds the value of a line."""
        if len(self.values) < _MAX_VALUES:
            self.values.add(word)

    def classify(self, line_count: int, other_part: "_Field | None") -> None:
        """Decides if the field is fixed, a counter or unique.

        Args:
            line_count: Number of lines with this field.
            other_part: Field that may be another part of the same number: in 1764152510.25, the field with 1764152510
                for the field with 25, and the reverse. None if the field may be a whole number.
        """
        is_part_of_counter = other_part is not None and other_part.is_counter and self.contradictions == 0
        # Lines of several writers may be mixed, and tables may follow each other: a few other changes are allowed.
        is_increasing = self.increases > 3 * self.contradictions and self.increases > 4 * self.restarts
        # Identifiers without repetitions: a1f3, 09bc, e771.
        has_unique_values = len(self.values) == line_count and self.header_changes >= _MIN_UNIQUE_HEADER_CHANGES
        # Identifiers that repeat in the further lines of an entry: a1f3, a1f3, 09bc, e771.
        has_mostly_new_values = len(self.values) * 2 > line_count and self.contradictions >= _MIN_UNIQUE_CHANGES
        if is_part_of_counter or is_increasing:
            self.is_fixed, self.is_counter = False, True
        elif has_unique_values or has_mostly_new_values:
            self.is_fixed = False


class _Shape:
    """Prefixes of one shape."""

    def __init__(self, text: str) -> None:
        self.text = text
        *separators_before_fields, _ = text.split(_WORD_MARK)
        self.fields = [_Field() for _ in separators_before_fields]
        self._is_joined = [
            index > 0 and separator in (".", ",", ":") for index, separator in enumerate(separators_before_fields)
        ]
        """True for fields that may be the lower part of the number on their left, such as the fraction of an epoch.

        The other fields begin a number."""
        self._writers: dict[tuple[str, ...], str] = {}
        self._last_observed: tuple[tuple[str, ...], Anchor] | None = None
        """Words and anchor of the last observed line with an `Anchor.position`."""
        self._last_words: tuple[str, ...] | None = None
        """Words of the last argument of `writer`."""
        self._line_count = 0
        self._pattern = _compile(text)

    def observe(self, words: tuple[str, ...], anchor: Anchor) -> None:
        """Adds a line as evidence."""
        self._line_count += 1
        if self._last_observed is not None:
            self._add_changes(*self._last_observed, words, anchor)
        for field, word in zip(self.fields, words, strict=True):
            field.add_value(word)
        if anchor.position is not None:
            self._last_observed = (words, anchor)
            for field, word in zip(self.fields, words, strict=True):
                if field.is_fixed and len(field.visited) < _MAX_VALUES:
                    field.visited.add(word)

    def _add_changes(
        self, earlier_words: tuple[str, ...], earlier_anchor: Anchor, words: tuple[str, ...], anchor: Anchor
    ) -> None:
        """Adds the changes of the fields between two lines."""
        continues = anchor.continues(earlier_anchor)
        are_rows = anchor.is_row and earlier_anchor.is_row
        has_higher_part_changed = False
        for field, earlier, word, is_joined in zip(self.fields, earlier_words, words, self._is_joined, strict=True):
            # If the minute changes, the second begins again, also at a smaller or equal value. This is no evidence.
            begins_again = is_joined and has_higher_part_changed
            has_changed = earlier != word
            if begins_again:
                field.visited.clear()
            elif has_changed:
                field.add_change(earlier, word, continues=continues, are_rows=are_rows)
            # If the hour changes, the second begins again like the minute, so all lower parts see the change.
            has_higher_part_changed = begins_again or has_changed

    def classify(self) -> None:
        """Decides which fields name the writer. Tables that are open keep their writers."""
        was_fixed = [field.is_fixed for field in self.fields]
        left: _Field | None = None
        for field, is_joined in zip(self.fields, self._is_joined, strict=True):
            if field.is_fixed:
                field.classify(self._line_count, left if is_joined else None)
            # The right part of a number may be the first one with evidence: seconds can be constant in a short table,
            # while their fraction increases. So the left part is classified again.
            if left is not None and left.is_fixed:
                left.classify(self._line_count, field if is_joined else None)
            left = field
        if was_fixed != [field.is_fixed for field in self.fields]:
            self._shorten_keys([field.is_fixed for field in compress(self.fields, was_fixed)])

    def _shorten_keys(self, is_kept: list[bool]) -> None:
        """Drops the words of fields that are no longer fixed from the keys of the writers.

        If several keys become equal, the dict keeps the last writer, which was used last (`writer`).
        """
        self._writers = {tuple(compress(key, is_kept)): writer for key, writer in self._writers.items()}

    def knows(self, words: tuple[str, ...]) -> bool:
        """True if no fixed field has a new value. The combination of the values may be new."""
        return all(not field.is_fixed or word in field.values for field, word in zip(self.fields, words, strict=True))

    def writer(self, words: tuple[str, ...]) -> str:
        """Returns the writer of a prefix. Empty if the prefix has separators only, such as a quotation mark."""
        if not self.fields and _TIME_MARK not in self.text:
            return ""
        for field, word in zip(self.fields, words, strict=True):
            field.add_value(word)
        self._last_words = words
        key = tuple(word for field, word in zip(self.fields, words, strict=True) if field.is_fixed)
        writer = self._writers.pop(key, None)
        if writer is None:
            writer = f"{self.text} {' '.join(key)}"
        self._writers[key] = writer  # at the end, so that the writers are in the order of their last use
        if len(self._writers) > _MAX_VALUES:
            del self._writers[next(iter(self._writers))]
        return writer

    def match(self, text: str) -> tuple[int, str] | None:
        """Returns the end of this shape at the beginning of a text, and the writer.

        None if the text begins with another shape, or if a fixed field has a new value. Also None if the prefixes are
        line numbers, and the text begins with another number, such as the size of a row.
        """
        match = self._pattern.match(text)
        if match is None or not self.knows(match.groups()):
            return None
        if self._is_line_number and not self._is_next_line_number(match[1]):
            return None
        return match.end(), self.writer(match.groups())

    @property
    def _is_line_number(self) -> bool:
        return self.text == _WORD_MARK and self.fields[0].is_counter

    def _is_next_line_number(self, word: str) -> bool:
        """True if a word can be the line number after the last one, or the first line number of a file."""
        if not word.isdecimal() or len(word) > 18:
            return False
        if self._last_words is None:
            return True
        number, last = int(word), int(self._last_words[0])
        return number <= 1 or last < number <= last + _MAX_JUMP


def _compile(shape: str) -> "re.Pattern[str]":
    """Returns the regular expression of a shape at the beginning of a line."""
    parts = [r"\s*"]
    for character in shape:
        if character == _WORD_MARK:
            parts.append(f"({_WORD.pattern})")
        elif character == _TIME_MARK:
            parts.append(TIME.pattern)
        elif character == " ":
            parts.append(r"\s{1,20}")
        else:
            parts.append(rf"\s{{0,20}}{re.escape(character)}\s{{0,20}}")
    if shape[-1] in (_WORD_MARK, _TIME_MARK):
        parts.append(r"(?=\s|$)")
    return re.compile("".join(parts))


class PrefixTable:
    """All shapes of a log."""

    def __init__(self) -> None:
        self._shapes: dict[str, _Shape] = {}
        self._by_length: list[_Shape] = []
        """All shapes, the longest first, because a shape may begin with another one."""

    @property
    def has_shapes(self) -> bool:
        """True if a prefix was added."""
        return bool(self._by_length)

    def observe(self, prefix: str, anchor: Anchor) -> None:
        """Adds a line with an anchor as evidence. Call `classify` after the last one."""
        if prefix and (found := self._find(prefix, may_add=True)):
            shape, words = found
            shape.observe(words, anchor)

    def classify(self) -> None:
        """Applies the evidence."""
        for shape in self._shapes.values():
            shape.classify()

    def knows(self, prefix: str) -> bool:
        """True if the shape is known, and each word that names the writer is known at its position."""
        if not prefix:
            return True
        found = self._find(prefix, may_add=False)
        if found is None:
            return False
        shape, words = found
        return shape.knows(words)

    def writer(self, prefix: str) -> str:
        """Returns the writer of a line with this prefix. Empty if the line has no prefix."""
        if not prefix:
            return ""
        found = self._find(prefix, may_add=True)
        if found is None:
            return _OTHER_WRITER
        shape, words = found
        return shape.writer(words)

    def match(self, text: str) -> tuple[int, str] | None:
        """Returns the end of a known prefix at the beginning of a text, and its writer. None if there is no prefix."""
        return next((found for shape in self._by_length if (found := shape.match(text))), None)

    def _find(self, prefix: str, *, may_add: bool) -> tuple[_Shape, tuple[str, ...]] | None:
        """Returns the shape and the words of a prefix. None if the shape is unknown and is not added."""
        if len(prefix) > _MAX_LENGTH:
            return None
        text, words = _split(prefix)
        shape = self._shapes.get(text)
        if shape is None and may_add and text and len(words) <= _MAX_WORDS and len(self._shapes) < _MAX_SHAPES:
            shape = self._shapes[text] = _Shape(text)
            self._by_length = sorted(self._shapes.values(), key=lambda shape: len(shape.text), reverse=True)
        return (shape, words) if shape else None
