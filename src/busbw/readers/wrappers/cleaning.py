"""Removes from a line what has a fixed form: terminal escapes, markup, messages of NCCL and tags within rows.

unwrapping.py removes wrappers whose form the lines of a log show.
"""

import html
import re

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_BLANKS = re.compile("[\t\x0b\x0c\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
_ZERO_WIDTH = re.compile("[\u200b-\u200f\u2060\ufeff]")
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1f\x7f]")
"""Control characters to replace by U+FFFD. Their removal could join two numbers into one."""

_MARKDOWN_MARKS = re.compile(r"\s*(?:[-*+>]\s+)+")
"""Marks of Markdown's lists and quotations."""
_INNER_TAG = re.compile(r"\[(?:\d+|(?:[\w.@:+-]*(?<!\d))?\d+,\d+)\](?:<std(?:out|err)>:)?(?!\.)")
"""Tag of a process within a row: `[0]`, `[1,0]<stdout>:`."""
_LIBRARY_LINE = re.compile(
    r"(?:(?:\[[\d: -]{8,40}\] )?[A-Za-z][\w.-]{0,200}:\d+:\d+ \[[^\]]{0,20}\]\s{1,4})?"
    r"[NR]CCL (?:INFO|WARN|TRACE|ERROR)\b"
)
"""Message of NCCL_DEBUG, with or without time and "host:pid:tid [device]"."""
_REPETITION = re.compile(r" \[repeated \d{1,9}x across cluster\].{0,400}\Z")
"""Ray's note that other processes wrote the same line."""
_HTML_TAG = re.compile(r"</?[A-Za-z][^<>]{0,2000}>")


def strip_controls(line: str) -> str:
    """Removes line ends, terminal escapes and zero-width characters, and replaces special blanks by spaces.

    Of text that carriage returns overwrite, as in progress bars, only the last part remains. Ray's note on repetitions
    is removed too.
    """
    text = line.rstrip("\r\n")
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    if "\r" in text:
        text = next((part for part in reversed(text.split("\r")) if part.strip()), "")
    if not text.isascii():
        text = _CONTROLS.sub("\ufffd", _BLANKS.sub(" ", _ZERO_WIDTH.sub("", text)))
    elif not text.isprintable():
        text = _CONTROLS.sub("\ufffd", _BLANKS.sub(" ", text))
    is_single_line = "\\n" not in text
    return _REPETITION.sub("", text) if is_single_line and "[repeated " in text else text


def without_markdown_marks(text: str) -> str:
    """Removes the marks of lists and quotations at the beginning of a line."""
    match = _MARKDOWN_MARKS.match(text)
    return text[match.end() :] if match else text


def without_library_lines(text: str) -> str:
    """Removes an NCCL log message in the middle of a line. The message extends to the end of the line."""
    match = _LIBRARY_LINE.search(text) if "CCL " in text else None
    return text[: match.start()] if match else text


def is_library_line(text: str) -> bool:
    """True if the whole line is an NCCL log message."""
    return _LIBRARY_LINE.match(text, len(text) - len(text.lstrip())) is not None


def without_inner_tags(text: str) -> str:
    """Removes the tags that hydra inserts within a row, as in "-1[0]    1626.5"."""
    return _INNER_TAG.sub(" ", text)


def without_markup(text: str) -> str:
    """Removes HTML tags and decodes entities. Each cell becomes a separate word."""
    if "<" in text:
        text = _HTML_TAG.sub(" ", text)
    return strip_controls(html.unescape(text)) if "&" in text else text
