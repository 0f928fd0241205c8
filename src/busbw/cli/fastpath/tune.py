"""`busbw fastpath tune`: measures the best method for each size and writes the table.

A target is a number of ranks, a data type, and a kind of buffers: ordinary, or in NCCL's symmetric windows. Each
collective is tuned on each target, in the three stages of `busbw.fastpath.tuning`.
"""

import hashlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path

import click

from busbw import __version__, engine
from busbw.ab import BlockEndedError
from busbw.cli.fastpath.path import installed_library
from busbw.cli.interrupts import checked_interrupts
from busbw.cli.launched_process import ONE_NODE_REMEDY, refuse_launched_process
from busbw.cli.options.deprecated import renamed_option
from busbw.cli.options.json_option import json_option
from busbw.cli.options.output_file import require_writable, write_whole
from busbw.cli.options.param_types import NonEmptyPath
from busbw.errors import BusbwError, ExitCode, UsageError, interrupt_exit_code
from busbw.fastpath.run_folder import TABLE_FILE, locked_folder, make_folder, open_folder, settings_bytes
from busbw.fastpath.search import SIZES, SIZES_IN_WINDOWS, Decision, ranges, summary
from busbw.fastpath.table import MAX_FAST_RANKS, METHODS, METHODS_IN_WINDOWS, TABLE_VARIABLE, TableRange, table_text
from busbw.fastpath.tuning import NoWindowsError, TableTuner, TuningTarget, first_header
from busbw.records import HeaderRecord
from busbw.support.files import replace_file
from busbw.support.json_output import json_object
from busbw.terminal import live_line
from busbw.units import parse_size

_DTYPES = ("half", "bfloat16", "float")


@click.command()
@click.option(
    "--ranks",
    "ranks_text",
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
    "sizes_text",
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
@json_option
def tune(
    ranks_text: str,
    collectives: Sequence[str],
    dtype: str,
    sizes_text: str,
    no_windows: bool,
    output: Path,
    library: Path | None,
    folder: Path | None,
    as_json: bool,
) -> int:
    """Measures the best method for each size on this machine, against NCCL, and writes the table."""
    names = list(dict.fromkeys(collectives)) or list(METHODS)
    sizes, rank_counts = _parse_sizes(sizes_text), _parse_ranks(ranks_text)
    tuned_library = library.absolute() if library else installed_library()
    ordinary_targets = [TuningTarget(tuned_library, ranks, dtype, sizes or SIZES) for ranks in rank_counts]
    targets = list(ordinary_targets)
    if not no_windows and METHODS_IN_WINDOWS.keys() & names:
        targets += [replace(target, sizes=sizes or SIZES_IN_WINDOWS, in_windows=True) for target in ordinary_targets]
    refuse_launched_process("fastpath tune", ONE_NODE_REMEDY)
    _require_gpus(max(rank_counts))
    require_writable(output)
    run_folder, is_resumed = open_folder(folder, settings_bytes(targets, names))
    with locked_folder(run_folder), _show_progress() as print_progress, checked_interrupts() as check_interrupt:
        if is_resumed:
            click.echo(f"Resuming the tuning in {run_folder}", err=True)
        try:
            results = _tune_collectives(names, targets, run_folder, print_progress, check_interrupt)
        except BlockEndedError as error:
            if not error.was_interrupted:
                raise
            _print_interrupt(run_folder)
            return error.exit_code
        except KeyboardInterrupt as interrupt:
            _print_interrupt(run_folder)
            return interrupt_exit_code(interrupt)
    if results.reused_blocks:
        click.echo(f"{results.reused_blocks} blocks were measured earlier", err=True)
    target_with_all_gpus = max(ordinary_targets, key=lambda target: target.ranks)
    header = first_header(run_folder / target_with_all_gpus.folder_name)
    table = table_text(results.ranges, _provenance_comments(header, targets, results))
    write_whole(output, table.encode())
    replace_file(run_folder / TABLE_FILE, table.encode())
    _print_results(results, output, as_json=as_json)
    click.echo(f"Records: {run_folder}", err=True)
    return ExitCode.GOOD


def _require_gpus(ranks: int) -> None:
    gpus = engine.gpu_count()
    if ranks > gpus:
        raise BusbwError(
            f"{ranks} ranks need {ranks} GPUs, this machine has {gpus}",
            remedy="reduce --ranks, see `busbw-engine --list-devices`",
        )


@dataclass
class _TuningResults:
    """Results of all collectives on all targets."""

    ranges: list[TableRange] = field(default_factory=list)
    """Lines of the table."""
    summaries: list[str] = field(default_factory=list)
    """One sentence for each collective on each target."""
    skipped: list[str] = field(default_factory=list)
    """One sentence for each block or target that could not be measured."""
    reused_blocks: int = 0
    """Number of blocks that an earlier start of the same tuning has measured."""


def _tune_collectives(
    names: Sequence[str],
    targets: Sequence[TuningTarget],
    run_folder: Path,
    on_progress: Callable[[str], None],
    check_interrupt: Callable[[], None],
) -> _TuningResults:
    """Tunes each collective on each target. Skips targets in windows if the library cannot register them."""
    results = _TuningResults()
    targets_without_windows: list[TuningTarget] = []
    for name, target in _collectives_and_targets(names, targets):
        if target in targets_without_windows:
            continue
        target_folder = make_folder(run_folder / target.folder_name)
        # The tuner adds sentences to `skipped`.
        tuner = TableTuner(target, target_folder, on_progress, check_interrupt, skipped=results.skipped)
        try:
            decisions = tuner.tune_collective(name)
        except NoWindowsError as error:
            targets_without_windows.append(target)
            results.skipped.append(error.problem)
            continue
        results.reused_blocks += tuner.reused_blocks
        results.ranges += _table_ranges(name, target, decisions)
        results.summaries.append(summary(target.title(name), decisions))
    return results


def _print_interrupt(run_folder: Path) -> None:
    block_count = len(list(run_folder.glob("*/*.jsonl")))
    click.echo(f"Interrupted; the same command resumes after the {block_count} blocks in {run_folder}", err=True)


def _print_results(results: _TuningResults, output: Path, *, as_json: bool) -> None:
    """Prints the results, and the file with the table."""
    if as_json:
        fields = {
            "table_file": str(output.absolute()),
            "ranges": results.ranges,
            "summaries": results.summaries,
            "skipped": results.skipped,
        }
        click.echo(json_object(fields))
        return
    for sentence in [*results.summaries, *results.skipped]:
        click.echo(sentence)
    click.echo(f"Table: {output}; set {TABLE_VARIABLE}={output.absolute()} to use it")


@contextmanager
def _show_progress() -> Iterator[Callable[[str], None]]:
    """Yields a function that prints progress: one updated line on a terminal, otherwise one line per block."""
    with live_line() as draw:
        yield draw if sys.stderr.isatty() else lambda text: click.echo(text, err=True)


def _parse_ranks(text: str) -> list[int]:
    """Returns the numbers of ranks in the value of `--ranks`. An empty value means all GPUs."""
    if not text:
        count = engine.gpu_count()
        if count < 2:
            gpus = "no GPU" if count == 0 else "one GPU"
            raise BusbwError(
                f"the fast path needs at least two GPUs, this machine has {gpus}", remedy="run on a multi-GPU machine"
            )
        return [min(count, MAX_FAST_RANKS)]
    words = text.split(",")
    rank_counts = [int(word) if word.isascii() and word.isdigit() else 0 for word in words]  # 0: not a number
    if min(rank_counts) < 2 or len(set(rank_counts)) < len(rank_counts):
        raise UsageError(f'--ranks "{text}" is not a list of distinct numbers from 2', remedy="write it as --ranks 2,4")
    if max(rank_counts) > MAX_FAST_RANKS:
        raise UsageError(
            f"--ranks {text}: the fast path supports 2 to {MAX_FAST_RANKS} ranks", remedy="remove larger numbers"
        )
    return rank_counts


def _parse_sizes(text: str) -> tuple[int, ...]:
    """Returns the sizes in bytes in the value of `--sizes`, in ascending order. Empty for an empty value."""
    words = text.split(",") if text else []
    sizes = [parse_size(word) or 0 for word in words]  # 0: not a size
    if 0 in sizes or len(set(sizes)) < len(sizes):
        raise UsageError(f'--sizes "{text}" is not a list of distinct sizes', remedy="write it as --sizes 1K,64K,1M")
    return tuple(sorted(sizes))


def _collectives_and_targets(
    names: Sequence[str], targets: Sequence[TuningTarget]
) -> Iterator[tuple[str, TuningTarget]]:
    """Yields each collective with each target that it can use, in the order of tuning and of the table."""
    for name in names:
        for target in targets:
            if not target.in_windows or name in METHODS_IN_WINDOWS:
                yield name, target


def _table_ranges(name: str, target: TuningTarget, decisions: Sequence[Decision]) -> list[TableRange]:
    configs = {decision.size_bytes: decision.config for decision in decisions}
    notes = {decision.size_bytes: decision.note for decision in decisions}
    return ranges(name, target.ranks, configs, notes, in_windows=target.in_windows)


def _provenance_comments(header: HeaderRecord, targets: Sequence[TuningTarget], results: _TuningResults) -> list[str]:
    """Returns comments about the origin of the table: machine, libraries, time and results.

    `header` is from a record of the target with the most ranks.
    """
    rank = header.ranks[0]
    driver = header.machine.get("driver")
    driver_text = f", driver {driver}" if driver else ""
    measured_library = f"NCCL {rank.library.version}" if rank.library else f"{header.backend} {header.backend_version}"
    comments = [
        f"Written by busbw {__version__} (busbw fastpath tune) on {datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC.",
        f"Measured on {len(header.ranks)} x {rank.device_name}{driver_text}, {measured_library}, {targets[0].dtype}, "
        "device time over both placements, in graphs and launched one by one, against NCCL.",
        f"Library: SHA-256 {hashlib.sha256(targets[0].library.read_bytes()).hexdigest()}.",
    ]
    if any(table_range.in_windows for table_range in results.ranges):
        comments.append("Lines for windows: measured with buffers in symmetric windows (-R 2), also for NCCL.")
    comments += ["Other numbers of ranks and other collectives are delegated to NCCL.", ""]
    return comments + [f"{sentence}." for sentence in results.summaries]
