"""Removes from a line the text that launchers, terminals and web pages add, and identifies the process that wrote it.

Prefixes are removed repeatedly: a log that passed through mpirun, Slurm and Kubernetes has three. text.py uses this
module for every line that is not a clean row.
"""

import html
import re
from typing import NamedTuple

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_BLANKS = re.compile("[\t\x0b\x0c\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
_ZERO_WIDTH = re.compile("[\u200b-\u200f\u2060\ufeff]")
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1f\x7f]")
"""Control characters to replace by U+FFFD. Their removal could join two numbers into one."""

_WRITERS = (
    r"\[[\w.@:+-]*?\d+,\d+\]<std(?:out|err|diag)>:",  # mpirun --tag-output, of Open MPI 4 and 5
    r"\[(?:rank|default)\d+\]:",  # torchrun
    r"\[\d+\](?=[\s#]|$)",  # hydra, Intel MPI -l
    r"\[pod/[\w./-]+\]",  # kubectl logs --prefix
    r"\[[A-Za-z][\w.-]*:\d+\]",  # Open MPI's own lines
    r"\d{1,6}:(?=[\s#]|$)",  # srun -l
    r"std(?:out|err):(?=\s)",
)
"""Prefixes that identify the writer: the process that wrote the line."""
_TIMES = (
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?(?=\s)",  # kubectl logs --timestamps, loggers
    r"\[\d{4}-\d\d-\d\d[T ][\d:.,]+(?:Z|[+-]\d\d:?\d\d)?\]",
)
_QUOTES = (r"[-*+>](?=\s)",)  # Markdown lists and quotations
_MAX_PREFIXES = 8

_WRITER = re.compile(rf"\s*({'|'.join(_WRITERS)})")
_OTHER_PREFIX = re.compile(rf"\s*(?:{'|'.join((*_TIMES, *_QUOTES))})")
_INNER_TAG = re.compile(r"\[(?:\d+|\d+,\d+|[\w.@:+-]*\d+,\d+)\](?:<std(?:out|err)>:)?(?!\.)")
_LIBRARY_LINE = re.compile(
    r"(?:(?:\[[\d: -]{8,40}\] )?[A-Za-z][\w.-]{0,200}:\d+:\d+ \[[^\]]{0,20}\]\s{1,4})?"
    r"[NR]CCL (?:INFO|WARN|TRACE|ERROR)\b"
)
"""Message of NCCL_DEBUG, with or without time and "host:pid:tid [device]"."""
_HTML_TAG = re.compile(r"</?[A-Za-z][^<>]{0,2000}>")


class CleanLine(NamedTuple):
    """A line without added prefixes."""

    text: str
    writer: str
    """Prefixes that identify the writer, for example "[1,0]<stdout>:". Empty if the line has none."""


def strip_controls(line: str) -> str:
    """Removes line ends, terminal escapes and zero-width characters, and replaces special blanks by spaces.

    Of text that carriage returns overwrite, as in progress bars, only the last part remains.
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
    return text


def without_prefixes(text: str) -> CleanLine:
    """Removes process tags, times and quotation marks from the beginning of a line."""
    writer = ""
    for _ in range(_MAX_PREFIXES):
        if match := _WRITER.match(text):
            writer += match[1]
        elif not (match := _OTHER_PREFIX.match(text)):
            break
        text = text[match.end() :]
    return CleanLine(text, writer)


def without_library_lines(text: str) -> str:
    """Removes an NCCL log message in the middle of a line. The message extends to the end of the line."""
    match = _LIBRARY_LINE.search(text)
    return text[: match.start()] if match else text


def is_library_line(text: str) -> bool:
    """True if the whole line is an NCCL log message."""
    match = _LIBRARY_LINE.search(text)
    return match is not None and not text[: match.start()].strip()


def without_inner_tags(text: str) -> str:
    """Removes the tags that hydra inserts within a row, as in "-1[0]    1626.5"."""
    return _INNER_TAG.sub(" ", text)


def without_markup(text: str) -> str:
    """Removes HTML tags and decodes entities. Each cell becomes a separate word."""
    if "<" in text:
        text = _HTML_TAG.sub(" ", text)
    return html.unescape(text) if "&" in text else text
