"""Measures the errors of `busbw ab`: false alarms for equal sides, misses for a side that is 5 % slower.

Each run is a complete A/B measurement on the host backend. In a null run both sides are equal. In a slower run side B
is 5 % slower, because bench/programs/slower.c lengthens every measured time. The two kinds of runs alternate. Each run
appends one line to the results in build/bench-results/, so an interrupted measurement can be resumed. A point is a size
with a placement; a quadruple is four interleaved blocks (docs/explanation/comparison.md). The summary goes to
bench/results/:

    BUSBW_PROGRAMS=build/dev python bench/ab_false_alarms.py --runs 200
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import msgspec
from msgspec import Struct
from scipy.stats import binomtest

from busbw import engine
from busbw.ab import Measurement, Session, SessionRules, parse_side
from busbw.compare import ChangeVerdict
from busbw.units import size_text

HERE = Path(__file__).parent
RESULTS = HERE.parent / "build" / "bench-results" / "ab_false_alarms.jsonl"
SUMMARY = HERE / "results" / "ab_false_alarms.md"
FLAGS = ("-t", "2", "--sizes", "64K,256K,512K,1M", "-n", "10", "-w", "2")
SLOWER_BY = 0.05
"""Slowdown of side B in a slower run, as a fraction of its time."""
SOUGHT_BYTES = 1 << 20
"""Size at which the slowdown must be found. Smaller sizes need not show it."""
KINDS = ("null", "slower")


class Outcome(Struct, kw_only=True, frozen=True):
    """One A/B measurement."""

    kind: str
    flags: list[str]
    at: str
    """End of the measurement, ISO 8601 in UTC."""
    seconds: float
    quadruples: int
    load_average: float
    changed: list[str]
    """Points with the verdict changed: '1 MiB in_place SLOWER 0.952'."""
    is_found: bool
    """True if the verdict of 1 MiB was SLOWER in either placement."""


def main() -> int:
    """Measures the missing runs and writes the summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200, help="runs of each kind (default 200)")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--summary", type=Path, default=SUMMARY)
    arguments = parser.parse_args()
    arguments.results.parent.mkdir(parents=True, exist_ok=True)
    stored = list(read_outcomes(arguments.results))
    counts = {kind: sum(outcome.kind == kind for outcome in stored) for kind in KINDS}
    with tempfile.TemporaryDirectory() as folder:
        library = compile_slower_library(Path(folder))
        while min(counts.values()) < arguments.runs:
            kind = min(KINDS, key=lambda name: counts[name])
            outcome = measure(kind, library, Path(folder) / f"{kind}-{counts[kind]}")
            counts[kind] += 1
            with arguments.results.open("ab") as results:
                results.write(msgspec.json.encode(outcome) + b"\n")
            print(
                f"{kind} {counts[kind]}/{arguments.runs}: {outcome.quadruples} quadruples, {outcome.seconds:.1f} s, "
                f"{'; '.join(outcome.changed) or 'no change'}",
                file=sys.stderr,
            )
    text = summary(list(read_outcomes(arguments.results)))
    arguments.summary.write_text(text)
    print(text)
    return 0


def read_outcomes(path: Path) -> Iterator[Outcome]:
    """Yields the stored outcomes with the current flags."""
    if path.exists():
        for line in path.read_bytes().splitlines():
            outcome = msgspec.json.decode(line, type=Outcome)
            if tuple(outcome.flags) == FLAGS:
                yield outcome


def compile_slower_library(folder: Path) -> Path:
    """Compiles the library that slows a side down."""
    library = folder / "slower.so"
    source = HERE / "programs" / "slower.c"
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


def measure(kind: str, library: Path, folder: Path) -> Outcome:
    """Runs one A/B measurement and deletes the records of its blocks."""
    folder.mkdir()
    preload = f"--preload {library}"
    # Both sides load the library, so that only SLOWER_BY differs.
    sides = (preload, f"{preload} SLOWER_BY={SLOWER_BY if kind == 'slower' else 0}")
    start_s = time.monotonic()
    session = Session(
        Measurement(engine.program("all_reduce_perf"), FLAGS, folder),
        (parse_side("--a", sides[0]), parse_side("--b", sides[1])),
        SessionRules(resolution=SLOWER_BY),
    )
    comparison = session.run()
    if session.state.exit_code:
        raise SystemExit(session.state.exit_code)
    for record in folder.iterdir():
        record.unlink()
    slower_bytes = [change.point.size_bytes for change in comparison.changed if change.verdict is ChangeVerdict.SLOWER]
    return Outcome(
        kind=kind,
        flags=list(FLAGS),
        at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - start_s, 2),
        quadruples=len(session.state.quadruples),
        load_average=round(os.getloadavg()[0], 2),
        changed=[
            f"{size_text(change.point.size_bytes)} {change.point.placement} {change.verdict.value} {change.speedup:.3f}"
            for change in comparison.changed
        ],
        is_found=SOUGHT_BYTES in slower_bytes,
    )


def summary(outcomes: list[Outcome]) -> str:
    """Returns the results as a table for the documentation."""
    times = [outcome.at for outcome in outcomes]
    loads = [outcome.load_average for outcome in outcomes]  # other load makes the verdicts harder
    lines = [
        "# False alarms and misses of `busbw ab`",
        "",
        f"`all_reduce_perf {' '.join(FLAGS)}`, {os.cpu_count()} processors, "
        f"{min(times, default='never')} to {max(times, default='never')}; "
        f"load average while measuring {min(loads, default='unknown')} to {max(loads, default='unknown')}.",
        "",
        "| | runs | reported | fraction | 95 % interval | quadruples, median | seconds per run, median and maximum |",
        "| --- | ---: | ---: | ---: | --- | ---: | ---: |",
    ]
    for kind, title in (
        ("null", "any change reported, both sides the same"),
        ("slower", f"1 MiB SLOWER, side B slower by {SLOWER_BY:.0%}"),
    ):
        of_kind = [outcome for outcome in outcomes if outcome.kind == kind]
        if not of_kind:
            continue
        reported = sum(bool(outcome.changed) if kind == "null" else outcome.is_found for outcome in of_kind)
        low, high = binomtest(reported, len(of_kind)).proportion_ci(0.95)
        seconds = sorted(outcome.seconds for outcome in of_kind)
        quadruples = sorted(outcome.quadruples for outcome in of_kind)
        lines.append(
            f"| {title} | {len(of_kind)} | {reported} | {reported / len(of_kind):.1%} | {low:.1%} to {high:.1%} "
            f"| {quadruples[len(quadruples) // 2]} | {seconds[len(seconds) // 2]:.1f}, {seconds[-1]:.1f} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
