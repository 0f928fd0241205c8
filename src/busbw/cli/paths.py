"""Files and folders on the command line."""

from pathlib import Path
from typing import Any

import click

from busbw.errors import UsageError


class NamedPath(click.Path):
    """A path that has a name: an empty word would mean the folder that one is in, which nobody says like that."""

    def __init__(self, **more: Any) -> None:
        super().__init__(path_type=Path, **more)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path.

        Raises:
            UsageError: The word is empty.
        """
        if value == "":
            name = param.opts[-1] if isinstance(param, click.Option) else "a path"
            raise UsageError(f"{name} is empty", remedy="name it, or leave the option out")
        return super().convert(value, param, ctx)
