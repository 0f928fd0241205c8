"""Options, output and exit code of the commands that compare two sides, `compare` and `ab`. `tune` uses one option."""

from collections.abc import Callable
from typing import TypeVar

import click

from busbw.cli.options.param_types import FRACTION
from busbw.compare import RESOLUTION, ChangeVerdict, Comparison
from busbw.compare.text import render
from busbw.errors import ExitCode
from busbw.terminal import console, terminal_width

Command = TypeVar("Command", bound=Callable[..., int])


def resolution_option(
    help_text: str = "Largest difference that is SAME, if chance can explain it.",
) -> Callable[[Command], Command]:
    """Returns the option `--resolution`. Its value is a fraction."""
    return click.option(
        "--resolution",
        type=FRACTION,
        default=f"{RESOLUTION:.0%}",
        show_default=True,
        metavar="SHARE",
        help=help_text,
    )


not_slower_option = click.option("--not-slower", is_flag=True, help="Exit with 5 if any size is SLOWER.")


def print_comparison(comparison: Comparison) -> None:
    """Prints a comparison at the width of the terminal."""
    width = terminal_width()
    out = console()
    for line in render(comparison, width=width):
        # Lines of tables fit the width. Sentences are wrapped between words.
        wrapped_lines = line.wrap(out, width) if len(line) > width else [line]
        for wrapped_line in wrapped_lines:
            wrapped_line.rstrip()  # changes the Text itself
            out.print(wrapped_line)


def exit_code(comparison: Comparison, *, not_slower: bool) -> ExitCode:
    """Returns the exit code. Wrong data has priority; a slower size matters only with `--not-slower`."""
    if comparison.wrong_data:
        return ExitCode.WRONG_DATA
    if not_slower and comparison.count(ChangeVerdict.SLOWER):
        return ExitCode.SLOWER_THAN_DEMANDED
    return ExitCode.GOOD
