"""`busbw record`: runs a program and records the collectives that it calls through NCCL."""

import os
import shlex
import signal
import subprocess
from datetime import datetime, timezone
from pathlib import Path

import click
import numpy as np

from busbw import engine
from busbw.cli.launched_process import refuse_launched_process
from busbw.cli.options.param_types import SIZE, NonEmptyPath
from busbw.errors import SIGNALLED, BusbwError, ExitCode, UsageError
from busbw.store import new_run
from busbw.support.files import path_text
from busbw.support.termination_signals import handled_by
from busbw.traces import format as trace_format
from busbw.units import count_text, plain

_PLUGIN_VARIABLE = "NCCL_PROFILER_PLUGIN"
"""Library that NCCL loads as its profiler plugin."""
_MIN_BYTES = 2**20
"""Minimum of `--max-size`."""


@click.command(
    context_settings={"ignore_unknown_options": True},
    epilog="Start it once, before a launcher: busbw record -- torchrun train.py. If the launcher does not pass on the "
    "environment, give it the variables that --env prints. Use a directory that all nodes share. Without a shared file "
    "system, each node writes to its own directory with this name; then copy all files into one. Recording needs NCCL "
    "2.23 or later. BUSBW_TRACE_NETWORK=on also counts the transfers of the network proxy.",
)
@click.option(
    "-o",
    "--output",
    "directory",
    type=NonEmptyPath(file_okay=False),
    metavar="DIRECTORY",
    help="New or empty directory of the trace.  [default: busbw-trace-TIME]",
)
@click.option(
    "--device-times",
    type=click.Choice(["auto", "on", "off"]),
    default="auto",
    show_default=True,
    help="Times on the GPU; auto: if they cost little.",
)
@click.option("--max-size", "max_bytes", type=SIZE, metavar="SIZE", help="Limit of each file.  [default: 256M]")
@click.option("--env", "prints_variables", is_flag=True, help="Print the variables for a launcher, and run nothing.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def record(
    directory: Path | None, device_times: str, max_bytes: int | None, prints_variables: bool, command: tuple[str, ...]
) -> int:
    """Runs COMMAND and records its collectives with NCCL's profiler interface. Returns the exit code of COMMAND."""
    has_both = bool(command) and prints_variables
    has_neither = not command and not prints_variables
    if has_both or has_neither:
        raise UsageError("record takes either a command or --env", remedy="type -- COMMAND after the options")
    if max_bytes is not None and max_bytes < _MIN_BYTES:
        raise UsageError(f"--max-size {max_bytes} is below 1 MiB", remedy="set at least 1M")
    library = engine.library(engine.PROFILER_LIBRARY)
    if library is None:
        raise BusbwError(f"{engine.PROFILER_LIBRARY} is missing", remedy="install busbw again")
    if prints_variables:
        target = Path(directory or _default_name())
    else:
        refuse_launched_process("record", "start it before the launcher, or use busbw record --env")
        target = _make_directory(directory) if directory else new_run(Path(), _default_name())
    variables = {
        _PLUGIN_VARIABLE: str(library),
        "BUSBW_TRACE_DIRECTORY": str(target.absolute()),
        "BUSBW_TRACE_DEVICE_TIMES": device_times,
    }
    if max_bytes is not None:
        variables["BUSBW_TRACE_MAX_BYTES"] = str(max_bytes)
    if prints_variables:
        click.echo("\n".join(f"export {name}={shlex.quote(value)}" for name, value in variables.items()))
        return ExitCode.GOOD
    if replaced := os.environ.get(_PLUGIN_VARIABLE):
        click.echo(f"busbw: {_PLUGIN_VARIABLE}={plain(replaced)} is replaced, so that plugin is not used", err=True)
    code = _run(command, {**os.environ, **variables})
    click.echo(_summary(target), err=True)
    return code


def _default_name() -> str:
    return f"busbw-trace-{datetime.now(timezone.utc):%Y%m%dT%H%M%SZ}"


def _make_directory(directory: Path) -> Path:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        is_empty = next(directory.iterdir(), None) is None
    except OSError as error:
        raise UsageError(
            f"cannot make the directory {path_text(directory)}: {error.strerror}", remedy="set -o DIRECTORY"
        ) from error
    if not is_empty:
        raise UsageError(f"the directory {path_text(directory)} is not empty", remedy="name a new one")
    return directory


def _run(command: tuple[str, ...], environment: dict[str, str]) -> int:
    """Runs a command in the foreground and returns its exit code. Forwards SIGTERM and SIGHUP to the command."""
    process: subprocess.Popen[bytes] | None = None
    early_signals: list[int] = []

    def forward(number: int, _frame: object) -> None:
        if number == signal.SIGINT:
            return  # the terminal sends SIGINT to the command too
        if process is None:
            early_signals.append(number)
        else:
            process.send_signal(number)

    with handled_by(forward):
        try:
            process = subprocess.Popen(command, env=environment)
        except OSError as error:
            raise UsageError(
                f"cannot start {plain(command[0])}: {error.strerror}", remedy="correct the command after --"
            ) from error
        for number in early_signals:
            process.send_signal(number)
        code = process.wait()
    signal_number = -code  # Popen returns -9 if SIGKILL ended the command
    return SIGNALLED + signal_number if signal_number > 0 else code


def _summary(directory: Path) -> str:
    """Returns the last lines for the user: number of operations and processes, losses, and the next step."""
    operation_count = lost_count = 0
    files = sorted(directory.glob("*.trace"))
    for file in files:
        header = np.fromfile(file, trace_format.HEADER, count=1)
        lost_count += int(header["lost_count"].sum())
        operation_count += _operation_count(file)
    path = shlex.quote(path_text(directory))
    if not files:
        return (
            "Nothing was recorded. Possible reasons: the command did not create a communicator of NCCL, its NCCL is "
            "older than 2.23, or its launcher did not pass on the environment (busbw record --env).\n"
            f"The directory {path} has no trace."
        )
    recorded = f"{count_text(operation_count, 'operation')} of {count_text(len(files), 'process', 'processes')}"
    lost = f", {lost_count:,} lost (limit of the size or full disk)" if lost_count else ""
    return f"Recorded {recorded}{lost}.\nbusbw show {path}"


def _operation_count(file: Path) -> int:
    """Returns the number of operations in a trace file. Each record begins with a byte that states its kind."""
    record_bytes = trace_format.RECORD_BYTES
    whole_bytes = (file.stat().st_size - trace_format.HEADER_BYTES) // record_bytes * record_bytes
    if whole_bytes <= 0:
        return 0
    kinds = np.memmap(file, np.uint8, "r", trace_format.HEADER_BYTES, (whole_bytes,))[::record_bytes]
    return int(np.count_nonzero(kinds == trace_format.Kind.OPERATION))
