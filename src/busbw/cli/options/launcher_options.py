"""Passes options of `busbw launch` on to commands that start a job of their own: `busbw doctor` and `busbw find`."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import msgspec

from busbw.cli.options.export_options import Exports, Result, write_exports
from busbw.errors import UsageError

Words = Mapping[str, Sequence[str]]
"""Words of each option on the command line, by the name of its parameter. Empty if the option is not set."""
ALSO_JSON = "also_json"
"""Key in `Words` of the words that make process 0 add the result as a line of JSON. No user sets this option."""


def launched_command(
    launch_command: click.Command,
    own_parameters: Sequence[click.Parameter],
    *,
    passed_on: Collection[str],
    exports: Exports[Result],
    result_type: type[Result],
    fixed_values: Mapping[str, object],
    make_engine_words: Callable[[Words], tuple[str, ...]],
) -> click.Command:
    """Returns a command such as `busbw find slurm`, which starts a search or a check as a job of a launcher.

    The command has the options of the launcher, and those of `busbw find` or `busbw doctor` that are passed to the
    processes of the job or name a file for the result.

    Args:
        launch_command: Command of the launcher, such as `busbw launch slurm`.
        own_parameters: Parameters of `busbw find` or `busbw doctor` without a launcher.
        passed_on: Names of the own parameters that are passed to the processes. `as_json` is among them.
        exports: Files for the result, which process 0 prints as a line of JSON.
        result_type: Type of the result.
        fixed_values: Values, by parameter name, of launcher options that the user cannot set for such a job. The
            launcher may lack some of these options. The value of `store` is replaced by a temporary folder.
        make_engine_words: Returns the words of the engine from those of the passed options. Their entry `ALSO_JSON` is
            not empty if the launcher writes the result to files.
    """
    launch = launch_command.callback
    assert launch is not None
    launcher_options = [
        option
        for option in launch_command.params
        if isinstance(option, click.Option) and not option.hidden and option.expose_value
    ]
    settable_options = [option for option in launcher_options if _name(option) not in fixed_values]
    fixed = {name: fixed_values[name] for name in map(_name, launcher_options) if name in fixed_values}
    passed_options = [parameter for parameter in own_parameters if parameter.name in passed_on]
    export_options = [parameter for parameter in own_parameters if parameter.opts[0] in exports]

    def start(**values: Any) -> int:
        words = {_name(option): _option_words(option, values.pop(_name(option))) for option in passed_options}
        export_paths = {option.opts[0]: values.pop(_name(option)) for option in export_options}
        words[ALSO_JSON] = ["--also-json"] if any(export_paths.values()) else []
        if values.get("detach") and words[ALSO_JSON]:
            raise UsageError("--detach ends before there are files to write", remedy="remove it, or their options")

        def handle_result(line: bytes) -> bool:
            """Writes the requested files. Returns True if the user asked for JSON on stdout."""
            write_exports(exports, msgspec.json.decode(line, type=result_type), export_paths)
            return bool(words["as_json"])

        # `words` are flags of the engine. Only `busbw find` has them: it adds them to the parameters of this command.
        launch_values = {"words": (), **fixed, **values}
        with ExitStack() as resources:
            if "store" in fixed:  # the launcher needs a folder for its files, although no record is written
                launch_values["store"] = Path(resources.enter_context(TemporaryDirectory(prefix="busbw-")))
            # `common_options` of cli/launch/options.py gives `handle_result` and `engine_words` to the launcher.
            code: int = launch(handle_result=handle_result, engine_words=make_engine_words(words), **launch_values)
        return code

    parameters = [*settable_options, *passed_options, *export_options]
    return click.Command(launch_command.name, callback=start, params=parameters)


def refuse_options_before(context: click.Context) -> None:
    """Refuses options before the launcher, which would have no effect.

    Raises:
        UsageError: An option is before the launcher.
    """
    for parameter in context.command.params:
        if context.get_parameter_source(_name(parameter)) is click.core.ParameterSource.COMMANDLINE:
            option = parameter.opts[-1]
            raise UsageError(f"{option} is before {context.invoked_subcommand}", remedy="put it after, or remove it")


def _name(parameter: click.Parameter) -> str:
    """Returns the key of a parameter in the values of its command."""
    return parameter.name or ""


def _option_words(option: click.Parameter, value: Any) -> list[str]:
    """Returns an option with its value or values as words of a command line. Empty if the option is not set."""
    if value is None or value is False:
        return []
    if value is True:
        return [option.opts[0]]
    if isinstance(value, tuple):
        return [word for single_value in value for word in _option_words(option, single_value)]
    if isinstance(value, Path):
        value = value.absolute()  # process 0 runs in another folder
    return [option.opts[0], str(value)]
