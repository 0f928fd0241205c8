"""`busbw fastpath tune`: measures which method is best for which size, and writes the table."""

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
from busbw.cli.fastpath.path import library_here
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
    "--ranks", "rank_words", default="", metavar="N,...", help="Numbers of ranks.  [default: every GPU, at most 8]"
)
@click.option(
    "--collective", "collectives", type=click.Choice(list(METHODS)), multiple=True, help="Only this one; repeatable."
)
@click.option(
    "-d",
    "--dtype",
    "--datatype",
    type=click.Choice(_DTYPES),
    default="half",
    show_default=True,
    help="What is reduced.",
)
@click.option(
    "--sizes",
    "size_words",
    default="",
    metavar="SIZE,...",
    help="[default: 1K to 64M by a factor of 2, in windows to 128M]",
)
@click.option("--no-windows", is_flag=True, help="Leave out calls whose buffers lie in symmetric windows.")
@click.option(
    "-o",
    "--output",
    type=NonEmptyPath(),
    default=Path(TABLE_FILE),
    show_default=True,
    metavar="FILE",
    help="Where the table goes, in place of what is there.",
)
@click.option(
    "--library",
    type=NonEmptyPath(exists=True, dir_okay=False),
    metavar="FILE",
    help="In place of the one that is here.",
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
    """Measures on this machine which method is best for which size, beside NCCL, and writes the table."""
    names = list(dict.fromkeys(collectives)) or list(METHODS)
    sizes, numbers = _sizes(size_words), _ranks(rank_words)
    preloaded = library.absolute() if library else library_here()
    ordinary = [TuningTarget(preloaded, ranks, dtype, sizes or SIZES) for ranks in numbers]
    asked = list(ordinary)
    if not no_windows and METHODS_IN_WINDOWS.keys() & names:
        asked += [replace(each, sizes=sizes or SIZES_IN_WINDOWS, in_windows=True) for each in ordinary]
    if dry_run:
        _print_commands(asked, names, folder or default_folder())
        return ExitCode.GOOD
    if (most := max(each.ranks for each in asked)) > (gpus := engine.gpu_count()):
        raise BusbwError(
            f"{most} ranks take {most} GPUs, and {gpus} are here", remedy="see `busbw-engine --list-devices`"
        )
    require_writable(output)
    where, goes_on = open_folder(folder, settings_bytes(asked, names))
    found: list[TableRange] = []
    kept, said, left_out = 0, list[str](), list[str]()
    impossible: list[TuningTarget] = []
    with locked_folder(where), _progress() as say, termination_as_interrupt():
        if goes_on:
            click.echo(f"Going on with what is in {where}", err=True)
        try:
            for name, each in _parts(names, asked):
                if each in impossible:
                    continue
                tuning = TableTuner(each, make_folder(where / each.folder_name), say, left_out=left_out)
                try:
                    decisions = tuning.collective(name)
                except NoWindowsError as error:
                    impossible.append(each)
                    left_out.append(error.what)
                    continue
                kept += tuning.blocks_kept
                found += _lines(name, each, decisions)
                said.append(summary(each.of(name), decisions))
        except (BlockEndedError, KeyboardInterrupt) as error:
            if isinstance(error, BlockEndedError) and not error.was_interrupted:
                raise
            done = len(list(where.glob("*/*.jsonl")))
            click.echo(f"Interrupted; the same command goes on from the {done} blocks in {where}", err=True)
            return error.exit_code if isinstance(error, BlockEndedError) else interrupt_exit_code(error)
    if kept:
        click.echo(f"{kept} blocks had been measured before", err=True)
    header = TableTuner(ordinary[-1], where / ordinary[-1].folder_name).header()
    written = table_text(found, _provenance(header, asked, found, said))
    write_whole(output, written.encode())
    replace_file(where / TABLE_FILE, written.encode())
    for sentence in [*said, *left_out]:
        click.echo(sentence)
    click.echo(f"Table: {output}; it is used with {TABLE_VARIABLE}={output.absolute()}")
    click.echo(f"Records: {where}", err=True)
    return ExitCode.GOOD


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """A line that changes on a terminal; otherwise a line for each block, since minutes pass."""
    with live_line() as draw:
        yield draw if sys.stderr.isatty() else lambda words: click.echo(words, err=True)


def _ranks(words: str) -> list[int]:
    if not words:
        here = engine.gpu_count()
        if here < 2:
            gpus = "no GPU is" if here == 0 else "one GPU is"
            raise BusbwError(
                f"the fast path takes two GPUs or more, and {gpus} here", remedy="tune where there are some"
            )
        return [min(here, MAX_FAST_RANKS)]
    found = [int(word) if word.isascii() and word.isdigit() else 0 for word in words.split(",")]
    if min(found) < 2 or len(set(found)) < len(found):
        raise UsageError(f'--ranks "{words}" is no list of numbers from 2 on', remedy="write it as --ranks 2,4")
    if max(found) > MAX_FAST_RANKS:
        raise UsageError(
            f"--ranks {words}: the fast path does 2 to {MAX_FAST_RANKS} ranks", remedy="leave out what is more"
        )
    return found


def _sizes(words: str) -> tuple[int, ...]:
    found = [size_bytes(word) for word in words.split(",")] if words else []
    if None in found or len(set(found)) < len(found):
        raise UsageError(f'--sizes "{words}" is no list of sizes', remedy="write it as --sizes 1K,64K,1M")
    return tuple(sorted(size for size in found if size))


def _parts(names: Sequence[str], asked: Sequence[TuningTarget]) -> Iterator[tuple[str, TuningTarget]]:
    """What is tuned one after another: a table's order."""
    for name in names:
        for each in asked:
            if not each.in_windows or name in METHODS_IN_WINDOWS:
                yield name, each


def _print_commands(asked: Sequence[TuningTarget], names: Sequence[str], where: Path) -> None:
    for name, each in _parts(names, asked):
        click.echo(f"# {each.of(name)}")
        for command in TableTuner(each, where / each.folder_name).commands(name):
            click.echo(command)
    click.echo(
        "# then, for each of these: shapes beside the best of each size, the chosen ones with checks, "
        "these and NCCL without -G, and NCCL again"
    )


def _lines(name: str, asked: TuningTarget, decisions: Sequence[Decision]) -> list[TableRange]:
    chosen = {each.size_bytes: each.shape for each in decisions}
    notes = {each.size_bytes: each.note for each in decisions}
    return ranges(name, asked.ranks, chosen, notes, in_windows=asked.in_windows)


def _provenance(
    header: HeaderRecord, asked: Sequence[TuningTarget], found: Sequence[TableRange], said: Sequence[str]
) -> list[str]:
    """Comments: what was measured, on what, with what, when."""
    first, machine = header.ranks[0], header.machine
    windows = ["Lines of windows: measured with buffers in symmetric windows (-R 2), NCCL's too."]
    library = first.library
    driver = machine.get("driver")
    return [
        f"Written by busbw {__version__} (busbw fastpath tune) on {datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC.",
        f"Measured on {len(header.ranks)} x {first.device_name}"
        + (f", driver {driver}" if driver else "")
        + f", {f'NCCL {library.version}' if library else f'{header.backend} {header.backend_version}'}, "
        f"{asked[0].dtype}, device time over both placements, in graphs and launched one by one, beside plain NCCL.",
        f"Library: SHA-256 {hashlib.sha256(asked[0].library.read_bytes()).hexdigest()}.",
        *(windows if any(each.in_windows for each in found) else []),
        "Other numbers of ranks and other collectives are handed over.",
        "",
        *(f"{sentence}." for sentence in said),
    ]
