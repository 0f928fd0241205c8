"""What a call costs that the fast path hands over: writes results/fastpath-forward.md.

Usage: python bench/fastpath_forward.py --build FOLDER

FOLDER is a build with -DBUSBW_BUILD_BENCH=ON and the tests. No GPU is needed. Where it was built with CUDA's compiler,
the library for GPUs is measured, over a CUDA and a NCCL that are pretended: communicators have a fast path then, and
hand over what is too large for it.
"""

import argparse
import datetime
import os
import platform
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

RESULTS = Path(__file__).parent / "results" / "fastpath-forward.md"
LIMIT_NS = 50.0

PAGE = """\
# Cost of a call that the fast path delegates to NCCL

{date}, {processor}, one of {cores} cores, load {load:.1f}. Written by `bench/fastpath_forward.py`.

The page compares a function of a fake NCCL that does nothing, called directly and through
`libbusbw_nccl.so`. Both ran 201 rounds of 20,000 calls in turns. Figures are ns per call: the median, and the quartiles
in brackets. The last column is the added cost by round; the target is less than {limit:.0f} ns.

- `ncclSignal` stands for all functions that the fast path does not have. Such a call is a jump.
- `ncclSend` stands for operations that the fast path never does. In a group it records them.
- `ncclAllReduce` has 8 GiB, which no table gives to the fast path.
- There is no GPU. A fake CUDA has two devices in the host's memory (`bench/programs/fake_cuda.cpp`). With it
  communicators of two ranks have a fast path.

| function | communicator | direct | delegated | added |
| --- | --- | ---: | ---: | ---: |
{rows}
"""


class Call(NamedTuple):
    """What is called, and on what."""

    situation: str
    function: str
    words: str
    calls: int = 1
    """How many at a time."""


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
ALONE = [Call("one", "ncclReduce", "any"), Call("one", "ncclAllReduce", "any; built without CUDA: a jump")]
"""Of the library that has nothing of its own."""


def processor() -> str:
    """As the kernel names it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def check_that_it_is_fast(program: Path, real: Path, library: Path) -> None:
    """Whether there is a fast path, and the call is handed over; else other things would be measured."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        environment = {**os.environ, "BUSBW_FASTPATH_LOG": str(log)}
        subprocess.run([program, real, library, "fast:ncclAllReduce"], check=True, capture_output=True, env=environment)
        text = log.read_text()
    if "is fast" not in text or ": nccl" not in text:
        raise SystemExit(f"communicators have no fast path, or it does the call itself:\n{text}")


def rows(build: Path) -> list[str]:
    """A row for each call."""
    program = build / "fastpath_forward"
    real, library = build / "libpretended_nccl.so", build / "libbusbw_nccl_pretended.so"
    calls = CALLS
    if library.exists():
        check_that_it_is_fast(program, real, library)
    else:
        real, library = build / "fastpath/fake_nccl_new/libnccl.so.2", build / "fastpath/libbusbw_nccl_forward.so"
        calls = ALONE
    words = [f"{call.situation}:{call.function}" for call in calls]
    done = subprocess.run([program, real, library, *words], check=True, capture_output=True, text=True)
    found = []
    for call, line in zip(calls, done.stdout.splitlines(), strict=True):
        numbers = [float(figure) for figure in line.split()[2:]]
        cells = [f"{b:.1f} [{a:.1f}, {c:.1f}]" for a, b, c in (numbers[:3], numbers[3:6], numbers[6:])]
        found.append(f"| `{call.function}` | {call.words} | {' | '.join(cells)} |")
        print(found[-1], "good" if numbers[7] < LIMIT_NS * call.calls else "over the limit")
    return found


def main() -> None:
    """Measures and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, required=True)
    asked = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    measured = rows(asked.build.resolve())
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
