"""Summary of a run on stderr: crash message, curve, sentences about correctness and speed, and path of the record.

`busbw run` and `busbw launch` print it after the engine has ended. Before that, `verified_exit_code` checks that the
record is complete.
"""

import signal
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click
import msgspec

from busbw.cli.options.run_destination import print_record_path
from busbw.cli.outcome.correctness import correctness_sentence
from busbw.errors import INTERRUPT_CODES, SIGNALLED, ExitCode
from busbw.logs.log import Log
from busbw.readers.documents import busbw_records
from busbw.records import RecordsError, read
from busbw.terminal import plot, terminal_width
from busbw.terminal.stdout_buffer import StdoutBuffer
from busbw.units import count_text

if TYPE_CHECKING:
    from busbw.judge import Grade

_ENDING_WORDS: dict[int, str] = {
    ExitCode.ENVIRONMENT: "left an incomplete record",
    ExitCode.RANK_LOST: "lost a process",
    ExitCode.OUTPUT_CLOSED: "ended because its output was closed",
    ExitCode.INTERRUPTED: "was interrupted",
    SIGNALLED + signal.SIGTERM: "was terminated",
    SIGNALLED + signal.SIGHUP: "ended with its terminal",
}
"""Verb phrase for an end that the record does not explain, by exit code."""
_READ_LIMIT_S = 2.0
"""Time after an interrupt in which the reader of stdout may read the rest of the table."""
_CRASH_SIGNALS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE}
_INFORMATION_FLAGS = {"--help", "-h", "--version", "--list-devices", "--world"}
"""Flags with which the engine prints information and measures nothing."""

Command = TypeVar("Command", bound=Callable[..., int])


def plot_option(command: Command) -> Command:
    """Adds `--plot` to a command, as `plot_when`."""
    return click.option(
        "--plot",
        "plot_when",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        show_default=True,
        help="Draw busbw over size; auto: when stderr is a terminal.",
    )(command)


def print_outcome(code: int, path: Path | None, *, plot_when: str) -> "Grade | None":
    """Prints the outcome of a run, and returns its verdict. None if it is not judged.

    Args:
        code: Exit code of the program.
        path: Path of the record. None if this run did not create the file, because another run's record has the path.
        plot_when: Value of `--plot`.

    Raises:
        RecordsError: The run succeeded, but the record cannot be read.
    """
    print_crash(code)
    if path is None or not path.exists() or code == ExitCode.USAGE:
        return None
    is_drawn = plot_when == "always" or (plot_when == "auto" and sys.stderr.isatty())
    try:
        return _print_record_summary(path, code, draw=is_drawn)
    except RecordsError:
        if code == ExitCode.GOOD:
            raise  # with another code the engine has printed its own error
        return None


def print_crash(code: int) -> None:
    """Prints a message if the exit code of the engine is that of a crash or of another signal."""
    if message := _crash_message(code):
        click.echo(f"busbw: {message}", err=True)


def record_kind(line: bytes) -> str | None:
    """Returns the kind of a record line. Empty if it has no kind. None if a killed process left the line incomplete."""
    try:
        return msgspec.json.decode(line, type=_AnyRecord).kind
    except msgspec.MsgspecError:
        return None


class _AnyRecord(msgspec.Struct):
    kind: str = ""


def record_kinds(path: Path) -> Mapping[str, int]:
    """Returns the number of records of each kind in a file. Empty if the file does not exist."""
    if not path.exists():
        return {}
    with path.open("rb") as lines:
        kinds = map(record_kind, lines)
        return Counter(kind for kind in kinds if kind is not None)


def verified_exit_code(code: int, kinds: Mapping[str, int], flags: Sequence[str], *, was_cut: bool = False) -> int:
    """Returns the exit code. If a successful run has an incomplete record, prints an error and returns ENVIRONMENT.

    Args:
        code: Exit code of the program.
        kinds: Number of the run's records of each kind.
        flags: Flags of the engine.
        was_cut: True if a record line was incomplete, which was already reported.
    """
    if code != ExitCode.GOOD:
        return code
    if was_cut:
        return ExitCode.ENVIRONMENT
    runs, ends = kinds.get("run", 0), kinds.get("end", 0)
    is_complete = runs == 1 and ends == 1
    prints_information = not _INFORMATION_FLAGS.isdisjoint(flags)
    if is_complete or prints_information:
        return code
    written = "no record" if not kinds else f"{count_text(runs, 'beginning')} and {count_text(ends, 'end')} of a record"
    click.echo(
        f"busbw: the program reported success but wrote {written}; check its output and that of its launcher, then "
        "measure again",
        err=True,
    )
    return ExitCode.ENVIRONMENT


def finish_stdout(stdout: StdoutBuffer, code: int, *, check_interrupt: Callable[[], None]) -> None:
    """Waits until the reader of stdout has read the table. Waits at most 2 s after a signal, and reports lost bytes."""
    was_signalled = code > SIGNALLED
    lost_bytes = stdout.finish(limit_s=_READ_LIMIT_S if was_signalled else None, on_wait=check_interrupt)
    if lost_bytes:
        loss = (
            f"the last {count_text(lost_bytes, 'byte')} of the table were not read and are lost; the record is complete"
        )
        click.echo(f"busbw: {loss}", err=True)


def _crash_message(code: int) -> str:
    """Returns a message for an engine that crashed or was killed. Empty for any other exit code."""
    number = code - SIGNALLED
    if number == signal.SIGKILL:
        return (
            "the engine was killed (SIGKILL), usually for lack of memory; check dmesg and the job's memory limit, "
            "then use fewer ranks per machine or a smaller -e"
        )
    if number in _CRASH_SIGNALS:
        name = signal.Signals(number).name
        remedy = "run it again with NCCL_DEBUG=INFO, and report this message with that output"
        if number == signal.SIGBUS:
            remedy = f"check with df that /dev/shm and the file system of the output have space, then {remedy}"
        return f"the engine crashed ({name}); {remedy}"
    is_orderly = code in INTERRUPT_CODES or code == ExitCode.OUTPUT_CLOSED
    if number in signal.valid_signals() and not is_orderly:
        names = {each.value: each.name for each in signal.Signals}
        return (
            f"the engine was ended by {names.get(number, f'signal {number}')}; look for its sender, such as Ctrl-\\, a "
            "scheduler or a limit of ulimit, then measure again"
        )
    return ""


def _print_record_summary(path: Path, code: int, *, draw: bool) -> "Grade | None":
    from busbw.cli.outcome.speed import speed_sentence  # slow, and not needed before the measurement
    from busbw.judge import judge, worst

    record = read(path)
    table = busbw_records.table_of(record)
    if draw:
        width = terminal_width()
        for curve in (plot.busbw_over_size(table.rows, width=width), plot.time_over_size(table.rows, width=width)):
            if curve:
                click.echo(f"{curve}\n", err=True)
    ending_words = _ENDING_WORDS.get(code, "was killed")
    click.echo(correctness_sentence(record, exit_code=code, ending_words=ending_words), err=True)
    verdicts = judge(Log(source=str(path), tables=(table,)))
    click.echo(speed_sentence(verdicts), err=True)
    print_record_path(path)
    return worst([verdict.grade for verdict in verdicts])
