"""`busbw run`: measures one collective on this machine, with a picture and a verdict.

What the engine prints goes to stdout, byte for byte; everything that is said here goes to stderr.
"""

import difflib
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

import click

from busbw import engine, plot
from busbw.errors import Exit, UsageError
from busbw.launchers import Job, Watch, local
from busbw.progress import Progress
from busbw.readers import own_records
from busbw.records import RecordsError, read
from busbw.verdict import correctness

RECORDS_FOLDER = Path("busbw-records")
HOST_RANKS = 4

_SHORT_NAMES = {
    "--nthreads": "-t",
    "--ngpus": "-g",
    "--minbytes": "-b",
    "--maxbytes": "-e",
    "--stepbytes": "-i",
    "--stepfactor": "-f",
}


@click.command(
    context_settings={"ignore_unknown_options": True},
    options_metavar="[OPTIONS]",
    epilog="Every other option goes to the engine: `all_reduce_perf --help` lists them. Without them: 4 ranks on this "
    "machine's processors (-t 4), 8 B to 64 MiB by a factor of 2 (-b 8 -e 64M -f 2), checked.",
)
@click.option("--ranks", type=click.IntRange(min=1), metavar="N", help="Ranks on this machine; the engine's -t.")
@click.option(
    "--records",
    "records_path",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Where the record goes; a new file.  [default: busbw-records/TIME-COLLECTIVE.jsonl]",
)
@click.option(
    "--plot",
    "plot_when",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Draw busbw over size; auto: when stderr is a terminal.",
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="COLLECTIVE [ENGINE OPTIONS]...")
def run(ranks: int | None, records_path: Path | None, plot_when: str, words: tuple[str, ...]) -> int:
    """Measures and checks COLLECTIVE over a sweep of sizes, and keeps a record."""
    collective = _collective(words)
    given = _flags(words[1:])
    if ranks is not None and "-t" in given:
        raise UsageError(f"--ranks {ranks} and -t say the same", remedy="give one of them")
    chosen = [*_ranks(given, ranks), *_sweep(given)]
    program = engine.program(f"{collective}_perf")

    with _record_file(records_path, collective) as path:
        is_ours = not path.exists()  # the engine refuses a file that is there
        rendered = local.render(Job(program, (*chosen, *words[1:]), records=path))
        shown = shlex.join([program.name, *chosen, *words[1:]])
        on_terminal = sys.stderr.isatty()
        if on_terminal:
            click.echo(f"{shown} --records {shlex.quote(str(path))}", err=True)
            with Progress(path) as progress:
                code = local.submit(rendered, Watch(on_line=progress.line, on_wait=progress.refresh))
        else:
            code = local.submit(rendered)
        if code == Exit.USAGE and chosen and not on_terminal:
            click.echo(f"busbw: the command line was: {shown}", err=True)

    if is_ours and path.exists() and code != Exit.USAGE:
        try:
            _report(path, draw=plot_when == "always" or (plot_when == "auto" and on_terminal))
        except RecordsError:
            if code == Exit.GOOD:
                raise  # otherwise the engine has said why it did not get so far
    return code


def _collective(words: Sequence[str]) -> str:
    allowed = ", ".join(engine.COLLECTIVES)
    if not words:
        raise UsageError("no collective is named", remedy=f"name one of {allowed}")
    if words[0].startswith("-"):
        raise UsageError(
            f'"{words[0]}" stands where the collective belongs', remedy="name it first: busbw run all_reduce -n 50"
        )
    if collective := engine.collective_of(words[0]):
        return collective
    close = difflib.get_close_matches(words[0], engine.COLLECTIVES, n=1)
    remedy = f"did you mean {close[0]}? Allowed are {allowed}" if close else f"allowed are {allowed}"
    raise UsageError(f'there is no collective "{words[0]}"', remedy=remedy)


def _flags(words: Sequence[str]) -> set[str]:
    """The engine's flags that the user gave, in their short names where they have one."""
    flags = set()
    for word in words:
        if word.startswith("--"):
            name = word.partition("=")[0]
            flags.add(_SHORT_NAMES.get(name, name))
        elif word.startswith("-") and word[1:2].isalpha():
            flags.add(word[:2])
    return flags


def _ranks(given: set[str], ranks: int | None) -> list[str]:
    """THE CHOICE OF RANKS: what runs the collective when the user does not say."""
    if ranks is not None:
        return ["-t", str(ranks)]
    if given & {"-t", "-g", "--processes", "--backend"}:
        return []
    return ["-t", str(HOST_RANKS)]


def _sweep(given: set[str]) -> list[str]:
    """The part of the sweep that the user left open."""
    if "--sizes" in given:
        return []
    chosen = [] if "-b" in given else ["-b", "8"]
    chosen += [] if "-e" in given else ["-e", "64M"]
    return chosen + ([] if given & {"-f", "-i"} else ["-f", "2"])


@contextmanager
def _record_file(wanted: Path | None, collective: str) -> Iterator[Path]:
    """The path of the record; a folder made for it goes again when nothing was written."""
    if wanted is not None:
        yield wanted
        return
    made = not RECORDS_FOLDER.exists()
    try:
        RECORDS_FOLDER.mkdir(exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot make the folder {RECORDS_FOLDER} for the record: {error.strerror}",
            remedy="run in a folder where you may write, or give --records FILE",
        ) from error
    stem = f"{datetime.now(timezone.utc):%Y%m%dT%H%M%SZ}-{collective}"
    names = (f"{stem}{suffix}.jsonl" for suffix in ("", *(f"-{i}" for i in range(2, 1000))))
    try:
        yield next(path for name in names if not (path := RECORDS_FOLDER / name).exists())
    finally:
        if made and not any(RECORDS_FOLDER.iterdir()):
            RECORDS_FOLDER.rmdir()


def _report(path: Path, *, draw: bool) -> None:
    record = read(path)
    if draw:
        width = min(shutil.get_terminal_size((plot.WIDTH, 24)).columns, plot.WIDTH)
        if picture := plot.busbw_over_size(own_records.table_of(record).rows, width=width):
            click.echo(picture, err=True)
    click.echo(correctness(record), err=True)
    click.echo(f"Record: {os.path.relpath(path)}", err=True)
