"""`busbw fastpath tune`: measures the best method for each size and writes the table."""

import hashlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import click

from busbw import __version__, engine
from busbw.ab import BlockEndedError
from busbw.cli.fastpath.path import installed_library
from busbw.cli.interrupts import termination_as_interrupt
from busbw.cli.options.deprecated import renamed_option
from busbw.cli.options.output_file import require_writable, write_whole
from busbw.cli.options.param_types import NonEmptyPath
from busbw.errors import BusbwError, ExitCode, UsageError, interrupt_exit_code
from busbw.fastpath import METHODS, METHODS_IN_WINDOWS, TABLE_VARIABLE, TableRange
from busbw.fastpath.run_folder import TABLE_FILE, locked_folder, make_folder, open_folder, settings_bytes
from busbw.fastpath.search import SIZES, SIZES_IN_WINDOWS, Decision, ranges, summary
from busbw.fastpath.table import MAX_FAST_RANKS, size_bytes, table_text
from busbw.fastpath.tuning import NoWindowsError, TableTuner, TuningTarget
from busbw.files import replace_file
from busbw.records import HeaderRecord
from busbw.store import default_folder
from busbw.terminal import live_line

_DTYPES = ("half", "bfloat16", "float")


@click.command()
@click.option(
    "--ranks",
    "rank_words",
    default="",
    metavar="N,...",
    help="Numbers of ranks to tune.  [default: every GPU, at most 8]",
)
@click.option(
    "--collective",
    "collectives",
    type=click.Choice(list(METHODS)),
    multiple=True,
    help="Tune only this collective; repeatable.",
)
@click.option(
    "-d",
    "--dtype",
    "--datatype",
    type=click.Choice(_DTYPES),
    default="half",
    show_default=True,
    help="Type for reductions.",
)
@click.option(
    "--sizes",
    "size_words",
    default="",
    metavar="SIZE,...",
    help="Sizes to tune.  [default: 1K to 64M by a factor of 2, in windows to 128M]",
)
@click.option("--no-windows", is_flag=True, help="Skip calls with buffers in symmetric windows.")
@click.option(
    "-o",
    "--output",
    type=NonEmptyPath(),
    default=Path(TABLE_FILE),
    show_default=True,
    metavar="FILE",
    help="File for the table; overwritten if it exists.",
)
@click.option(
    "--library",
    type=NonEmptyPath(exists=True, dir_okay=False),
    metavar="FILE",
    help="Fast-path library to tune.  [default: installed library]",
)
@click.option(
    "--records-folder",
    "folder",
    type=NonEmptyPath(),
    metavar="FOLDER",
    help="Folder for records; resumes if it exists.  [default: one in the store]",
)
@renamed_option("--folder", "--records-folder")
@click.option("--dry-run", is_flag=True, help="Print the commands of the first part instead.")
def tune(
    rank_words: str,
    collectives: Sequence[str],
    dtype: str,
    size_words: str,
    no_windows: bool,
    output: Path,
    library: Path | None,
    folder: Path | None,
    dry_run: bool,
) -> int:
    """Measures the best method for each size on this machine, against NCCL, and writes the table."""
    names = list(dict.fromkeys(collectives)) or list(METHODS)
    sizes, numbers = _sizes(size_words), _ranks(rank_words)
    preloaded = library.absolute() if library else installed_library()
    ordinary = [TuningTarget(preloaded, ranks, dtype, sizes or SIZES) for ranks in numbers]
    targets = list(ordinary)
    if not no_windows and METHODS_IN_WINDOWS.keys() & names:
        targets += [replace(each, sizes=sizes or SIZES_IN_WINDOWS, in_windows=True) for each in ordinary]
    if dry_run:
        _print_commands(targets, names, folder or default_folder())
        return ExitCode.GOOD
    if (max_ranks := max(each.ranks for each in targets)) > (gpus := engine.gpu_count()):
        raise BusbwError(
            f"{max_ranks} ranks need {max_ranks} GPUs, this machine has {gpus}",
            remedy="reduce --ranks, see `busbw-engine --list-devices`",
        )
    require_writable(output)
    run_folder, is_resumed = open_folder(folder, settings_bytes(targets, names))
    found: list[TableRange] = []
    kept, summaries, skipped = 0, list[str](), list[str]()
    without_windows: list[TuningTarget] = []
    with locked_folder(run_folder), _progress() as say, termination_as_interrupt():
        if is_resumed:
            click.echo(f"Resuming the tuning in {run_folder}", err=True)
        try:
            for name, each in _parts(names, targets):
                if each in without_windows:
                    continue
                tuning = TableTuner(each, make_folder(run_folder / each.folder_name), say, skipped=skipped)
                try:
                    decisions = tuning.tune_collective(name)
                except NoWindowsError as error:
                    without_windows.append(each)
                    skipped.append(error.what)
                    continue
                kept += tuning.reused_blocks
                found += _lines(name, each, decisions)
                summaries.append(summary(each.title(name), decisions))
        except (BlockEndedError, KeyboardInterrupt) as error:
            if isinstance(error, BlockEndedError) and not error.was_interrupted:
                raise
            done = len(list(run_folder.glob("*/*.jsonl")))
            click.echo(f"Interrupted; the same command resumes after the {done} blocks in {run_folder}", err=True)
            return error.exit_code if isinstance(error, BlockEndedError) else interrupt_exit_code(error)
    if kept:
        click.echo(f"{kept} blocks were measured earlier", err=True)
    header = TableTuner(ordinary[-1], run_folder / ordinary[-1].folder_name).header()
    written = table_text(found, _provenance(header, targets, found, summaries))
    write_whole(output, written.encode())
    replace_file(run_folder / TABLE_FILE, written.encode())
    for sentence in [*summaries, *skipped]:
        click.echo(sentence)
    click.echo(f"Table: {output}; set {TABLE_VARIABLE}={output.absolute()} to use it")
    click.echo(f"Records: {run_folder}", err=True)
    return ExitCode.GOOD


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Prints progress: one updated line on a terminal, otherwise one line per block."""
    with live_line() as draw:
        yield draw if sys.stderr.isatty() else lambda words: click.echo(words, err=True)


def _ranks(words: str) -> list[int]:
    if not words:
        count = engine.gpu_count()
        if count < 2:
            gpus = "no GPU" if count == 0 else "one GPU"
            raise BusbwError(
                f"the fast path needs at least two GPUs, this machine has {gpus}", remedy="run on a multi-GPU machine"
            )
        return [min(count, MAX_FAST_RANKS)]
    found = [int(word) if word.isascii() and word.isdigit() else 0 for word in words.split(",")]
    if min(found) < 2 or len(set(found)) < len(found):
        raise UsageError(
            f'--ranks "{words}" is not a list of distinct numbers from 2', remedy="write it as --ranks 2,4"
        )
    if max(found) > MAX_FAST_RANKS:
        raise UsageError(
            f"--ranks {words}: the fast path supports 2 to {MAX_FAST_RANKS} ranks", remedy="remove larger numbers"
        )
    return found


def _sizes(words: str) -> tuple[int, ...]:
    found = [size_bytes(word) for word in words.split(",")] if words else []
    if None in found or len(set(found)) < len(found):
        raise UsageError(f'--sizes "{words}" is not a list of distinct sizes', remedy="write it as --sizes 1K,64K,1M")
    return tuple(sorted(size for size in found if size))


def _parts(names: Sequence[str], targets: Sequence[TuningTarget]) -> Iterator[tuple[str, TuningTarget]]:
    """Yields the collectives and targets in the order of tuning, which is also the order of the table."""
    for name in names:
        for each in targets:
            if not each.in_windows or name in METHODS_IN_WINDOWS:
                yield name, each


def _print_commands(targets: Sequence[TuningTarget], names: Sequence[str], run_folder: Path) -> None:
    for name, each in _parts(names, targets):
        click.echo(f"# {each.title(name)}")
        for command in TableTuner(each, run_folder / each.folder_name).commands(name):
            click.echo(command)
    click.echo(
        "# then, for each of these: configs next to the best of each size, the best configs with checks, "
        "the same configs and NCCL without -G, and NCCL again"
    )


def _lines(name: str, target: TuningTarget, decisions: Sequence[Decision]) -> list[TableRange]:
    chosen = {each.size_bytes: each.config for each in decisions}
    notes = {each.size_bytes: each.note for each in decisions}
    return ranges(name, target.ranks, chosen, notes, in_windows=target.in_windows)


def _provenance(
    header: HeaderRecord, targets: Sequence[TuningTarget], found: Sequence[TableRange], summaries: Sequence[str]
) -> list[str]:
    """Comments about the origin of the table: machine, libraries, time and results."""
    first, machine = header.ranks[0], header.machine
    windows = ["Lines for windows: measured with buffers in symmetric windows (-R 2), also for NCCL."]
    library = first.library
    driver = machine.get("driver")
    return [
        f"Written by busbw {__version__} (busbw fastpath tune) on {datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC.",
        f"Measured on {len(header.ranks)} x {first.device_name}"
        + (f", driver {driver}" if driver else "")
        + f", {f'NCCL {library.version}' if library else f'{header.backend} {header.backend_version}'}, "
        f"{targets[0].dtype}, device time over both placements, in graphs and launched one by one, against NCCL.",
        f"Library: SHA-256 {hashlib.sha256(targets[0].library.read_bytes()).hexdigest()}.",
        *(windows if any(each.in_windows for each in found) else []),
        "Other numbers of ranks and other collectives are delegated to NCCL.",
        "",
        *(f"{sentence}." for sentence in summaries),
    ]
