"""`busbw refs`: lists the references with published figures, or shows one."""

import click
from rich.table import Table

from busbw.logs import PLACEMENT_WORDS
from busbw.reference import Reference, Sweep, find, references
from busbw.terminal import StreamConsole
from busbw.units import size_text

_HALF_WIDTH = 60


@click.command()
@click.argument("name", required=False)
def refs(name: str | None) -> None:
    """Lists the references that come with busbw, or shows NAME, which may be a .toml file."""
    if name is None:
        _list(references())
    else:
        _show(find(name))


def _list(all_references: dict[str, Reference]) -> None:
    console = StreamConsole(highlight=False)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("name", no_wrap=True)
    for column in ("ranks", "nodes"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("best busbw", no_wrap=console.width >= 2 * _HALF_WIDTH)
    if console.width >= 2 * _HALF_WIDTH:
        table.add_column("library", no_wrap=True)
        table.add_column("date", no_wrap=True)
    for key, reference in all_references.items():
        more = (
            (reference.library or "not stated", f"{reference.date} ({reference.date_is})")
            if console.width >= 2 * _HALF_WIDTH
            else ()
        )
        table.add_row(key, str(reference.ranks), str(reference.nodes), _best_text(reference), *more)
    console.print(table)
    console.print(
        f"{len(all_references)} references; `busbw refs NAME` shows one with its source. GB/s = 1e9 bytes per second."
    )


def _best_text(reference: Reference) -> str:
    best: dict[str, tuple[float, bool]] = {}
    for sweep in reference.sweeps:
        value = max(point.busbw_gbps for point in sweep.points)
        if value > best.get(sweep.collective, (0.0, False))[0]:
            best[sweep.collective] = (value, sweep.kind == "floor")
    words = [f"{collective} {value:.4g}{' (floor)' if floor else ''}" for collective, (value, floor) in best.items()]
    return ", ".join(words[:2]) + (f" and {len(words) - 2} more" if len(words) > 2 else "")


def _show(reference: Reference) -> None:
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
    words = [sweep.collective, sweep.dtype, PLACEMENT_WORDS[sweep.placement], sweep.variant, sweep.algorithm]
    title = " ".join(word for word in words if word)
    if sweep.kind == "floor":
        title += " (a floor, not a measurement)"
    table = Table(title=title, caption=sweep.command, title_justify="left", box=None, pad_edge=False)
    for column in ("size", "time (us)", "busbw (GB/s)"):
        table.add_column(column, justify="right")
    for point in sweep.points:
        size = size_text(point.size_bytes) if point.size_bytes else "large"
        table.add_row(size, f"{point.time_us:.2f}" if point.time_us else "-", f"{point.busbw_gbps:.2f}")
    return table
