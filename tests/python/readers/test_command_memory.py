"""Commands read logs of any length in bounded memory. Each runs in a process of its own, on a short and a long log."""

import subprocess
import sys
from pathlib import Path

import pytest
from sample_logs import h200_run

MEASURE = r"""
import re, sys
from pathlib import Path
from busbw.cli.main import main
from busbw.readers.tables import collection
import busbw.logs.sequences
collection.collect.__defaults__ = (1000,)  # rows and tables in memory
busbw.logs.sequences._EXTENT_ITEMS = 20
code = main(sys.argv[1:])
# Unlike ru_maxrss, this peak does not include that of the parent process.
print(code, *re.findall(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text()), file=sys.stderr)
"""


def peak_mib(*arguments: str) -> float:
    done = subprocess.run([sys.executable, "-c", MEASURE, *arguments], capture_output=True, text=True, check=True)
    code, peak_kib = done.stderr.split()[-2:]
    assert code == "0", done.stderr
    return int(peak_kib) / 1024


@pytest.mark.parametrize(
    "command",
    [
        ["check", "LOG"],
        ["check", "LOG", "--json"],
        ["check", "LOG", "--reference", "LOG"],
        ["compare", "LOG", "LOG"],
        ["show", "LOG"],
        ["import", "LOG"],
        ["export", "csv", "LOG"],
        ["export", "junit", "LOG", "--redact"],
    ],
    ids=" ".join,
)
def test_memory_does_not_grow_with_the_log(command: list[str], tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    peaks_mib = []
    for run_count in (100, 700):
        log.write_text(h200_run() * run_count)
        peaks_mib.append(peak_mib(*(str(log) if word == "LOG" else word for word in command)))
    # The 9,600 rows more take 12 MiB in memory.
    assert peaks_mib[1] - peaks_mib[0] < 5
