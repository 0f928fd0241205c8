"""Measures the cost of a call that the fast path delegates to NCCL: writes results/fastpath-forward.md.

Usage: python bench/fastpath_forward.py --build FOLDER

FOLDER is a build with -DBUSBW_BUILD_BENCH=ON and the tests. No GPU is needed. If the build has CUDA's compiler, the
library for GPUs is measured over a fake CUDA and a fake NCCL. Communicators then have a fast path, and delegate calls
that are too large for it.
"""

import argparse
import datetime
import os
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from bench import cpu_name

RESULTS = Path(__file__).parent / "results" / "fastpath-forward.md"
LIMIT_NS = 50.0
"""Target for the added cost of a call."""

PAGE = """\
# Cost of a call that the fast path delegates to NCCL

{date}, {processor}, one of {cores} cores, load {load:.1f}. Written by `bench/fastpath_forward.py`.

The page compares a function of a fake NCCL that does nothing, called directly and through `libbusbw_nccl.so`. The two
ways alternated for 201 rounds of 20,000 calls each. Figures are ns per call: the median, and the quartiles in brackets.
The last column is the added cost by round; the target is less than {limit:.0f} ns.

- `ncclSignal` represents all functions that the fast path does not have. Such a call is a jump.
- `ncclSend` represents operations that the fast path never executes. In a group it records such calls.
- `ncclAllReduce` is a function of the fast path. At 8 GiB no table selects the fast path.
- No GPU is used. A fake CUDA has two devices in the host's memory (`bench/programs/fake_cuda.cpp`), so communicators of
  two ranks have a fast path.

| function | communicator | direct | delegated | added |
| --- | --- | ---: | ---: | ---: |
{rows}
"""


class Call(NamedTuple):
    """One measured call of an NCCL function."""

    situation: str
    """Name of the communicators and the order of calls, as programs/fastpath_forward.cpp defines it."""
    function: str
    description: str
    """Column `communicator` of the table."""
    calls: int = 1
    """Number of calls per measurement."""


CALLS = [
    Call("fast", "ncclSignal", "any"),
    Call("fast", "ncclSend", "any"),
    Call("group", "ncclSend", "any, in a group: three calls", 3),
    Call("one", "ncclAllReduce", "without a fast path (one rank)"),
    Call("fast", "ncclAllReduce", "with a fast path, always the same"),
    Call("turns", "ncclAllReduce", "with a fast path, another than the call before"),
    Call("many", "ncclAllReduce", "sixteen in turns, of eight communicators"),
    Call("group", "ncclAllReduce", "with a fast path, in a group: three calls", 3),
]
FORWARD_ONLY_CALLS = [Call("one", "ncclReduce", "any"), Call("one", "ncclAllReduce", "any; built without CUDA: a jump")]
"""Calls that are measured if the library was built without CUDA and so never has a fast path."""


def require_delegation(program: Path, nccl: Path, library: Path) -> None:
    """Requires a fast path that delegates the call; otherwise the figures would mean something else."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        environment = {**os.environ, "BUSBW_FASTPATH_LOG": str(log)}
        subprocess.run([program, nccl, library, "fast:ncclAllReduce"], check=True, capture_output=True, env=environment)
        text = log.read_text()
    if "is fast" not in text or ": nccl" not in text:
        raise SystemExit(f"communicators have no fast path, or it executes the call itself:\n{text}")


def measure_rows(build: Path) -> list[str]:
    """Measures the calls and returns one table row for each."""
    program = build / "fastpath_forward"
    nccl, library = build / "libpretended_nccl.so", build / "libbusbw_nccl_pretended.so"
    calls = CALLS
    if library.exists():
        require_delegation(program, nccl, library)
    else:
        nccl, library = build / "fastpath/fake_nccl_new/libnccl.so.2", build / "fastpath/libbusbw_nccl_forward.so"
        calls = FORWARD_ONLY_CALLS
    call_arguments = [f"{call.situation}:{call.function}" for call in calls]
    done = subprocess.run([program, nccl, library, *call_arguments], check=True, capture_output=True, text=True)
    table_rows = []
    for call, line in zip(calls, done.stdout.splitlines(), strict=True):
        # After function and situation: lower quartile, median and upper quartile of direct, delegated and added ns.
        figures_ns = [float(word) for word in line.split()[2:]]
        direct, delegated, added = figures_ns[:3], figures_ns[3:6], figures_ns[6:]
        cells = [f"{median:.1f} [{low:.1f}, {high:.1f}]" for low, median, high in (direct, delegated, added)]
        _, added_ns, _ = added
        table_rows.append(f"| `{call.function}` | {call.description} | {' | '.join(cells)} |")
        print(table_rows[-1], "good" if added_ns < LIMIT_NS * call.calls else "over the limit")
    return table_rows


def main() -> None:
    """Measures and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, required=True)
    arguments = parser.parse_args()
    # One processor for the whole measurement, so that the process does not move between caches.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    rows = measure_rows(arguments.build.resolve())
    RESULTS.write_text(
        PAGE.format(
            date=datetime.datetime.now(datetime.timezone.utc).date(),
            processor=cpu_name(),
            cores=os.cpu_count(),
            load=os.getloadavg()[0],
            limit=LIMIT_NS,
            rows="\n".join(rows),
        )
    )


if __name__ == "__main__":
    main()
