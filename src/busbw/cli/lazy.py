"""Group of commands that imports each command when it is called."""

import difflib
from collections.abc import Mapping
from importlib import import_module
from keyword import iskeyword
from typing import Any

import click

from busbw.cli.options.deprecated import warn_deprecated
from busbw.errors import UsageError


class LazyGroup(click.Group):
    """Group of commands in modules of one package.

    Each module has the name of its command, with underscores. A keyword gets one at the end: `import_`. Lazy imports
    keep short commands fast, because some commands import slow libraries.

    Args:
        package: Package of the modules.
        sections: For each heading of the help its commands, with one line each.
        renamed: Old names of commands, accepted for one release, and their new names.
        others: Arguments of `click.Group`.
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
        """Returns the names in the order of the help."""
        return [name for commands in self._sections.values() for name in commands]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Imports and returns the command. None if it does not exist."""
        if name not in self.list_commands(context):
            return None
        python_name = f"{name}_" if iskeyword(name) else name.replace("-", "_")
        command: click.Command = vars(import_module(f"{self._package}.{python_name}"))[python_name]
        return command

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolves the command as click does, with a suggestion for a misspelled name.

        Raises:
            UsageError: There is no such command.
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
                f'"{args[0]}" is not a command of {context.command_path}',
                remedy=f"{hint}{context.command_path} --help lists them",
            )
        return super().resolve_command(context, args)

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the help lines without importing the commands."""
        for heading, commands in self._sections.items():
            with formatter.section(heading):
                formatter.write_dl(list(commands.items()))
