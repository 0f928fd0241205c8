"""A group of commands of which each is imported when it is called."""

import difflib
from collections.abc import Mapping
from importlib import import_module
from keyword import iskeyword
from typing import Any

import click

from busbw.cli.options.deprecated import warn_deprecated
from busbw.errors import UsageError


class LazyGroup(click.Group):
    """Commands that lie in modules of one package, each under its own name; `import` in `import_`: it is a keyword.

    Some bring libraries that take longer to import than others to run.

    Args:
        package: What holds the modules.
        sections: For each heading of the help its commands, with a line for each.
        renamed: Old names of commands, accepted for one release, and the new ones.
        others: For click's own group.
    """

    def __init__(
        self,
        package: str,
        sections: Mapping[str, Mapping[str, str]],
        renamed: Mapping[str, str] | None = None,
        **others: Any,
    ) -> None:
        super().__init__(**others)
        self._package = package
        self._sections = sections
        self._renamed = renamed or {}

    def list_commands(self, _context: click.Context) -> list[str]:
        """In the order of the help."""
        return [name for commands in self._sections.values() for name in commands]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Imports what holds it; None where there is none of that name."""
        if name not in self.list_commands(context):
            return None
        python_name = f"{name}_" if iskeyword(name) else name.replace("-", "_")
        command: click.Command = vars(import_module(f"{self._package}.{python_name}"))[python_name]
        return command

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, and a wrong name is answered with the right one.

        Raises:
            UsageError: There is none of that name.
        """
        names = self.list_commands(context)
        if args and (new := self._renamed.get(args[0])):
            if not context.resilient_parsing:
                warn_deprecated(f"{context.command_path} {args[0]}", f"{context.command_path} {new}")
            args = [new, *args[1:]]
        if args and args[0] not in names and not args[0].startswith("-") and not context.resilient_parsing:
            close = difflib.get_close_matches(args[0], names, n=1)
            hint = f"did you mean {close[0]}? " if close else ""
            raise UsageError(
                f'"{args[0]}" is no command of {context.command_path}',
                remedy=f"{hint}{context.command_path} --help lists them",
            )
        return super().resolve_command(context, args)

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        """For the help, without importing any of them."""
        for heading, commands in self._sections.items():
            with formatter.section(heading):
                formatter.write_dl(list(commands.items()))
