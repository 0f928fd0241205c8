"""`busbw topo`: what is in a machine, and what joins it."""

import os
import sys
from pathlib import Path

import click
import msgspec

from busbw.cli.options.deprecated import renamed_option
from busbw.cli.options.output_file import write_whole
from busbw.cli.options.param_types import NonEmptyPath
from busbw.errors import BusbwError, UsageError
from busbw.terminal import console, width_of
from busbw.terminal.console import WIDEST
from busbw.topology import Topology

_MAX_BYTES = 16 * 2**20
"""A saved matrix is a few KiB; a text that is longer than this is something else."""


@click.command()
@click.argument("file", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each machine instead.")
@click.option(
    "--svg",
    type=NonEmptyPath(dir_okay=False),
    metavar="FILE",
    help="Also draw it into FILE; - is standard output, without the table.",
)
@click.option("--virtual", "virtual_too", is_flag=True, help="Also network interfaces that stand on no device.")
@renamed_option("--all", "--virtual")
@click.option("--matrix", type=click.IntRange(min=1), metavar="N", help="Of a text with several, only the Nth.")
def topo(file: str | None, svg: Path | None, matrix: int | None, *, as_json: bool, virtual_too: bool) -> None:
    """Shows GPUs, NICs and NUMA nodes of this machine and what joins them, or reads FILE.

    FILE is a text that holds what `nvidia-smi topo -m` wrote; - is standard input. It may be a whole document, also one
    that lost its layout: what cannot be told for certain is said to be unknown.
    """
    if file is None and matrix is not None:
        raise UsageError("--matrix is for a text that holds several", remedy="leave it out, or name the text")
    if file is not None and virtual_too:
        raise UsageError("--virtual is for this machine", remedy="leave it out")
    found = [_here(virtual_too)] if file is None else _chosen(_read(file), matrix)
    to_stdout = svg == Path("-")
    if svg is not None:
        if len(found) > 1:
            raise UsageError(f"{file} holds {len(found)} matrices", remedy="say with --matrix N which one to draw")
        from busbw.topology.views.picture import document  # the drawing's library takes longer to import than the rest

        write_whole(None if to_stdout else svg, document(found[0]).encode(), flag="--svg")
    if to_stdout:
        return
    for number, topology in enumerate(found):
        if as_json:
            console().print(msgspec.json.encode(topology).decode())
            continue
        from busbw.topology.views.table import lines

        if number:
            console().print()
        for line in lines(topology, _width()):
            console().print(line)


def _width() -> int:
    """Of the terminal; what goes to a file or another program is not cut to a width that nobody asked for."""
    return width_of() if sys.stdout.isatty() or os.environ.get("COLUMNS") else WIDEST


def _here(virtual_too: bool) -> Topology:
    from busbw.topology.sources.discovery import combine
    from busbw.topology.sources.driver_timeout import query_driver
    from busbw.topology.sources.nvml_functions import library

    seen = query_driver(library(), lambda sentence: click.echo(f"busbw: {sentence}", err=True))
    return combine(seen, virtual_too=virtual_too)


def _chosen(found: list[Topology], matrix: int | None) -> list[Topology]:
    if matrix is None:
        return found
    if matrix > len(found):
        raise UsageError(f"--matrix {matrix}: the text holds {len(found)}", remedy=f"give 1 to {len(found)}")
    return [found[matrix - 1]]


def _read(file: str) -> list[Topology]:
    from busbw.topology.sources.matrix_text import read

    try:
        if file == "-":
            content = sys.stdin.buffer.read(_MAX_BYTES + 1)
        else:
            with Path(file).open("rb") as stream:
                content = stream.read(_MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}", remedy="give a file that can be read") from error
    if len(content) > _MAX_BYTES:
        raise BusbwError(f"{file} is longer than 16 MiB", remedy="give only what nvidia-smi topo -m wrote")
    return read(content.decode("utf-8", "replace"), "standard input" if file == "-" else Path(file).name)
