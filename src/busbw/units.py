"""Size, time and bandwidth; sizes and counts in text; text of logs and users made safe for terminals and documents."""

import math
import re
import unicodedata
from collections.abc import Iterable, Sequence

_SIZE = re.compile(r"((?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)(?:([KMGT])(?:i?B)?|B)?", re.IGNORECASE | re.ASCII)
_MAX_SIZE_BYTES = 2.0**62
_MAX_MESSAGE_LENGTH = 2000
"""Characters. The longest messages list all allowed values."""
_MAX_WORD_LENGTH = 300
_SHORT_WORD_LENGTH = 100
"""Length to which a word above `_MAX_WORD_LENGTH` is cut."""
_LONG_WORD = re.compile(rf"\S{{{_MAX_WORD_LENGTH + 1},}}")
_MAY_NEED_ESCAPE = re.compile("[^\x00-\x7e]")
"""Characters outside of ASCII, and DEL. JSON itself escapes the other control characters."""


def parse_size(text: str) -> int | None:
    """Returns the bytes of a size as users type it, such as 8, 64K, 0.5GiB or 1e6. Units are binary.

    Returns None if the text is not a whole number of bytes. The engine's `parse_size_bytes` accepts the same texts.
    """
    match = _SIZE.fullmatch(text)
    if not match:
        return None
    power = " KMGT".index((match[2] or " ").upper())
    size_bytes = float(match[1]) * 1024.0**power
    return int(size_bytes) if size_bytes <= _MAX_SIZE_BYTES and size_bytes.is_integer() else None


def bandwidth_gbps(size_bytes: float, time_us: float, factor: float = 1.0) -> float:
    """Returns size / time times a factor: algbw if the factor is 1, busbw if it is the bus factor.

    1 byte per us is 1e-3 GB/s.
    """
    return size_bytes * factor / time_us / 1e3


def transfer_time_us(size_bytes: float, bandwidth: float, factor: float = 1.0) -> float:
    """Returns the time of a size at a bandwidth in GB/s: the inverse of `bandwidth_gbps`."""
    return size_bytes * factor / bandwidth / 1e3


def size_text(size_bytes: int) -> str:
    """Text of a size in binary units, as users type sizes: "8 B", "64 KiB", "1.5 GiB"."""
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} TiB"


def number_text(value: float, digits: int = 4) -> str:
    """Text rounded to this number of significant digits, without zeros at the end of the decimals and without exponent.

    The integer part keeps all its digits.
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def milliseconds_text(time_us: float) -> str:
    """Text of a time in milliseconds: "3.1 ms"."""
    return f"{number_text(time_us / 1e3, 3)} ms"


def duration_text(time_us: float) -> str:
    """Text of a time in the largest unit in which it is at least 1: "1.23 s", "12.3 ms", "456 us"."""
    value, unit = time_us, "us"
    if time_us >= 1e6:
        value, unit = time_us / 1e6, "s"
    elif time_us >= 1e3:
        value, unit = time_us / 1e3, "ms"
    # Three significant digits: 9.995 rounds to 10.0, and 99.95 to 100.
    if value >= 99.95:
        return f"{value:.0f} {unit}"
    return f"{value:.1f} {unit}" if value >= 9.995 else f"{value:.2f} {unit}"


def size_range_text(sizes_bytes: Iterable[int]) -> str:
    """Text of the smallest and the largest of several sizes: "8 B - 8 KiB". One size if they are equal."""
    sizes = sorted(sizes_bytes)
    return " - ".join(dict.fromkeys(map(size_text, (sizes[0], sizes[-1]))))


def count_text(count: int, singular: str, plural: str = "") -> str:
    """Text of a count with its noun: "1 row", "24 rows". By default the plural is the singular with an s."""
    noun = singular if count == 1 else plural or f"{singular}s"
    return f"{count:,} {noun}"


def names_text(names: Sequence[str], max_count: int = 8) -> str:
    """Text with at most `max_count` names, and the number of other names: "gpu-01, gpu-02 and 6 more"."""
    more = f" and {len(names) - max_count} more" if len(names) > max_count else ""
    return ", ".join(names[:max_count]) + more


def plain(text: str, replacement: str = "?") -> str:
    """Replaces each unprintable character, because it could control a terminal or change the direction of text.

    Such characters are escapes, C1 controls and bidirectional overrides. Every kind of blank counts as printable.
    """
    if text.isprintable():
        return text
    return "".join(character if _is_harmless(character) else replacement for character in text)


def _is_harmless(character: str) -> bool:
    return character.isprintable() or unicodedata.category(character) == "Zs"


def shorten(text: str, max_length: int = _MAX_MESSAGE_LENGTH) -> str:
    """Removes the middle of each too long word, and then of a too long message.

    A message can quote input of any length.
    """
    if len(text) > _MAX_WORD_LENGTH:
        text = _LONG_WORD.sub(lambda match: _cut_middle(match[0], _SHORT_WORD_LENGTH), text)
    return text if len(text) <= max_length else _cut_middle(text, max_length)


def _cut_middle(text: str, length: int) -> str:
    """Keeps the beginning and the end of the text. At the end, a message has its remedy."""
    end_length = length // 3
    return f"{text[: length - end_length - 3]}...{text[-end_length:]}"


def escape_json(document: bytes) -> bytes:
    """Escapes the characters of a JSON document in UTF-8 that `plain` replaces. Its values do not change."""
    if document.isascii() and b"\x7f" not in document:
        return document
    return _MAY_NEED_ESCAPE.sub(_escape_character, document.decode()).encode()


def _escape_character(match: re.Match[str]) -> str:
    if _is_harmless(match[0]):
        return match[0]
    units = match[0].encode("utf-16-be").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))
