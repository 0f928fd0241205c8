"""Types of option values that click lacks: non-empty paths, ranges, placements, seconds, fractions and sizes."""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from busbw.errors import UsageError
from busbw.units import parse_size

_SIZE_LIMIT_BYTES = 1 << 60
"""Upper limit of a size, exclusive: 1 EiB, far beyond the memory of any machine."""


class NonEmptyPath(click.Path):
    """A path that must not be empty: pathlib would read an empty word as the current folder."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(path_type=Path, **attributes)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns the path."""
        if value == "":
            raise UsageError(f"{_option_name(param) or 'a path'} is empty", remedy="give a path, or remove the option")
        return super().convert(value, param, ctx)


class FloatRange(click.FloatRange):
    """A number within a range. click takes nan for a number within every range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns the number."""
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value} is not in the range {self._describe_range()}.", param, ctx)
        return number


class PlacementChoice(click.Choice):  # type: ignore[type-arg]  # generic in some versions only
    """A placement as logs name it, or `in` or `out` as the engine's `--placement` takes it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns the placement's long name."""
        return super().convert({"in": "in_place", "out": "out_of_place"}.get(value, value), param, ctx)


class ParsedType(click.ParamType):  # type: ignore[type-arg]  # generic in some versions only
    """A value that a function parses. The function gets the text, and the name of the option for its error message."""

    def __init__(self, name: str, parse: Callable[[str, str], float]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, _ctx: click.Context | None) -> float:
        """Returns the parsed value."""
        return self._parse(str(value), _option_name(param))


def _parse_seconds(text: str, option: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not (seconds > 0 and math.isfinite(seconds)):
        raise UsageError(f"{option} {text} is not a duration", remedy="give seconds above 0")
    return seconds


def parse_fraction(text: str, option: str) -> float:
    """Returns a relative change, such as 5% or 0.05, as a fraction between 0 and 1.

    Raises:
        UsageError: The text is not a number between 0 and 100 %.
    """
    match = re.fullmatch(r"(\d+\.?\d*|\.\d+)(%?)", text.strip())
    fraction = float(match[1]) if match else 0.0
    if match and match[2] == "%":
        fraction /= 100
    if not 0 < fraction < 1:
        raise UsageError(
            f'{option} "{text}" is not a fraction', remedy="give a value between 0 and 100 %, such as 5% or 0.05"
        )
    return fraction


def parse_size_option(text: str, option: str) -> int:
    """Returns a size in bytes, from text such as 64M.

    Raises:
        UsageError: The text is not a size of at least 1 byte. The message names the option.
    """
    size_bytes = parse_size(text.strip())
    if not size_bytes or size_bytes >= _SIZE_LIMIT_BYTES:
        raise UsageError(
            f'{option} "{text}" is not a size', remedy="give bytes, or a number with K, M, G or T, such as 64M"
        )
    return size_bytes


def _option_name(param: click.Parameter | None) -> str:
    """Returns the long spelling, such as --budget. Empty for an argument."""
    return param.opts[-1] if isinstance(param, click.Option) else ""


SECONDS = ParsedType("seconds", _parse_seconds)
"""A duration in seconds: a finite number above 0."""
FRACTION = ParsedType("fraction", parse_fraction)
SIZE = ParsedType("size", parse_size_option)
