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
    figures = [figure for row in log.rows for figure in row.figures.values()]
    wrong = [figure for figure in figures if figure.wrong_elements]
    unchecked = [figure for figure in figures if figure.check != "checked"]
    has_no_end = any(table.complete is False for table in log.tables)
    click.echo(
        f"{count_text(len(figures), 'measurement')}: {len(wrong)} with wrong data, {len(unchecked)} not checked"
        + ("; the log has no end: the run was killed or is still going on" if has_no_end else "")
    )
    for refusal in log.refused:
        click.echo(f"left out: line {refusal.line}: {refusal.reason}", err=True)
    return Exit.WRONG_DATA if wrong else Exit.GOOD
