"""Measures the readers, and the commands that read logs: speed and peak memory for large logs of each kind.

Usage: python bench/readers.py [MEGABYTES] [--kind TEXT] [--task TEXT] [--page FILE]

The logs are written to a temporary folder one by one. Each task runs in a process of its own.
"""

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from reader_logs import LOGS, write_log

_COMMAND = "import sys; from busbw.cli.entry_point import main; sys.exit(main())"
_TASKS: dict[str, list[str]] = {
    "readers only": [__file__, "--read", "LOG"],
    "check": ["-c", _COMMAND, "check", "LOG"],
    "show": ["-c", _COMMAND, "show", "LOG"],
    "export csv": ["-c", _COMMAND, "export", "csv", "LOG"],
    "report": ["-c", _COMMAND, "report", "LOG", "-o", "-"],
    "import": ["-c", _COMMAND, "import", "LOG"],
    "compare": ["-c", _COMMAND, "compare", "LOG", "LOG.2"],
}
"""Arguments of Python for each task. LOG is the path of the log, LOG.2 that of a copy."""


class Measurement(NamedTuple):
    """Result of one task on one log."""

    kind: str
    task: str
    megabytes: float
    """Size of the log, or of both logs of a comparison."""
    wall_s: float
    cpu_s: float
    peak_mib: float
    exit_code: int

    @property
    def row(self) -> str:
        """Row of the page's table."""
        speed = f"{self.megabytes / self.cpu_s:.1f}" if self.exit_code >= 0 else "ended by a signal"
        return (
            f"| {self.kind} | {self.task} | {self.megabytes:.0f} | {self.wall_s:.0f} | {self.cpu_s:.1f} | {speed} | "
            f"{self.peak_mib:.0f} |"
        )


_TABLE_HEAD = """| log | task | MB | wall s | CPU s | MB per CPU s | peak MiB |
| --- | --- | ---: | ---: | ---: | ---: | ---: |"""


def measure(kind: str, task: str, path: Path) -> Measurement:
    """Runs a task. Its output is discarded."""
    paths = {"LOG": str(path), "LOG.2": str(path.with_suffix(".2"))}
    arguments = [paths.get(argument, argument) for argument in _TASKS[task]]
    megabytes = path.stat().st_size / 1e6 * sum(argument in paths for argument in _TASKS[task])
    start_s = time.perf_counter()
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Measurement(
        kind=kind,
        task=task,
        megabytes=megabytes,
        wall_s=time.perf_counter() - start_s,
        cpu_s=usage.ru_utime + usage.ru_stime,
        peak_mib=usage.ru_maxrss / 1024,
        exit_code=process.returncode,
    )


def measure_all(kinds: list[str], tasks: list[str], megabytes: float) -> Iterator[Measurement]:
    """Yields the results for each kind of log and each task."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.txt"
        for kind in kinds:
            write_log(path, kind, megabytes)
            path.with_suffix(".2").unlink(missing_ok=True)
            path.with_suffix(".2").hardlink_to(path)
            for task in tasks:
                yield measure(kind, task, path)


def read_log(path: Path) -> None:
    """Reads one log through the public interface, without keeping rows."""
    from busbw import readers

    for _ in readers.stream(path):
        pass


def page(measurements: list[Measurement]) -> str:
    """Returns the page with the results."""
    return f"""# Reading large logs

`python bench/readers.py` measured this with CPython {platform.python_version()} on {os.cpu_count()} processors,
which other work shared. Speed therefore counts CPU time. The peak includes the interpreter with its modules.

{_TABLE_HEAD}
""" + "".join(f"{measurement.row}\n" for measurement in measurements)


def main() -> None:
    """Measures all selected tasks and prints each result."""
    parser = argparse.ArgumentParser(description="Measures readers and commands on large logs.")
    parser.add_argument("megabytes", nargs="?", type=float, default=300, help="size of each log [default: 300]")
    parser.add_argument("--kind", action="append", choices=list(LOGS), help="kind of log; repeatable [default: all]")
    parser.add_argument("--task", action="append", choices=list(_TASKS), help="task; repeatable [default: all]")
    parser.add_argument("--page", type=Path, help="file for the results, such as bench/results/readers.md")
    options = parser.parse_args()
    measurements = []
    print(_TABLE_HEAD)
    for measurement in measure_all(options.kind or list(LOGS), options.task or list(_TASKS), options.megabytes):
        print(measurement.row, flush=True)
        measurements.append(measurement)
    if options.page:
        options.page.write_text(page(measurements))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--read"]:
        read_log(Path(sys.argv[2]))
    else:
        main()
