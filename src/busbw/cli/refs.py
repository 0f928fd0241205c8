"""`busbw refs`: lists the references, which are published figures to judge a run by, or shows one."""

import click
from rich.table import Table

from busbw.cli.options.completion import complete_names
from busbw.cli.options.json_option import json_option
from busbw.logs.log import PLACEMENT_WORDS
from busbw.reference import Reference, Sweep, find, references
from busbw.support.json_output import json_object
from busbw.terminal import StreamConsole
from busbw.units import names_text, size_text

_WIDE = 120
"""Minimum width of the terminal, in columns, for the full table."""


@click.command()
@click.argument("name", required=False, shell_complete=complete_names(references, or_files=True))
@json_option
def refs(name: str | None, *, as_json: bool) -> None:
    """Lists the references that come with busbw, or shows NAME, which may be a .toml file."""
    if as_json:
        click.echo(json_object({"references": references() if name is None else {name: find(name)}}))
    elif name is None:
        _print_list(references())
    else:
        _print_reference(find(name))


def _print_list(all_references: dict[str, Reference]) -> None:
    console = StreamConsole(highlight=False)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("name", no_wrap=True)
    for column in ("ranks", "nodes"):
        table.add_column(column, justify="right", no_wrap=True)
    is_wide = console.width >= _WIDE
    table.add_column("best busbw", overflow="fold")
    if is_wide:
        table.add_column("library", overflow="fold")
        table.add_column("date", overflow="fold")
    for key, reference in all_references.items():
        cells = [key, str(reference.ranks), str(reference.nodes), _best_busbw_text(reference)]
        if is_wide:
            cells += [reference.library or "not stated", f"{reference.date} ({reference.date_is})"]
        table.add_row(*cells)
    console.print(table)
    console.print(
        f"{len(all_references)} references; `busbw refs NAME` shows one with its source. GB/s = 1e9 bytes per second."
    )


def _best_busbw_text(reference: Reference) -> str:
    """Returns the best busbw of up to two collectives. A floor is a lower bound, not a measurement."""
    best_sweeps: dict[str, Sweep] = {}
    for sweep in reference.sweeps:
        best = best_sweeps.get(sweep.collective)
        if best is None or _max_busbw_gbps(sweep) > _max_busbw_gbps(best):
            best_sweeps[sweep.collective] = sweep
    texts = []
    for collective, sweep in best_sweeps.items():
        floor = " (floor)" if sweep.kind == "floor" else ""
        texts.append(f"{collective} {_max_busbw_gbps(sweep):.4g}{floor}")
    return names_text(texts, 2)


def _max_busbw_gbps(sweep: Sweep) -> float:
    return max(point.busbw_gbps for point in sweep.points)


def _print_reference(reference: Reference) -> None:
    console = StreamConsole(highlight=False)
    facts = {
        "hardware": f"{reference.nodes} node(s), {reference.ranks} x {reference.gpu}; {reference.links}",
        "NICs per node": reference.nics or "not stated",
        "library": reference.library or "not stated",
        "method": reference.method,
        "source": reference.source,
        "date": f"{reference.date} ({reference.date_is})",
    }
    console.print(reference.title, style="bold", markup=False)
    for key, value in facts.items():
        console.print(f"{key}: {value}", markup=False, soft_wrap=not console.is_terminal)
    for note in reference.notes:
        console.print(f"note: {note}", markup=False, soft_wrap=not console.is_terminal)
    for sweep in reference.sweeps:
        console.print()
        console.print(_sweep_table(sweep))


def _sweep_table(sweep: Sweep) -> Table:
    title_words = [sweep.collective, sweep.dtype, PLACEMENT_WORDS[sweep.placement], sweep.variant, sweep.algorithm]
    title = " ".join(word for word in title_words if word)
    if sweep.kind == "floor":
        title += " (a floor, not a measurement)"
    table = Table(title=title, caption=sweep.command, title_justify="left", box=None, pad_edge=False)
    for column in ("size", "time (us)", "busbw (GB/s)"):
        table.add_column(column, justify="right")
    for point in sweep.points:
        # A point without a size is the published figure for large messages.
        size = size_text(point.size_bytes) if point.size_bytes else "large"
        time = f"{point.time_us:.2f}" if point.time_us else "-"
        table.add_row(size, time, f"{point.busbw_gbps:.2f}")
    return table
