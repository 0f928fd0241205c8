"""Takes from a line what launchers, terminals and web pages put around it, and says who wrote it.

Patterns are removed again and again until none is left: a log that went through mpirun, Slurm and Kubernetes has three.
"""

import html
import re
from typing import NamedTuple

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_BLANKS = re.compile("[\t\x0b\x0c\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
_NOTHINGS = re.compile("[\u200b-\u200f\u2060\ufeff]")
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1f\x7f]")
"""Not to be taken out: what stands around them is not one number."""

_WRITERS = (
    r"\[[\w.@:+-]*?\d+,\d+\]<std(?:out|err|diag)>:",  # mpirun --tag-output, of Open MPI 4 and 5
    r"\[(?:rank|default)\d+\]:",  # torchrun
    r"\[\d+\](?=[\s#]|$)",  # hydra, Intel MPI -l
    r"\[pod/[\w./-]+\]",  # kubectl logs --prefix
    r"\[[A-Za-z][\w.-]*:\d+\]",  # Open MPI's own lines
    r"\d{1,6}:(?=[\s#]|$)",  # srun -l
    r"std(?:out|err):(?=\s)",
)
_TIMES = (
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?(?=\s)",  # kubectl logs --timestamps, loggers
    r"\[\d{4}-\d\d-\d\d[T ][\d:.,]+(?:Z|[+-]\d\d:?\d\d)?\]",
)
_QUOTES = (r"[-*+>](?=\s)",)  # Markdown lists and quotations

_WRITER = re.compile(rf"\s*({'|'.join(_WRITERS)})")
_NO_WRITER = re.compile(rf"\s*(?:{'|'.join((*_TIMES, *_QUOTES))})")
_INSIDE = re.compile(r"\[(?:\d+|\d+,\d+|[\w.@:+-]*\d+,\d+)\](?:<std(?:out|err)>:)?(?!\.)")
_LIBRARY_LINE = re.compile(
    r"(?:(?:\[[\d: -]{8,40}\] )?[A-Za-z][\w.-]{0,200}:\d+:\d+ \[[^\]]{0,20}\]\s{1,4})?"
    r"[NR]CCL (?:INFO|WARN|TRACE|ERROR)\b"
)
_TAG = re.compile(r"</?[A-Za-z][^<>]{0,2000}>")


class CleanLine(NamedTuple):
    """A line without what was put around it."""

    text: str
    writer: str
    """What tells the processes of one log apart: "[1,0]<stdout>:"; empty where nothing does."""


def strip_controls(line: str) -> str:
    """Without line ends, escapes of terminals, and blanks that are none; progress bars' lines end in what stays."""
    text = line.rstrip("\r\n")
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    if "\r" in text:
        text = next((part for part in reversed(text.split("\r")) if part.strip()), "")
    if not text.isascii():
        text = _CONTROLS.sub("\ufffd", _BLANKS.sub(" ", _NOTHINGS.sub("", text)))
    elif not text.isprintable():
        text = _CONTROLS.sub("\ufffd", _BLANKS.sub(" ", text))
    return text


def without_prefixes(text: str) -> CleanLine:
    """Takes tags, times and quotation marks from the beginning of a line, as many as there are."""
    writer = ""
    for _ in range(8):
        if found := _WRITER.match(text):
            writer += found[1]
        elif not (found := _NO_WRITER.match(text)):
            break
        text = text[found.end() :]
    return CleanLine(text, writer)


def without_library_lines(text: str) -> str:
    """Without what NCCL wrote into the middle of a line; its lines go on to their end."""
    found = _LIBRARY_LINE.search(text)
    return text[: found.start()] if found else text


def is_library_line(text: str) -> bool:
    """Whether the whole line is NCCL's."""
    found = _LIBRARY_LINE.search(text)
    return found is not None and not text[: found.start()].strip()


def without_inner_tags(text: str) -> str:
    """Without the tags that hydra puts before each piece of a row: "-1[0]    1626.5"."""
    return _INSIDE.sub(" ", text)


def without_markup(text: str) -> str:
    """Without HTML's tags and entities; a cell becomes a word of its own."""
    if "<" in text:
        text = _TAG.sub(" ", text)
    return html.unescape(text) if "&" in text else text
