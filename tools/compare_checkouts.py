#!/usr/bin/env python3
"""Shows that a restructuring changed no behavior: compares two checkouts by device code, options, tables and records.

Usage: tools/compare_checkouts.py BEFORE AFTER [--cuobjdump FILE]

Both are checkouts in which `make run` has run, and for the device code `cmake --build --preset gpu-compile`.
- Device code: the multiset of SASS function bodies must be equal; symbol names may differ.
- Help: each command must have the same options; the wording may differ, and added options are listed.
- Tables and records of fixed host runs must be equal, except times and identities of the run.
Prints one line per comparison and every difference. Exits 1 if there is one.
"""

import argparse
import hashlib
import json
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

PROGRAMS = (
    *("all_gather", "all_reduce", "alltoall", "alltoallv", "broadcast", "gather"),
    *("hypercube", "reduce", "reduce_scatter", "scatter", "sendrecv"),
)
RUNS = (
    "-t 2 -b 8 -e 64K -f 8 -n 5 -w 1",
    "-t 4 -b 1K -e 3K -i 1K -n 3 -w 1 -z 1 -d all -o all",
    "-t 2 -b 4K -e 4K -n 4 -w 1 -m 2 -u 1 -c 1 -a 2 -I 1",
    "--processes 2 -b 64K -e 64K -n 3 -w 1 -d half -o max -N 2",
)
VARIES = re.compile(
    r"(_us|_gbps|_time|_percent|_hz|_mhz|_build|_path|_arrivals_us|_gib)$|^(run_id|args|pid|memory|timestamp|busbw_version|warnings)$"
)
"""Record fields that differ between two runs of the same program."""


def run(*command: str | Path) -> str:
    """Returns stdout; stderr stays out because a busy machine adds warnings."""
    return subprocess.run([str(word) for word in command], check=False, capture_output=True, text=True).stdout


def device_code(checkout: Path, cuobjdump: Path) -> Counter[str]:
    """Returns how often each SASS function body occurs in the product's CUDA objects, without symbol names."""
    bodies: Counter[str] = Counter()
    for target in ("busbw_engine.dir", "busbw_nccl.dir"):
        for file in sorted((checkout / "build" / "gpu-compile").rglob(f"{target}/**/*.cu.o")):
            for body in run(cuobjdump, "-sass", file).split("Function : ")[1:]:
                code = re.sub(r"_Z\w+|\$\w+|\.L_\w+", "SYMBOL", body.split("\n", 1)[1])
                bodies[f"{target} {hashlib.sha256(code.encode()).hexdigest()}"] += 1
    return bodies


def helps(busbw: Path, *command: str) -> Iterator[tuple[str, set[str]]]:
    """Yields each command from `command` down with the names of its options."""
    title = " ".join(("busbw", *command))
    text = run(busbw, *command, "--help")
    if not text.startswith(f"Usage: {title} "):
        return
    yield title, set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", text))
    for name in re.findall(r"^  ([a-z][\w-]*)  ", text, flags=re.MULTILINE):
        yield from helps(busbw, *command, name)


def masked_value(key: str, value: object) -> object:
    """Returns a record value with everything that varies from run to run replaced by its type."""
    if isinstance(value, dict):
        return {name: masked_value(name, inner) for name, inner in value.items()}
    if VARIES.search(key) or key in {"stats", "rank_clocks", "machine"}:
        return "number" if isinstance(value, int | float) else type(value).__name__ if value is not None else None
    return [masked_value(key, inner) for inner in value] if isinstance(value, list) else value


def masked_table(text: str) -> list[str]:
    """Returns table lines without figures that vary: times, bandwidths, process ids and versions."""
    lines = re.sub(r"Pid +\d+|busbw=\S+", "VARIES", text).splitlines()
    lines = [re.sub(r"(?<![\w.])\d+\.\d+(e-?\d+)?", "N", line) for line in lines]
    return [re.sub(r" +", " ", line) for line in lines if line.strip() and not line.startswith("# Avg bus bandwidth")]


def host_runs(programs: Path) -> Iterator[tuple[str, list[str], list[object]]]:
    """Yields command line, masked table and masked records of each fixed run."""
    for program in PROGRAMS:
        for flags in RUNS:
            with tempfile.TemporaryDirectory() as folder:
                records = Path(folder) / "records"
                table = run(programs / f"{program}_perf", *flags.split(), "--records", records)
                lines = records.read_text().splitlines() if records.exists() else []
            yield f"{program}_perf {flags}", masked_table(table), [masked_value("", json.loads(line)) for line in lines]


def report(title: str, compared: int, differences: list[str]) -> bool:
    """Prints the result of one comparison and returns True if nothing differs."""
    print(f"{title}: {compared} compared, {len(differences)} differ")
    print("".join(f"  {line}\n" for line in differences), end="")
    return not differences


def main() -> int:
    """Runs all comparisons."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--cuobjdump", type=Path, help="disassembler of the CUDA toolkit [default: no device code]")
    given = parser.parse_args()
    equal = True
    if given.cuobjdump:
        old, new = (device_code(path, given.cuobjdump) for path in (given.before, given.after))
        changed = [
            f"only {side}: {name}" for side, rest in (("before", old - new), ("after", new - old)) for name in rest
        ]
        equal &= report("SASS functions", old.total(), changed or ([] if old else ["no device code was found"]))
    bins = [path.resolve() / ".venv" / "bin" for path in (given.before, given.after)]
    old_help, new_help = (dict(helps(path / "busbw")) for path in bins)
    changed = []
    for command in sorted({*old_help, *new_help}):
        old_options, options = old_help.get(command, set()), new_help.get(command, set())
        if old_options != options:
            changed.append(f"{command}: removed {sorted(old_options - options)}, added {sorted(options - old_options)}")
    equal &= report("help texts", len(old_help), changed)
    pairs = list(zip(host_runs(bins[0]), host_runs(bins[1]), strict=True))
    equal &= report("tables", len(pairs), [old[0] for old, new in pairs if old[1] != new[1] or not old[1]])
    equal &= report("records", len(pairs), [old[0] for old, new in pairs if old[2] != new[2] or not old[2]])
    return 0 if equal else 1


if __name__ == "__main__":
    raise SystemExit(main())
