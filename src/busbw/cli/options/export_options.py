"""Options that write the result of a command to files in other formats, such as `--junit` and `--prometheus`."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from busbw.cli.options.output_file import require_writable, write_whole
from busbw.cli.options.param_types import NonEmptyPath
from busbw.errors import UsageError

Result = TypeVar("Result")
Exports = Mapping[str, tuple[str, Callable[[Result], bytes]]]
"""Help text of each option, and function that returns the content of its file, by flag."""


def output_file_option(flag: str, help_text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Returns an option for a file that the command writes. The command does not start with an unwritable file."""
    return click.option(
        flag, type=NonEmptyPath(dir_okay=False), metavar="FILE", callback=_require_writable, help=help_text
    )


def export_options(exports: Exports[Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Returns a decorator that adds the options to a command."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for flag, (help_text, _) in reversed(tuple(exports.items())):
            command = output_file_option(flag, help_text)(command)
        return command

    return add


def _require_writable(context: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
    """Checks the value of an option.

    Raises:
        BusbwError: The file cannot be written.
        UsageError: Another option names the same file.
    """
    if path is None:
        return None
    flag = option.opts[0]
    require_writable(path, flag=flag)
    # click keeps this dictionary while it parses one command line.
    flag_by_file: dict[Path, str] = context.meta.setdefault(__name__, {})
    first_flag = flag_by_file.setdefault(path.absolute(), flag)
    if first_flag != flag:
        raise UsageError(f"{first_flag} and {flag} name the same file {path}", remedy="give each its own file")
    return path


def write_exports(exports: Exports[Result], result: Result, files: Mapping[str, Path | None]) -> None:
    """Writes the result to the file of each flag. A flag without a file is not set."""
    for flag, path in files.items():
        if path is not None:
            _, make_content = exports[flag]
            write_whole(path, make_content(result), flag=flag)
