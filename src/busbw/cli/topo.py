"""`busbw topo`: shows the devices of a machine and their links."""

import os
import sys
from pathlib import Path

import click
import msgspec

from busbw.cli.options.completion import complete_names
from busbw.cli.options.deprecated import renamed_option
from busbw.errors import BusbwError, UsageError
from busbw.terminal import console, terminal_width
from busbw.terminal.console import MAX_WIDTH
from busbw.topology import Topology
from busbw.units import escape_json

_MAX_BYTES = 16 * 2**20
"""Maximum length of FILE. A matrix has a few KiB, but the document around it may be long."""


@click.command()
@click.argument("file", required=False, shell_complete=complete_names(tuple, or_files=True))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each machine instead.")
@click.option("--virtual", "virtual_too", is_flag=True, help="Also show network interfaces without a device.")
@renamed_option("--all", "--virtual")
def topo(file: str | None, *, as_json: bool, virtual_too: bool) -> None:
    """Shows GPUs, NICs and NUMA nodes and their links, of this machine or from FILE.

    FILE is a text with the output of `nvidia-smi topo -m`; - is standard input. It may be a whole document, even
    without its layout. Only the matrix is read; ambiguous values are shown as unknown.
    """
    if file is not None and virtual_too:
        raise UsageError("--virtual is only for this machine", remedy="remove it")
    topologies = [_detect(virtual_too=virtual_too)] if file is None else _read_matrices(file)
    out = console()
    if as_json:
        for topology in topologies:
            out.print(escape_json(msgspec.json.encode(topology)).decode())
        return
    from busbw.topology.views.table import lines  # slow import

    for index, topology in enumerate(topologies):
        if index > 0:
            out.print()
        for line in lines(topology, _width()):
            out.print(line)


def _width() -> int:
    """Returns the width of the output. Output to a file or a pipe has a limited width only if COLUMNS is set."""
    has_width = sys.stdout.isatty() or os.environ.get("COLUMNS")
    return terminal_width() if has_width else MAX_WIDTH


def _detect(*, virtual_too: bool) -> Topology:
    """Returns the topology of this machine. `virtual_too` adds network interfaces without a device."""
    from busbw.topology.sources.discovery import combine
    from busbw.topology.sources.driver_timeout import query_driver
    from busbw.topology.sources.nvml import library

    snapshot = query_driver(library(), lambda sentence: click.echo(f"busbw: {sentence}", err=True))
    return combine(snapshot, virtual_too=virtual_too)


def _read_matrices(file: str) -> list[Topology]:
    from busbw.topology.sources.matrix_text import read

    try:
        if file == "-":
            content = sys.stdin.buffer.read(_MAX_BYTES + 1)
        else:
            with Path(file).open("rb") as stream:
                content = stream.read(_MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}", remedy="give a readable file") from error
    if len(content) > _MAX_BYTES:
        raise BusbwError(f"{file} is longer than 16 MiB", remedy="give only the output of nvidia-smi topo -m")
    return read(content.decode("utf-8", "replace"), "standard input" if file == "-" else Path(file).name)
