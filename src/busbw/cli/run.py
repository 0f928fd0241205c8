"""`busbw run`: measures one collective on this machine, with a picture and a verdict.

What the engine prints goes to stdout, byte for byte; everything that is said here goes to stderr.
"""

import os
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

import click
import msgspec

from busbw import engine, plot
from busbw.cli.engine_flags import given_flags, named_collective, rank_flags
from busbw.errors import Exit, UsageError
from busbw.launchers import Job, Watch, local
from busbw.progress import Progress
from busbw.readers import own_records
from busbw.records import RecordsError, read
from busbw.store import RECORDS, STORE_VARIABLE, RunFile, default_folder, new_run, run_name, write_run_file
from busbw.terminal import width_of
from busbw.verdict import correctness

_CRASHES = {signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE}


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
    help="Where the record goes; a new file in place of a run in the store.",
)
@click.option(
    "--store",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help=f"Where the run is kept.  [default: ${STORE_VARIABLE}, or busbw-records here]",
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
def run(
    ranks: int | None, records_path: Path | None, store: Path | None, plot_when: str, words: tuple[str, ...]
) -> int:
    """Measures and checks COLLECTIVE over a sweep of sizes, and keeps a record."""
    if records_path is not None and store is not None:
        raise UsageError("--records and --store both say where the record goes", remedy="give one of them")
    collective = named_collective(words)
    given = given_flags(words[1:])
    if ranks is not None and "-t" in given:
        raise UsageError(f"--ranks {ranks} and -t say the same", remedy="give one of them")
    program = engine.program(f"{collective}_perf")
    chosen = [*(rank_flags(given) if ranks is None else ("-t", str(ranks))), *_sweep(given)]

    with _place(records_path, store or default_folder(), collective) as path:
        is_ours = not path.exists()  # the engine refuses a file that is there
        rendered = local.render(Job(program, (*chosen, *words[1:]), records=path))
        shown = shlex.join([program.name, *chosen, *words[1:]])
        on_terminal = sys.stderr.isatty()
        with _written_down(None if records_path else path.parent) as ended:
            if on_terminal:
                click.echo(f"{shown} --records {shlex.quote(str(path))}", err=True)
                with Progress(path) as progress:
                    code = local.submit(rendered, Watch(on_line=progress.line, on_wait=progress.refresh))
            else:
                code = local.submit(rendered)
            ended(code)
        if code == Exit.USAGE and chosen and not on_terminal:
            click.echo(f"busbw: the command line was: {shown}", err=True)
    if sentence := _death(code):
        click.echo(f"busbw: {sentence}", err=True)

    if is_ours and path.exists() and code != Exit.USAGE:
        try:
            _report(path, draw=plot_when == "always" or (plot_when == "auto" and on_terminal))
        except RecordsError:
            if code == Exit.GOOD:
                raise  # otherwise the engine has said why it did not get so far
    return code


def _sweep(given: set[str]) -> list[str]:
    """The part of the sweep that the user left open."""
    if "--sizes" in given:
        return []
    chosen = [] if "-b" in given else ["-b", "8"]
    chosen += [] if "-e" in given else ["-e", "64M"]
    return chosen + ([] if given & {"-f", "-i"} else ["-f", "2"])


@contextmanager
def _place(wanted: Path | None, store: Path, collective: str) -> Iterator[Path]:
    """The path of the record: the file that was named, or one in a new run folder.

    Folders that were made for it go again when nothing was written.
    """
    if wanted is not None:
        yield wanted
        return
    made = not store.exists()
    folder = new_run(store, run_name(datetime.now(timezone.utc), collective))
    try:
        yield folder / RECORDS
    finally:
        if not (folder / RECORDS).exists():
            shutil.rmtree(folder)
            if made and not any(store.iterdir()):
                store.rmdir()


@contextmanager
def _written_down(folder: Path | None) -> Iterator[Callable[[int], None]]:
    """Keeps beside the records what the engine cannot know: what was typed, and how its process ended."""
    if folder is None:
        yield lambda _: None
        return
    run = RunFile(command=sys.argv[1:], started=datetime.now(timezone.utc).isoformat(timespec="seconds"))
    write_run_file(folder, run)

    def ended(code: int) -> None:
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        write_run_file(folder, msgspec.structs.replace(run, ended=now, exit_code=code))

    yield ended


def _death(code: int) -> str:
    """The sentence on an engine that did not end by itself; it had no time to say one."""
    number = code - 128
    if number == signal.SIGKILL:
        return (
            "the engine was killed (SIGKILL), most often because the memory was used up; look at dmesg or the job's "
            "memory limit, then run with fewer --ranks or a smaller -e"
        )
    if number in _CRASHES:
        name = signal.Signals(number).name
        return f"the engine crashed ({name}); repeat it with NCCL_DEBUG=INFO and report both, as that is a fault in it"
    return ""


def _report(path: Path, *, draw: bool) -> None:
    record = read(path)
    if draw:
        rows, width = own_records.table_of(record).rows, width_of()
        for picture in (plot.busbw_over_size(rows, width=width), plot.time_over_size(rows, width=width)):
            if picture:
                click.echo(f"{picture}\n", err=True)
    click.echo(correctness(record), err=True)
    click.echo(f"Record: {os.path.relpath(path)}", err=True)
