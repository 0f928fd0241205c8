"""Kinds of values on the command line that click does not have: paths with a name, and seconds."""

import math
from pathlib import Path
from typing import Any

import click

from busbw.errors import UsageError


class NonEmptyPath(click.Path):
    """A path that has a name: an empty word would mean the folder that one is in, which nobody says like that."""

    def __init__(self, **more: Any) -> None:
        super().__init__(path_type=Path, **more)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path.

        Raises:
            UsageError: The word is empty.
        """
        if value == "":
            raise UsageError(f"{_name(param) or 'a path'} is empty", remedy="name it, or leave the option out")
        return super().convert(value, param, ctx)


class PlacementChoice(click.Choice):  # type: ignore[type-arg]  # generic in some versions only
    """A placement as logs name it, or `in` or `out` as the engine's `--placement` takes it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns the placement's long name."""
        return super().convert({"in": "in_place", "out": "out_of_place"}.get(value, value), param, ctx)


class Seconds(click.ParamType):  # type: ignore[type-arg]  # generic in some versions only
    """A time that one can wait for: a finite number above 0."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The seconds.

        Raises:
            UsageError: They are none.
        """
        del ctx
        try:
            seconds = float(value)
        except ValueError:
            seconds = math.nan
        if not (seconds > 0 and math.isfinite(seconds)):
            raise UsageError(f"{_name(param)} {value} is no time to wait", remedy="give seconds above 0")
        return seconds


def _name(param: click.Parameter | None) -> str:
    return param.opts[-1] if isinstance(param, click.Option) else ""
