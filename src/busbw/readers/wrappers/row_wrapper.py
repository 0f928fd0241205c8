r"""Removes the wrapper of the last row from the lines that have it too, without the general search of unwrapping.py.

Docker writes each line of a log as an object of JSON. The objects differ only in that line and in the time:

    {"log": "        1024           256     float ...\n", "stream": "stdout", "time": "2026-11-26T10:21:50.0Z"}

A log viewer in a browser may write each line in tags: `<div class="line">        1024 ...</div>`.
Only the closing tag is a wrapper then; the opening tag belongs to the prefix of the row.
"""

import re
from functools import cached_property

from busbw.readers.wrappers.prefixes import TIME

_MAX_LENGTH = 1000
"""Maximum number of characters of a wrapper."""
_BEFORE_ROW = re.compile(r'(?:[\w {}:",.+/=@-]*")?', re.ASCII)
"""Beginning of a wrapper, such as `{"log": "`. It has no brackets of arrays, escapes or markup."""
_AFTER_ROW = re.compile(r'(?:(?:\\r)?\\n)?"[\w {}:",.+/=@-]*\r?\n|(?:</[a-z]\w*>)+\r?\n', re.ASCII)
r"""End of a wrapper with the end of the line, such as `\n", "stream": "stdout"}` or `</div>`."""
_ROW_WITH_TAGS = re.compile(r"((?:<(?!table|t[rdh]\b)[a-z][^<>]*>)*)[^<]*")
"""A row and the tags before it, without those after it. Tags of tables are left out, because cells have them too."""
_PLAIN_TEXT = r"[ !#-%(-;=-\[\]-{}~]*"
"""ASCII text without escapes, markup and quotation marks. A class of excluded characters would compile slowly."""
_DIGIT = re.compile(r"\d")
_FRACTION_PATTERN = re.compile(r"(\\\.|,)(?:\\d)+")
r"""The fraction of a second after the replacement of its digits: `\.\d\d`. Docker omits zeros at its end."""


class RowWrapper:
    """Wrapper of a row: the text before and after it in its line, with any times.

    Tags before the row belong to its prefix, as in the general search. So `remove_from` keeps them.
    """

    def __init__(self, before: str, tags: str, after: str) -> None:
        self.pattern = f"{_any_time(before)}({re.escape(tags)}{_PLAIN_TEXT}){_any_time(after)}"
        """Regular expression for lines with this wrapper. It compiles at its first use, which takes long."""

    @cached_property
    def _line(self) -> "re.Pattern[str]":
        return re.compile(self.pattern)

    def remove_from(self, line: str) -> str:
        """Returns the text within the wrapper, with a line end. Empty if the line has another wrapper."""
        match = self._line.fullmatch(line)
        return f"{match[1]}\n" if match else ""


def find_row_wrapper(line: str, row: str) -> RowWrapper | None:
    """Returns the wrapper of a row in its line. None if only the general search can remove this wrapper.

    `row`: `UnwrappedLine.original` of the row.
    """
    if len(line) - len(row) > _MAX_LENGTH:
        return None
    row_with_tags = _ROW_WITH_TAGS.match(row)
    if row_with_tags is None or not row_with_tags[0]:
        return None
    before, _, after = line.partition(row_with_tags[0])
    has_plain_form = _BEFORE_ROW.fullmatch(before) and _AFTER_ROW.fullmatch(after)
    may_be_csv = '""' in before or '""' in after
    return RowWrapper(before, row_with_tags[1], after) if has_plain_form and not may_be_csv else None


def _any_time(text: str) -> str:
    """Returns a regular expression for a text with other times of the same form."""
    pattern, end = "", 0
    for time in TIME.finditer(text):
        pattern += re.escape(text[end : time.start()]) + _digits_pattern(time[0])
        end = time.end()
    return pattern + re.escape(text[end:])


def _digits_pattern(time: str) -> str:
    r"""Returns a regular expression for a time of the same form: `\d\d:[0-5]\d:[0-5]\d\.\d{1,9}` for 10:21:50.25."""
    any_digits = _DIGIT.sub(r"\\d", re.escape(time))
    any_fraction = _FRACTION_PATTERN.sub(r"\1\\d{1,9}", any_digits)
    return any_fraction.replace(r":\d", ":[0-5]")
