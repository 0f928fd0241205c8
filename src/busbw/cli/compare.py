"""`busbw compare`: two logs, or two variants within one."""

import re

import click
import msgspec

from busbw import readers
from busbw.compare import RESOLUTION, Comparison, Verdict, compare_logs, compare_variants
from busbw.compare.text import render
from busbw.errors import Exit, UsageError
from busbw.logs import Log, Placement
from busbw.store import find
from busbw.terminal import at_work, console, width_of


def share(text: str) -> float:
    """A relative change, '5%' or '0.05', as a fraction."""
    found = re.fullmatch(r"(\d+\.?\d*|\.\d+)(%?)", text.strip())
    value = float(found[1]) / (100 if found[2] else 1) if found else 0.0
    if not 0 < value < 1:
        raise UsageError(f'"{text}" is not a share', remedy="give one above 0 and below 100 %, such as 5% or 0.05")
    return value


@click.command()
@click.argument("a")
@click.argument("b", required=False)
@click.option(
    "--variants",
    nargs=2,
    metavar="NAME NAME",
    help="With one log: the variants for A and B; '#1' is its first table.",
)
@click.option(
    "--resolution",
    type=share,
    default=f"{RESOLUTION:.0%}",
    show_default=True,
    metavar="SHARE",
    help="The smallest change that matters: SAME means less than this.",
)
@click.option(
    "--placement",
    type=click.Choice(["out_of_place", "in_place"]),
    help="Compare only this placement.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead.")
@click.option("--not-slower", is_flag=True, help="Exit with 5 where any size is SLOWER.")
def compare(
    a: str,
    b: str | None,
    variants: tuple[str, str] | None,
    resolution: float,
    placement: Placement | None,
    as_json: bool,
    not_slower: bool,
) -> int:
    """Compares B against A: runs by name, or logs; with one log, the two variants within it.

    Rows are compared only with rows of the same collective, type, operator, root, ranks, group, placement and size.
    """
    if b is not None and variants:
        raise UsageError("--variants belongs to one log, and two are given", remedy="leave out one of them")
    with at_work(f"comparing {a}{f' and {b}' if b else ''}"):
        if b is None:
            comparison = compare_variants(_read(a), variants, resolution=resolution, placement=placement)
        else:
            comparison = compare_logs(_read(a), _read(b), resolution=resolution, placement=placement)
    if as_json:
        click.echo(msgspec.json.encode(comparison))
    else:
        show(comparison)
    return exit_code(comparison, not_slower=not_slower)


def _read(name: str) -> Log:
    """A log by its path, or a run of the store by its name."""
    return readers.read(find(name))


def show(comparison: Comparison) -> None:
    """Prints it as wide as the terminal."""
    width = width_of()
    out = console()
    for line in render(comparison, width=width):
        # Lines of tables fit; sentences are wrapped between words.
        for part in line.wrap(out, width) if len(line) > width else [line]:
            part.rstrip()
            out.print(part)


def exit_code(comparison: Comparison, *, not_slower: bool) -> Exit:
    """Wrong data first; slower only where that was asked."""
    if comparison.wrong_data:
        return Exit.WRONG_DATA
    return Exit.SLOWER_THAN_DEMANDED if not_slower and comparison.count(Verdict.SLOWER) else Exit.GOOD
