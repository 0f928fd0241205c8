#!/usr/bin/env python3
"""Shows if a restructuring changed behavior: compares device code, options, tables and records of two checkouts.

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

FIXED_RUNS = (
    "-t 2 -b 8 -e 64K -f 8 -n 5 -w 1",
    "-t 4 -b 1K -e 3K -i 1K -n 3 -w 1 -z 1 -d all -o all",
    "-t 2 -b 4K -e 4K -n 4 -w 1 -m 2 -u 1 -c 1 -a 2 -I 1",
    "--processes 2 -b 64K -e 64K -n 3 -w 1 -d half -o max -N 2",
)
VARYING_FIELD = re.compile(
    r"(_us|_gbps|_time|_percent|_hz|_mhz|_build|_path|_arrivals_us|_gib)$|^(run_id|args|pid|memory|timestamp|busbw_version|warnings)$"
)
"""Names of record fields with values that differ between two runs. Only the types of these values are compared."""
VARYING_OBJECTS = {"stats", "rank_clocks", "machine"}
"""Record fields with lists or texts that differ between two runs, as above."""


def run(*command: str | Path) -> str:
    """Runs a command and returns its stdout, without stderr, because a busy machine adds warnings there."""
    return subprocess.run([str(argument) for argument in command], check=False, capture_output=True, text=True).stdout


def device_code(checkout: Path, cuobjdump: Path) -> Counter[str]:
    """Returns how often each SASS function body occurs in the engine and the fast path, without symbol names."""
    bodies: Counter[str] = Counter()
    for target in ("busbw_engine.dir", "busbw_nccl.dir"):
        for file in sorted((checkout / "build" / "gpu-compile").rglob(f"{target}/**/*.cu.o")):
            for body in run(cuobjdump, "-sass", file).split("Function : ")[1:]:
                code = re.sub(r"_Z\w+|\$\w+|\.L_\w+", "SYMBOL", body.split("\n", 1)[1])
                bodies[f"{target} {hashlib.sha256(code.encode()).hexdigest()}"] += 1
    return bodies


def command_options(busbw: Path, *command: str) -> Iterator[tuple[str, set[str]]]:
    """Yields `command` and each of its subcommands with the names of its options."""
    title = " ".join(("busbw", *command))
    text = run(busbw, *command, "--help")
    if not text.startswith(f"Usage: {title} "):
        return
    yield title, set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", text))
    for name in re.findall(r"^  ([a-z][\w-]*)  ", text, flags=re.MULTILINE):
        yield from command_options(busbw, *command, name)


def masked_value(key: str, value: object) -> object:
    """Returns a record value in which values that vary from run to run are replaced by the name of their type.

    `key` is the field with the value. It is empty for a whole record.
    """
    if isinstance(value, dict):
        return {name: masked_value(name, member) for name, member in value.items()}
    if VARYING_FIELD.search(key) or key in VARYING_OBJECTS:
        if value is None:
            return None
        return "number" if isinstance(value, int | float) else type(value).__name__
    if isinstance(value, list):
        return [masked_value(key, element) for element in value]
    return value


def masked_table(text: str) -> list[str]:
    """Returns table lines without figures that vary: times, bandwidths, process ids and versions."""
    text = re.sub(r"Pid +\d+|busbw=\S+", "VARIES", text)
    text = re.sub(r"(?<![\w.])\d+\.\d+(e-?\d+)?", "N", text)
    text = re.sub(r" +", " ", text)  # the width of a column depends on its figures
    return [line for line in text.splitlines() if line.strip() and not line.startswith("# Avg bus bandwidth")]


def host_runs(programs: Path) -> Iterator[tuple[str, list[str], list[object]]]:
    """Yields command line, masked table and masked records of each fixed run."""
    for program in sorted(programs.glob("*_perf")):
        for flags in FIXED_RUNS:
            with tempfile.TemporaryDirectory() as folder:
                records = Path(folder) / "records"
                table = run(program, *flags.split(), "--records", records)
                lines = records.read_text().splitlines() if records.exists() else []
            yield f"{program.name} {flags}", masked_table(table), [masked_value("", json.loads(line)) for line in lines]


def report(title: str, compared: int, differences: list[str]) -> bool:
    """Prints the result of one comparison and returns True if nothing differs."""
    print(f"{title}: {compared} compared, {len(differences)} differ")
    print("".join(f"  {line}\n" for line in differences), end="")
    return not differences


def compare_device_code(before: Path, after: Path, cuobjdump: Path) -> bool:
    """Compares the SASS functions of two checkouts, prints the result and returns True if they are equal."""
    old, new = device_code(before, cuobjdump), device_code(after, cuobjdump)
    differences = [f"only before: {name}" for name in old - new] + [f"only after: {name}" for name in new - old]
    if not old and not new:
        differences = ["no device code was found"]
    return report("SASS functions", old.total(), differences)


def compare_help(busbw_before: Path, busbw_after: Path) -> bool:
    """Compares the options of all commands, prints the result and returns True if they are equal."""
    old_options, new_options = dict(command_options(busbw_before)), dict(command_options(busbw_after))
    differences = []
    for command in sorted({*old_options, *new_options}):
        old, new = old_options.get(command, set()), new_options.get(command, set())
        if old != new:
            differences.append(f"{command}: removed {sorted(old - new)}, added {sorted(new - old)}")
    return report("help texts", len(old_options), differences)


def compare_host_runs(programs_before: Path, programs_after: Path) -> bool:
    """Compares tables and records of the fixed runs, prints the results and returns True if they are equal."""
    table_differences, record_differences, run_count = [], [], 0
    for old, new in zip(host_runs(programs_before), host_runs(programs_after), strict=True):
        (command, old_table, old_records), (_, new_table, new_records) = old, new
        run_count += 1
        if old_table != new_table or not old_table:
            table_differences.append(command)
        if old_records != new_records or not old_records:
            record_differences.append(command)
    are_tables_equal = report("tables", run_count, table_differences)
    return report("records", run_count, record_differences) and are_tables_equal


def main() -> int:
    """Runs all comparisons."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--cuobjdump", type=Path, help="disassembler of the CUDA toolkit [default: no device code]")
    arguments = parser.parse_args()
    bin_before, bin_after = (path.resolve() / ".venv" / "bin" for path in (arguments.before, arguments.after))
    results = []
    if arguments.cuobjdump:
        results.append(compare_device_code(arguments.before, arguments.after, arguments.cuobjdump))
    results.append(compare_help(bin_before / "busbw", bin_after / "busbw"))
    results.append(compare_host_runs(bin_before, bin_after))
    return 0 if all(results) else 1


if __name__ == "__main__":
    raise SystemExit(main())
