"""Passes options of `busbw launch` on to commands that start a job of their own: `busbw doctor` and `busbw find`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from busbw.errors import UsageError


def split_launcher_options(
    launch_command: click.Command, fixed_values: Mapping[str, object]
) -> tuple[list[click.Parameter], dict[str, object]]:
    """Separates the options of a launcher that have no effect on a job without a collective.

    Args:
        launch_command: Command of the launcher.
        fixed_values: Values of such options, by parameter name. The launcher may lack some of them.

    Returns:
        The other options, and the values of those in `fixed_values` that the launcher has.
    """
    options = [
        option
        for option in launch_command.params
        if isinstance(option, click.Option) and not option.hidden and option.expose_value
    ]
    names = {option.name for option in options}
    own_values = {name: value for name, value in fixed_values.items() if name in names}
    return [option for option in options if option.name not in own_values], own_values


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
        return [word for single_value in value for word in option_words(option, single_value)]
    # Process 0 runs in another folder.
    return [option.opts[0], str(value.absolute() if isinstance(value, Path) else value)]
