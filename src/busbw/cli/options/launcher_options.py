"""Options of the commands of `busbw launch`, for commands that start a job which measures no collective."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from busbw.errors import UsageError


def split_launcher_options(
    launch_command: click.Command, unused_values: Mapping[str, object]
) -> tuple[list[click.Parameter], dict[str, object]]:
    """Returns the options of a launcher without the unused ones, and the values of those that it has."""
    options = [
        each
        for each in launch_command.params
        if isinstance(each, click.Option) and not each.hidden and each.expose_value
    ]
    unused = {name: value for name, value in unused_values.items() if any(each.name == name for each in options)}
    return [each for each in options if each.name not in unused], unused


def refuse_options_before(context: click.Context) -> None:
    """Refuses options before the launcher, which would have no effect.

    Raises:
        UsageError: There is one.
    """
    for parameter in context.command.params:
        if context.get_parameter_source(parameter.name or "") is click.core.ParameterSource.COMMANDLINE:
            option = parameter.opts[-1]
            raise UsageError(f"{option} is before {context.invoked_subcommand}", remedy="put it after, or remove it")


def option_words(option: click.Parameter, value: Any) -> list[str]:
    """Returns an option with its value or values as words of a command line, none if it is not set."""
    if value is None or value is False:
        return []
    if value is True:
        return [option.opts[0]]
    if isinstance(value, tuple):
        return [word for each in value for word in option_words(option, each)]
    # Process 0 runs in another folder.
    return [option.opts[0], str(value.absolute() if isinstance(value, Path) else value)]
