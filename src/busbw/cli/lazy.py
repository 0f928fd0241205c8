"""Group of click commands that imports a command only when it is called, because some import slow libraries."""

from collections.abc import Mapping
from importlib import import_module
from keyword import iskeyword
from typing import Any

import click

from busbw.cli.options.deprecated import warn_deprecated
from busbw.errors import UsageError
from busbw.support.near_misses import suggestion


class LazyGroup(click.Group):
    """Group of commands in modules of one package.

    Each module and the function in it have the name of the command, with underscores for dashes. A keyword gets an
    underscore at the end: `import_`.

    Args:
        package: Package of the modules.
        sections: Line of each command in the help, by heading and by name of the command.
        new_names_by_old: New names of renamed commands, by old name. Old names are accepted for one release.
        attributes: Further arguments of `click.Group`.
    """

    def __init__(
        self,
        package: str,
        sections: Mapping[str, Mapping[str, str]],
        new_names_by_old: Mapping[str, str] | None = None,
        **attributes: Any,
    ) -> None:
        super().__init__(**attributes)
        self._package = package
        self._sections = sections
        self._new_names_by_old = new_names_by_old or {}

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
        if args and (new_name := self._new_names_by_old.get(args[0])):
            if not context.resilient_parsing:
                warn_deprecated(f"{context.command_path} {args[0]}", f"{context.command_path} {new_name}")
            args = [new_name, *args[1:]]
        is_unknown = bool(args) and args[0] not in names and not args[0].startswith("-")
        if is_unknown and not context.resilient_parsing:  # shell completion parses without errors
            raise UsageError(
                f'"{args[0]}" is not a command of {context.command_path}',
                remedy=f"{suggestion(args[0], names)}{context.command_path} --help lists them",
            )
        return super().resolve_command(context, args)

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the help lines without importing the commands."""
        for heading, commands in self._sections.items():
            with formatter.section(heading):
                formatter.write_dl(list(commands.items()))
