"""What a call costs that the fast path hands over: writes results/fastpath-forward.md.

Usage: python bench/fastpath_forward.py --build FOLDER

FOLDER is a build with -DBUSBW_BUILD_BENCH=ON and the tests. The library for GPUs is measured too, if it is built there.
"""

import argparse
import datetime
import os
import platform
import subprocess
from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "fastpath-forward.md"
LIMIT_NS = 50.0
FUNCTIONS = ["ncclReduce", "ncclAllReduce"]

PAGE = """\
# What a call costs that the fast path hands over

{date}, {processor}, {cores} cores, load {load:.1f}. Written by `bench/fastpath_forward.py`.

The same function of a library that stands for NCCL and does nothing, called directly and through `libbusbw_nccl.so`:
201 rounds of 20,000 calls each way, in turns. ns per call: median, and quartiles in brackets. The last column is what a
call costs more, by round; the target is less than {limit:.0f} ns. `ncclReduce` is always a jump to the real function.
`ncclAllReduce` is that too, unless `fastpath/exports/own.txt` named it when the library was built: then it is the fast
path's own, which finds that the communicator has no fast path.

| library | function | direct | handed over | more |
| --- | --- | ---: | ---: | ---: |
{rows}
"""


def processor() -> str:
    """As the kernel names it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def rows(build: Path) -> list[str]:
    """A row for each library and function."""
    real = build / "fastpath" / "fake_nccl_new" / "libnccl.so.2"
    found = []
    for library in (build / "fastpath" / "libbusbw_nccl_forward.so", build / "libbusbw_nccl.so"):
        if not library.exists():
            continue
        command = [build / "fastpath_forward", real, library, *FUNCTIONS]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        for line in done.stdout.splitlines():
            name, *figures = line.split()
            numbers = [float(figure) for figure in figures]
            cells = [f"{b:.1f} [{a:.1f}, {c:.1f}]" for a, b, c in (numbers[:3], numbers[3:6], numbers[6:])]
            found.append(f"| `{library.name}` | `{name}` | {' | '.join(cells)} |")
            print(found[-1], "good" if numbers[7] < LIMIT_NS else "TOO SLOW")
    return found


def main() -> None:
    """Measures and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, required=True)
    measured = rows(parser.parse_args().build.resolve())
    RESULTS.write_text(
        PAGE.format(
            date=datetime.datetime.now(datetime.timezone.utc).date(),
            processor=processor(),
            cores=os.cpu_count(),
            load=os.getloadavg()[0],
            limit=LIMIT_NS,
            rows="\n".join(measured),
        )
    )


if __name__ == "__main__":
    main()
