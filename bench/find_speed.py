"""Measures CPU time and peak memory of `busbw find` for 1,024 nodes on one core. bench/find.py writes them to its page.

Usage: python bench/find_speed.py
"""

import os
import resource
import statistics
import subprocess
import sys
from datetime import datetime, timezone

from busbw.errors import ExitCode

_SEARCH = ["find", "--simulate", "1024x8", "--fault", "nic:3/5:2.0"]
_COMMAND = "import sys; from busbw.cli.entry_point import main; sys.exit(main())"
_RUNS = 3


def speed_sentence() -> str:
    """Runs the search and returns a sentence with the medians of the runs."""
    usages = [_run_search() for _ in range(_RUNS)]
    cpu_s = statistics.median(usage.ru_utime + usage.ru_stime for usage in usages)
    peak_mib = statistics.median(usage.ru_maxrss for usage in usages) / 1024
    return (
        f"`busbw {' '.join(_SEARCH)}` takes {cpu_s:.1f} s of CPU and {peak_mib:.0f} MiB on one core "
        f"(OPENBLAS_NUM_THREADS=1, median of {_RUNS} runs, load {os.getloadavg()[0]:.0f}, "
        f"{datetime.now(timezone.utc):%Y-%m-%d})."
    )


def is_speed_sentence(line: str) -> bool:
    """Returns True for a line that `speed_sentence` has written."""
    return line.startswith(f"`busbw {' '.join(_SEARCH)}` takes")


def _run_search() -> resource.struct_rusage:
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.Popen([sys.executable, "-c", _COMMAND, *_SEARCH], stdout=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != ExitCode.SLOWER_THAN_DEMANDED:  # the search must find the simulated fault
        raise RuntimeError(f"the search ended with exit code {process.returncode} and did not find the fault")
    return usage


if __name__ == "__main__":
    print(speed_sentence())
