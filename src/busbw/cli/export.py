"""`busbw export`: writes runs in the formats of other programs."""

import io
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from busbw import readers
from busbw.cli.options.output_file import write_whole
from busbw.cli.options.param_types import NonEmptyPath
from busbw.errors import UsageError
from busbw.exporters import EXPORTERS
from busbw.exporters.redact import redact_all
from busbw.logs import Log
from busbw.store import find
from busbw.terminal import activity
from busbw.units import count_text


@click.command()
@click.argument("format_name", metavar="FORMAT", type=click.Choice(list(EXPORTERS)))
@click.argument("names", metavar="RUN|FILE...", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    type=NonEmptyPath(dir_okay=False),
    metavar="FILE",
    help="Output file, replaced if it exists.  [default: standard output]",
)
@click.option(
    "--redact", "is_redacted", is_flag=True, help="Remove names of hosts and people, paths and ids, for sharing."
)
def export(format_name: str, names: Sequence[str], output: Path | None, *, is_redacted: bool) -> None:
    """Writes runs as FORMAT: csv, json, markdown, junit, prometheus or parquet."""
    exporter = EXPORTERS[format_name]
    if output is None and format_name == "parquet" and sys.stdout.isatty():
        raise UsageError("parquet is binary, and stdout is a terminal", remedy=f"set -o runs{exporter.SUFFIX}")
    with activity(f"reading {count_text(len(names), 'log')}"):
        logs: Sequence[Log] = [readers.read(find(name)) for name in names]
    for log in logs:
        if not log.rows:
            raise UsageError(f"{log.source} has no readable row", remedy="run busbw show to see why")
    if is_redacted:
        logs = redact_all(logs)
    buffer = io.BytesIO()
    with activity(f"writing {format_name}"):
        exporter.write(logs, buffer)
    write_whole(output, buffer.getvalue())
