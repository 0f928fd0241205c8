"""`busbw compare`: compares two logs, or two variants in one log."""

import click

from busbw import readers
from busbw.cli.comparison_options import exit_code, not_slower_option, print_comparison, resolution_option
from busbw.cli.options.completion import complete_log
from busbw.cli.options.json_option import json_option
from busbw.cli.options.param_types import PlacementChoice
from busbw.compare import compare_logs, compare_variants
from busbw.errors import UsageError
from busbw.logs.log import Log, Placement
from busbw.store import find
from busbw.support.json_output import json_object
from busbw.terminal import activity


@click.command()
@click.argument("a", shell_complete=complete_log)
@click.argument("b", required=False, shell_complete=complete_log)
@click.option(
    "--variants",
    nargs=2,
    metavar="NAME NAME",
    help="With one log: the variants A and B; '#1' is the first table.",
)
@resolution_option()
@click.option(
    "--placement",
    type=PlacementChoice(["out_of_place", "in_place"]),
    help="Compare only this placement.",
)
@click.option("--any-system", is_flag=True, help="Compare runs on unlike GPUs, NICs or numbers of hosts too.")
@json_option
@not_slower_option
def compare(
    a: str,
    b: str | None,
    variants: tuple[str, str] | None,
    resolution: float,
    placement: Placement | None,
    any_system: bool,
    as_json: bool,
    not_slower: bool,
) -> int:
    """Compares B with A, which are runs or logs. With one log it compares two variants in it.

    Compared rows have the same collective, type, operator, root, ranks, group, placement and size, and like systems.
    """
    if b is not None and variants:
        raise UsageError("--variants: takes one log, got two", remedy="drop one")
    with activity(f"comparing {a}" if b is None else f"comparing {a} and {b}"):
        if b is None:
            comparison = compare_variants(
                _read(a), variants, resolution=resolution, placement=placement, any_system=any_system
            )
        else:
            comparison = compare_logs(
                _read(a), _read(b), resolution=resolution, placement=placement, any_system=any_system
            )
    if as_json:
        click.echo(json_object(comparison))
    else:
        print_comparison(comparison)
    return exit_code(comparison, not_slower=not_slower)


def _read(name: str) -> Log:
    """Reads a log given by its path, or a run given by its name."""
    return readers.read(find(name))
