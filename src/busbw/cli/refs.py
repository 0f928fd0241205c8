"""`busbw refs`: lists published figures, or shows one."""

import click
from rich.console import Console
from rich.table import Table

from busbw.errors import UsageError
from busbw.reference import Reference, references
from busbw.units import size_text


@click.command()
@click.argument("name", required=False)
def refs(name: str | None) -> None:
    """Lists the reference figures that come with this program, or shows those of NAME with their source."""
    known = references()
    if name is None:
        for key, reference in known.items():
            click.echo(f"{key}: {reference.title} ({reference.library}; {reference.date})")
        return
    if name not in known:
        raise UsageError(f'there is no reference "{name}"', remedy=f"allowed are {', '.join(known)}")
    _show(known[name])


def _show(reference: Reference) -> None:
    hardware = f"{reference.nodes} node(s), {reference.ranks} x {reference.gpu}, {reference.links}"
    click.echo(f"{reference.title}\nhardware: {hardware}\nlibrary: {reference.library}\nmethod: {reference.method}")
    click.echo(f"source: {reference.source}, {reference.date}")
    for sweep in reference.sweeps:
        table = Table(title=f"{sweep.collective} {sweep.dtype} {sweep.placement.replace('_', ' ')}: {sweep.command}")
        for column in ("size", "time (us)", "busbw (GB/s)"):
            table.add_column(column, justify="right")
        for point in sweep.points:
            table.add_row(size_text(point.size_bytes), f"{point.time_us:.2f}", f"{point.busbw_gbps:.2f}")
        Console().print(table)
