"""Recognizes lines that look like a row but are none, so that they are refused and not lost."""

import re

from busbw.readers.tables.quantities import DTYPES, is_value
from busbw.readers.text.row_forms import begin_with_counts

_MIN_WORDS = 6
"""Minimum number of words in a line that looks like a row."""
_MIN_FIGURES = 5
"""Minimum number of figures in a line that looks like a row."""
_MIN_FIGURES_WITH_TYPE = 3
"""Minimum number of figures after an element type in a table."""
_MAX_OTHER_WORDS = 3
"""Maximum number of words among the figures of such a line: an invalid type or figure, the operator and the root."""
_FOREIGN_FIGURE = re.compile(r"\d[\d.,']{0,40}\Z")
"""A figure with the decimal comma or the grouped digits of another language. A row with such figures is refused."""


def reject_broken_row(words: list[str], *, is_in_table: bool) -> str:
    """Returns why a line that looks like a row is not one. Empty if the line does not look like a row."""
    if len(words) < _MIN_WORDS or words[0].startswith("#"):
        return ""
    type_index = next((index for index, word in enumerate(words) if word in DTYPES), None)
    figures = words[2 if type_index is None else type_index + 1 :]
    figure_count = sum(is_value(word) or _FOREIGN_FIGURE.match(word) is not None for word in figures)
    has_many_other_words = figure_count < len(figures) - _MAX_OTHER_WORDS
    has_type = bool(type_index)  # the first word of a row is never a type
    min_figure_count = _MIN_FIGURES_WITH_TYPE if is_in_table and has_type else _MIN_FIGURES
    if has_many_other_words or figure_count < min_figure_count or not (has_type or is_in_table):
        return ""
    if type_index is None and begin_with_counts(words):
        return f'"{words[2][:40]}" is not an element type'
    return "it does not begin with a size and a count"
