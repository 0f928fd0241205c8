"""`busbw show`: reads a log of this program or of nccl-tests and shows picture and verdict."""

from pathlib import Path

import click

from busbw import plot, readers
from busbw.errors import Exit
from busbw.units import count_text


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
def show(file: Path) -> int:
    """Reads FILE (records, or the text of nccl-tests) and shows busbw over size and what was wrong."""
    log = readers.read(file)
    if picture := plot.busbw_over_size(log.rows):
        click.echo(picture)
    wrong = [row for row in log.rows if row.check.wrong_elements]
    unchecked = [row for row in log.rows if row.check.state != "checked"]
    click.echo(
        f"{count_text(len(log.rows), 'measurement')}: {len(wrong)} with wrong data, {len(unchecked)} not checked"
        + ("" if log.complete else "; the log has no end: the run was killed or is still going on")
    )
    for sentence in log.left_out:
        click.echo(f"left out: {sentence}", err=True)
    return Exit.WRONG_DATA if wrong else Exit.GOOD
