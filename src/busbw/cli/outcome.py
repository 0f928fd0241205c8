"""What is said after a run: how the engine died, a picture, the verdict, where the record is. On stderr."""

import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import click
import msgspec

from busbw.cli.correctness import correctness_sentence
from busbw.errors import SIGNALLED, ExitCode
from busbw.readers import busbw_records
from busbw.records import RecordsError, read
from busbw.terminal import plot, width_of
from busbw.terminal.stdout_buffer import StdoutBuffer
from busbw.units import count_text

_CUT_SHORT: dict[int, str] = {
    ExitCode.ENVIRONMENT: "left no whole record",
    ExitCode.RANK_LOST: "lost a process",
    ExitCode.OUTPUT_CLOSED: "ended when nobody read its table any more",
    ExitCode.INTERRUPTED: "was interrupted",
    SIGNALLED + signal.SIGTERM: "was terminated",
    SIGNALLED + signal.SIGHUP: "ended with its terminal",
}
"""What became of a run whose record has no end, by its exit code."""
_PATIENCE_S = 2.0
_CRASHES = {signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE}

_MEASURES_NOTHING = {"--help", "-h", "--version", "--list-devices"}
"""Flags of the engine with which it says something and ends."""

Command = TypeVar("Command", bound=Callable[..., int])


def plot_option(command: Command) -> Command:
    """Gives a command `--plot`, as `plot_when`."""
    return click.option(
        "--plot",
        "plot_when",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        show_default=True,
        help="Draw busbw over size; auto: when stderr is a terminal.",
    )(command)


def print_outcome(code: int, path: Path | None, *, plot_when: str) -> None:
    """Says how a run went.

    Args:
        code: The program's exit code.
        path: Of the record; None where the file is not this run's.
        plot_when: As `--plot` has it.

    Raises:
        RecordsError: All went well, and yet the record cannot be read.
    """
    if sentence := _crash_message(code):
        click.echo(f"busbw: {sentence}", err=True)
    if path is None or not path.exists() or code == ExitCode.USAGE:
        return
    try:
        _report(path, code, draw=plot_when == "always" or (plot_when == "auto" and sys.stderr.isatty()))
    except RecordsError:
        if code == ExitCode.GOOD:
            raise  # otherwise the engine has said why it did not get so far


def kind_of(line: bytes) -> str | None:
    """What kind of record a line is; None where it is none to its end, as who is killed may leave half a line."""
    try:
        return msgspec.json.decode(line, type=_AnyRecord).kind
    except msgspec.MsgspecError:
        return None


class _AnyRecord(msgspec.Struct):
    kind: str = ""


def kinds_in(path: Path) -> Mapping[str, int]:
    """How many records of each kind a file has; none where there is no file."""
    if not path.exists():
        return {}
    with path.open("rb") as lines:
        return Counter(kind for line in lines if (kind := kind_of(line)) is not None)


def verified_exit_code(code: int, kinds: Mapping[str, int], flags: Sequence[str], *, was_cut: bool = False) -> int:
    """The exit code; where that says that all is well and the record does not, a sentence and another one.

    Args:
        code: The program's.
        kinds: How many records of each kind came of it.
        flags: The engine's.
        was_cut: Whether one came of which a part is missing; that has been said.
    """
    if code == ExitCode.GOOD and was_cut:
        return ExitCode.ENVIRONMENT
    runs, ends = kinds.get("run", 0), kinds.get("end", 0)
    if code != ExitCode.GOOD or (runs, ends) == (1, 1) or not _MEASURES_NOTHING.isdisjoint(flags):
        return code
    came = "no record" if not kinds else f"{count_text(runs, 'beginning')} and {count_text(ends, 'end')} of a record"
    click.echo(
        f"busbw: the program ended well, and {came} came of it; look at what else it, or what started it, printed, and "
        "measure again",
        err=True,
    )
    return ExitCode.ENVIRONMENT


def finish_stdout(stdout: StdoutBuffer, code: int) -> None:
    """Waits for the reader of the table; after an interrupt only for a moment, and says what it did not get."""
    lost_bytes = stdout.finish(limit_s=_PATIENCE_S if code > SIGNALLED else None)
    if lost_bytes:
        what = f"the last {count_text(lost_bytes, 'byte')} of the table were not read and are lost; the record is whole"
        click.echo(f"busbw: {what}", err=True)


def _crash_message(code: int) -> str:
    """The sentence on an engine that did not end by itself; it had no time to say one."""
    number = code - SIGNALLED
    if number == signal.SIGKILL:
        return (
            "the engine was killed (SIGKILL), most often because the memory was used up; look at dmesg or the job's "
            "memory limit, then run with fewer ranks on each machine or a smaller -e"
        )
    if number in _CRASHES:
        name = signal.Signals(number).name
        return f"the engine crashed ({name}); repeat it with NCCL_DEBUG=INFO and report both, as that is a fault in it"
    return ""


def _report(path: Path, code: int, *, draw: bool) -> None:
    record = read(path)
    if draw:
        rows, width = busbw_records.table_of(record).rows, width_of()
        for picture in (plot.busbw_over_size(rows, width=width), plot.time_over_size(rows, width=width)):
            if picture:
                click.echo(f"{picture}\n", err=True)
    click.echo(correctness_sentence(record, cut_short=_CUT_SHORT.get(code, "was killed")), err=True)
    click.echo(f"Record: {os.path.relpath(path)}", err=True)
