"""Parses printed numbers with their precision, sizes, and the names of element types and operators."""

import re
from typing import NamedTuple

ELEMENT_BYTES = {
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "uint64": 8,
    "half": 2,
    "float": 4,
    "double": 8,
    "bfloat16": 2,
    "f8e4m3": 1,
    "f8e5m2": 1,
}
"""Size of the element types of nccl-tests and nccom-test."""

_OTHER_NAMES = {
    "char": "int8",
    "int": "int32",
    "fp16": "half",
    "float16": "half",
    "fp32": "float",
    "float32": "float",
    "fp64": "double",
    "float64": "double",
    "bf16": "bfloat16",
    "fp8_e4m3": "f8e4m3",
    "fp8_e5m2": "f8e5m2",
    "float8_e4m3": "f8e4m3",
    "float8_e5m2": "f8e5m2",
    "fp8e4m3": "f8e4m3",
    "fp8e5m2": "f8e5m2",
}

DTYPES = {name: name for name in ELEMENT_BYTES} | _OTHER_NAMES
"""Name of an element type in current nccl-tests, by its name in a log."""

REDOPS = frozenset({"sum", "prod", "max", "min", "avg", "mulsum", "premulsum", "none"})
"""Words in the operator column. "none" is that of collectives without an operator."""

_NUMBER = re.compile(r"(?:[0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,2})?\Z")
NOT_FINITE = frozenset({"nan", "-nan", "inf", "-inf", "NaN", "Inf"})
"""Printed values of a failed computation. They are no measurement."""
NO_NUMBER = frozenset({"N/A", "n/a"}) | NOT_FINITE
"""Printed values in the place of a number that does not exist."""

_HALF_STEPS = tuple(0.5 * 10.0**-places for places in range(20))


def is_number(text: str) -> bool:
    """True if the text is an unsigned printed number."""
    return _NUMBER.match(text) is not None


def is_value(text: str) -> bool:
    """True if the text is valid in a column of figures: a number, or a mark for a missing one such as N/A."""
    return text in NO_NUMBER or _NUMBER.match(text) is not None


_GROUPED = re.compile(r"[0-9]{1,3}(?:([,_])[0-9]{3})(?:\1[0-9]{3})*\Z")


def parse_integer(text: str) -> int | None:
    """Parses a size or a count: "4096", "4,096", "4_096". None for other texts and for more than 18 digits."""
    if text.isdecimal() and text.isascii():
        return int(text) if len(text) < 19 else None
    return int(text.replace(",", "").replace("_", "")) if len(text) < 25 and _GROUPED.match(text) else None


_GROUPED_FIGURE = re.compile(r"[0-9]{1,3}(?:,[0-9]{3}){1,6}\.[0-9]{1,20}\Z")


def without_groups(text: str) -> str:
    """Removes the commas of a figure such as "1,234.50". Those of "1,234" remain, because it may mean 1.234."""
    return text.replace(",", "") if "," in text and _GROUPED_FIGURE.match(text) else text


def half_step(text: str) -> float:
    """Returns half of one unit in the last printed place: 0.005 for "0.12", 0.5 for "12275", 5e6 for "1.2e+08"."""
    if "e" in text or "E" in text:
        digits, _, power = text.lower().partition("e")
        return half_step(digits) * 10.0 ** max(-300, min(300, int(power)))
    point = text.find(".")
    places = 0 if point < 0 else len(text) - point - 1
    return _HALF_STEPS[min(places, 19)]


class PrintedNumber(NamedTuple):
    """A number with its precision and unit (empty if it has none), as in "0.92GBps", "7.50", "1.80x"."""

    value: float
    half_step: float
    unit: str


_QUANTITY = re.compile(
    r"[*_`~\s]*([+-]?(?:[0-9]{1,3}(?:(?:,[0-9]{3}){1,6}\.[0-9]+|(?:,[0-9]{3}){2,6})|[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,2})?)(?:\s*([A-Za-z\u00b5\u03bc/%\u00d7]+))?[*_`\s]*$"
)


def parse_number(text: str) -> PrintedNumber | None:
    """Returns the number in a cell; None if it is not a number with an optional unit after it.

    The commas of "1,234.50" and "1,234,567" are groups. "72,69" and "1,234" are no numbers, because they may mean 72.69
    and 1.234.
    """
    match = _QUANTITY.match(text) if len(text) < 64 else None
    if not match:
        return None
    digits = match[1].replace(",", "")
    return PrintedNumber(float(digits), half_step(digits), match[2] or "")


_SIZE = re.compile(
    r"[*_`\s]*((?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?)(?:\s*(?:([KMGT])(?:i?B)?|B|bytes?))?[*_`\s]*$", re.IGNORECASE
)
_UNIT_POWERS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


def parse_size(text: str, column_unit: str = "") -> int | None:
    """Parses a size with binary units, as in nccl-tests ("1MB" is 1,048,576 bytes); None if it is not a size.

    `column_unit`: K, M, G or T if the header of the column states it for sizes without a unit.
    """
    match = _SIZE.match(text) if len(text) < 40 else None
    if not match:
        return None
    has_unit = any(map(str.isalpha, text))
    unit = match[2] or "" if has_unit else column_unit
    size = float(match[1].replace(",", "")) * 2.0 ** _UNIT_POWERS[unit.upper()]
    return int(size) if size == int(size) and size < 2**63 else None
