"""What the commands that hold one way against another have in common: their options, what they print, their end."""

import re
from collections.abc import Callable
from typing import TypeVar

import click

from busbw.compare import RESOLUTION, ChangeVerdict, Comparison
from busbw.compare.text import render
from busbw.errors import ExitCode, UsageError
from busbw.terminal import console, width_of

Command = TypeVar("Command", bound=Callable[..., int])


def parse_fraction(text: str) -> float:
    """A relative change, '5%' or '0.05', as a fraction."""
    found = re.fullmatch(r"(\d+\.?\d*|\.\d+)(%?)", text.strip())
    value = float(found[1]) / (100 if found[2] else 1) if found else 0.0
    if not 0 < value < 1:
        raise UsageError(f'"{text}" is not a share', remedy="give one above 0 and below 100 %, such as 5% or 0.05")
    return value


def resolution_option(
    help_text: str = "The smallest change that matters: SAME means less than this.",
) -> Callable[[Command], Command]:
    """`--resolution`, as a fraction."""
    return click.option(
        "--resolution",
        type=parse_fraction,
        default=f"{RESOLUTION:.0%}",
        show_default=True,
        metavar="SHARE",
        help=help_text,
    )


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead.")
not_slower_option = click.option("--not-slower", is_flag=True, help="Exit with 5 where any size is SLOWER.")


def show(comparison: Comparison) -> None:
    """Prints it as wide as the terminal."""
    width = width_of()
    out = console()
    for line in render(comparison, width=width):
        # Lines of tables fit; sentences are wrapped between words.
        for part in line.wrap(out, width) if len(line) > width else [line]:
            part.rstrip()
            out.print(part)


def exit_code(comparison: Comparison, *, not_slower: bool) -> ExitCode:
    """Wrong data first; slower only where that was asked."""
    if comparison.wrong_data:
        return ExitCode.WRONG_DATA
    return ExitCode.SLOWER_THAN_DEMANDED if not_slower and comparison.count(ChangeVerdict.SLOWER) else ExitCode.GOOD
