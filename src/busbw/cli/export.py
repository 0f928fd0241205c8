"""`busbw export`: runs in the form that another program takes."""

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
@click.argument("form", metavar="FORMAT", type=click.Choice(list(EXPORTERS)))
@click.argument("names", metavar="RUN|FILE...", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    type=NonEmptyPath(dir_okay=False),
    metavar="FILE",
    help="Where it goes, in place of what was there.  [default: standard output]",
)
@click.option("--redact", "is_redacted", is_flag=True, help="For sharing: no names of hosts and people, paths, ids.")
def export(form: str, names: Sequence[str], output: Path | None, *, is_redacted: bool) -> None:
    """Writes runs as FORMAT: csv, json, markdown, junit, prometheus or parquet."""
    exporter = EXPORTERS[form]
    if output is None and form == "parquet" and sys.stdout.isatty():
        raise UsageError("parquet is not for a terminal", remedy=f"give -o runs{exporter.SUFFIX}")
    with activity(f"reading {count_text(len(names), 'log')}"):
        logs: Sequence[Log] = [readers.read(find(name)) for name in names]
    for log in logs:
        if not log.rows:
            raise UsageError(f"no row of a table could be read from {log.source}", remedy="busbw show says why")
    if is_redacted:
        logs = redact_all(logs)
    whole = io.BytesIO()
    with activity(f"writing {form}"):
        exporter.write(logs, whole)
    write_whole(output, whole.getvalue())
