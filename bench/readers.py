"""Measures the commands that read logs: speed and peak memory for large logs of each kind.

Usage: python bench/readers.py [MEGABYTES] [--kind TEXT] [--task TEXT] [--repeats N] [--tables FILE]

The logs are written to a temporary folder one by one. Each task runs in a process of its own. Its speed is the size of
the log divided by the user CPU time that exceeds the time for a log of one table, which is mostly that of starting.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from reader_logs import LOGS, write_log

from busbw.errors import ExitCode

_COMMAND = "import sys; from busbw.cli.entry_point import main; sys.exit(main())"
_TASKS: dict[str, list[str]] = {
    "readers only": [__file__, "--read", "LOG"],
    "import": ["-c", _COMMAND, "import", "LOG"],
    "show": ["-c", _COMMAND, "show", "LOG"],
    "check": ["-c", _COMMAND, "check", "LOG"],
    "compare": ["-c", _COMMAND, "compare", "LOG", "LOG.2"],
    "export csv": ["-c", _COMMAND, "export", "csv", "LOG"],
    "export prometheus": ["-c", _COMMAND, "export", "prometheus", "LOG"],
    "export junit": ["-c", _COMMAND, "export", "junit", "LOG"],
    "report": ["-c", _COMMAND, "report", "LOG", "-o", "-"],
    "history": ["-c", _COMMAND, "history", "all_reduce", "--store", "STORE"],
}
"""Arguments of Python for each task. LOG is the path of the log, LOG.2 that of a copy, STORE a folder with the log."""
_START_MEGABYTES = 0.005
"""Size of a log of one table."""
_EXIT_CODES = (ExitCode.GOOD, ExitCode.ENVIRONMENT, ExitCode.SLOWER_THAN_DEMANDED)
"""Exit codes of a command that read its log. All logs have right data, and a verdict is GOOD, UNSURE or SLOW."""


class Measurement(NamedTuple):
    """Result of one task on one log."""

    kind: str
    task: str
    speed: float
    """MB per CPU s, without the time to start."""
    peak_mib: float


class _Usage(NamedTuple):
    """Resources that one process used."""

    cpu_s: float
    peak_mib: float


def measure(kind: str, task: str, megabytes: float, folder: Path, repeats: int) -> Measurement:
    """Runs a task on two logs in turns: a large one, and one of a single table."""
    log_count = max(1, sum(argument.startswith("LOG") for argument in _TASKS[task]))
    starts, runs = [], []
    for _ in range(repeats):
        starts.append(_run(task, folder / "small"))
        runs.append(_run(task, folder / "large"))
    cpu_s = statistics.median(run.cpu_s for run in runs) - statistics.median(start.cpu_s for start in starts)
    return Measurement(kind, task, log_count * megabytes / cpu_s, max(run.peak_mib for run in runs))


def _run(task: str, folder: Path) -> _Usage:
    """Runs a task on the log of a folder. Its output is discarded."""
    paths = {"LOG": folder / "log.txt", "LOG.2": folder / "copy" / "log.txt", "STORE": folder}
    arguments = [str(paths.get(argument, argument)) for argument in _TASKS[task]]
    for index in folder.glob(".*"):  # the store's index of the run before
        index.unlink()
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in _EXIT_CODES:
        raise RuntimeError(f"the task {task} on {folder / 'log.txt'} ended with {process.returncode}")
    return _Usage(usage.ru_utime, usage.ru_maxrss / 1024)


def measure_all(kinds: Iterable[str], tasks: list[str], megabytes: float, repeats: int) -> Iterator[Measurement]:
    """Yields the results for each kind of log and each task."""
    for kind in kinds:
        with tempfile.TemporaryDirectory() as folder:
            for name, size in (("small", _START_MEGABYTES), ("large", megabytes)):
                log = Path(folder) / name / "log.txt"
                copy = log.parent / "copy" / log.name
                copy.parent.mkdir(parents=True)
                write_log(log, kind, size)
                copy.hardlink_to(log)
            for task in tasks:
                yield measure(kind, task, log.stat().st_size / 1e6, Path(folder), repeats)


def read_log(path: Path) -> None:
    """Reads one log through the public interface, without keeping rows."""
    from busbw import readers

    for _ in readers.stream(path):
        pass


def tables_text(measurements: list[Measurement]) -> str:
    """Returns two tables with one row per kind of log and one column per task: speeds, and peaks of memory."""
    return "\n".join(
        (
            _table_text("MB per CPU s", measurements, lambda measurement: f"{measurement.speed:.1f}"),
            _table_text("peak MiB", measurements, lambda measurement: f"{measurement.peak_mib:.0f}"),
        )
    )


def _table_text(title: str, measurements: list[Measurement], cell_text: Callable[[Measurement], str]) -> str:
    tasks = list(dict.fromkeys(measurement.task for measurement in measurements))
    cells: dict[str, list[str]] = {}
    for measurement in measurements:
        cells.setdefault(measurement.kind, []).append(cell_text(measurement))
    lines = [[title, *tasks], ["---", *("---:" for _ in tasks)], *([kind, *row] for kind, row in cells.items())]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main() -> None:
    """Measures all selected tasks and prints each result."""
    parser = argparse.ArgumentParser(description="Measures readers and commands on large logs.")
    parser.add_argument("megabytes", nargs="?", type=float, default=10, help="size of each log [default: 10]")
    parser.add_argument("--kind", action="append", choices=list(LOGS), help="kind of log; repeatable [default: all]")
    parser.add_argument("--task", action="append", choices=list(_TASKS), help="task; repeatable [default: all]")
    parser.add_argument("--repeats", type=int, default=3, help="runs, of which the median counts [default: 3]")
    parser.add_argument("--tables", type=Path, help="file for the tables, which are printed too")
    options = parser.parse_args()
    measurements = []
    selected = options.kind or LOGS, options.task or list(_TASKS), options.megabytes, options.repeats
    for measurement in measure_all(*selected):
        print(f"{measurement.kind}, {measurement.task}: {measurement.speed:.1f}", file=sys.stderr, flush=True)
        measurements.append(measurement)
    print(tables_text(measurements))
    if options.tables:
        options.tables.write_text(tables_text(measurements))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--read"]:
        read_log(Path(sys.argv[2]))
    else:
        main()
