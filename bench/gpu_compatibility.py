"""Compares tables, JSON files and flags of nccl-tests and busbw. Writes a Markdown page; times are not compared.

    python bench/gpu_compatibility.py --programs .venv/bin --nccl-tests FOLDER --ranks "-g 2" \
        --results build/bench-results/compatibility

    NCCL_MULTI_RANK_GPU_ENABLE=1 NCCL_TESTS_DEVICE=0 python bench/gpu_compatibility.py --programs .venv/bin \
        --nccl-tests FOLDER --suffix _mpi --mpirun "mpirun -np 4" --results build/bench-results/compatibility

Both programs run with the same flags, once each: every collective, and if nccl-tests has -H, the one-sided collectives.
The flags of comm_ops_perf and the forms of its SUMMARY lines are compared if nccl-tests has this program. The exit code
is 1 if busbw lacks something that nccl-tests has, or if rows differ.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gpu_programs import RunError, environment, nccl_settings, run

from busbw.collectives import COLLECTIVES

NCCL_TESTS_COLLECTIVES = [name for name in COLLECTIVES if name != "alltoallv"]
PARTS = ("flags", "collectives", "one_sided", "comm_ops")
ONE_SIDED = ["all_gather", "alltoall", "broadcast", "gather", "scatter", "sendrecv"]
COMM_OPS_TESTS = ["init", "split", "shrink", "grow"]
SWEEP = ["-b", "1K", "-e", "16M", "-f", "128", "-n", "5", "-w", "1", "-c", "1"]
ONE_SIDED_FLAGS = ["-R", "2", "-H", "1"]
EXIT_DIFFERENT = 1
RUN_TIMEOUT_S = 180.0

_FLAG = re.compile(r"-(\w),\s*--([\w-]+)")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


@dataclass(frozen=True)
class Programs:
    """Programs of one side, and the words before and after the program in its command line."""

    side: str
    """busbw or nccl-tests."""
    folder: Path
    suffix: str = ""
    mpirun: tuple[str, ...] = ()
    ranks: tuple[str, ...] = ()

    def path(self, name: str) -> Path:
        """Returns the program's file. It may be absent."""
        return self.folder / f"{name}_perf{self.suffix}"

    def help(self, name: str) -> str:
        """Returns the help of a program, which some programs write to stderr."""
        done = subprocess.run([self.path(name), "--help"], capture_output=True, text=True, timeout=60, check=False)
        return done.stdout + done.stderr

    def run(self, name: str, flags: Iterable[str]) -> str:
        """Runs a program to its end and returns its stdout. Raises RunError, with the side, if it fails."""
        try:
            return run([*self.mpirun, str(self.path(name)), *self.ranks, *flags], RUN_TIMEOUT_S)
        except RunError as error:
            raise RunError(f"{self.side}: {error}") from error

    def run_with_document(self, name: str, flags: Iterable[str]) -> tuple[str, Any]:
        """Runs a program with -J. Returns stdout and the JSON file. Raises RunError as `run`, or without the file."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "document.json"
            text = self.run(name, [*flags, "-J", str(path)])
            try:
                return text, json.loads(path.read_text())
            except (OSError, ValueError) as error:
                raise RunError(f"{self.side}: its JSON file cannot be read: {error}") from error


@dataclass
class Comparison:
    """Result of one comparison. Texts for the page."""

    name: str
    missing: list[str] = field(default_factory=list)
    """Differences that make the result unequal: what nccl-tests has and busbw lacks, and rows that differ."""
    additional: list[str] = field(default_factory=list)
    """Additions of busbw."""
    failures: list[str] = field(default_factory=list)

    @property
    def is_equal(self) -> bool:
        """True if both sides ran, and busbw has all that nccl-tests has."""
        return not self.missing and not self.failures

    @property
    def result(self) -> str:
        """Cell of the page's table."""
        if self.failures:
            return "not compared: " + "; ".join(self.failures)
        parts = ["different: " + ", ".join(self.missing)] if self.missing else ["equal"]
        if self.additional:
            parts.append("only busbw: " + ", ".join(f"`{entry}`" for entry in self.additional))
        return "; ".join(parts)


def flags_in(help_text: str) -> dict[str, str]:
    """Returns the long names of flags by their short ones, from a help in the form of either side."""
    return {f"-{short}": f"--{long}" for short, long in _FLAG.findall(help_text) if short != "h"}


def compare_flags(name: str, theirs: str, ours: str) -> Comparison:
    """Compares the flags of two help texts."""
    their_flags, our_flags = flags_in(theirs), flags_in(ours)
    failures = [
        f"the help of {side} has no flags"
        for side, found in (("nccl-tests", their_flags), ("busbw", our_flags))
        if not found
    ]
    return Comparison(
        f"flags of {name}",
        [f"{short}, {long}" for short, long in their_flags.items() if our_flags.get(short) != long],
        [short for short in our_flags if short not in their_flags],
        failures,
    )


def column_lines(text: str) -> list[list[str]]:
    """Returns the words of the lines that name the columns of a table."""
    lines = [line.lstrip("#").split() for line in text.splitlines() if line.startswith("#")]
    return [words for words in lines if {"out-of-place", "algbw", "(GB/s)"} & set(words)]


def table_rows(text: str) -> list[list[str]]:
    """Returns the columns of each row without times and bandwidths: size, count, type, redop, root, #wrong twice."""
    rows = []
    for line in text.splitlines():
        words = line.split()
        if words and words[0].isdigit() and len(words) in (12, 13):  # 12 with a blank redop, as hypercube
            # The last eight words are time, algbw, busbw and #wrong out of place, and the same in place.
            rows.append([*words[:-8], words[-5], words[-1]])
    return rows


def compare_tables(name: str, theirs: str, ours: str) -> Comparison:
    """Compares column lines and rows of two tables, without times and bandwidths."""
    comparison = Comparison(f"table of {name}")
    if column_lines(theirs) != column_lines(ours):
        comparison.missing.append("the lines that name the columns")
    their_rows, our_rows = table_rows(theirs), table_rows(ours)
    if not their_rows:
        comparison.failures.append("nccl-tests printed no rows")
    if len(their_rows) != len(our_rows):
        comparison.missing.append(f"{len(their_rows)} rows against {len(our_rows)}")
    for their_row, our_row in zip(their_rows, our_rows, strict=False):
        if their_row != our_row:
            comparison.missing.append(f"row `{' '.join(their_row)}` against `{' '.join(our_row)}`")
    return comparison


def key_paths(value: Any, path: str = "") -> set[str]:
    """Returns the paths of all keys in a document: {"config.devices[].rank", ...}."""
    paths = {path} if path else set()
    if isinstance(value, dict):
        for name, entry in value.items():
            paths |= key_paths(entry, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for entry in value:
            if isinstance(entry, (dict, list)):
                paths |= key_paths(entry, f"{path}[]")
    return paths


def compare_documents(name: str, theirs: Any, ours: Any) -> Comparison:
    """Compares the keys of two JSON files. If a key is missing, the keys below it are not listed."""
    their_keys, our_keys = key_paths(theirs), key_paths(ours)
    return Comparison(f"JSON of {name}", topmost_keys(their_keys - our_keys), topmost_keys(our_keys - their_keys))


def topmost_keys(keys: set[str]) -> list[str]:
    """Returns the keys without those below another key, sorted: only "a" of "a", "a.b" and "a[].c"."""
    return sorted(key for key in keys if not any(key.startswith((f"{other}.", f"{other}[]")) for other in keys))


def summary_forms(text: str) -> list[str]:
    """Returns the different SUMMARY lines of comm_ops_perf, with N for each number."""
    return sorted({_NUMBER.sub("N", " ".join(line.split())) for line in text.splitlines() if "SUMMARY" in line.upper()})


def compare_summaries(name: str, theirs: str, ours: str) -> Comparison:
    """Compares the forms of the SUMMARY lines."""
    their_forms, our_forms = summary_forms(theirs), summary_forms(ours)
    return Comparison(
        f"SUMMARY lines of {name}",
        [f"`{form}`" for form in their_forms if form not in our_forms],
        [form for form in our_forms if form not in their_forms],
        [] if their_forms else ["nccl-tests printed no SUMMARY line"],
    )


def compare_collective(theirs: Programs, ours: Programs, collective: str, flags: list[str]) -> list[Comparison]:
    """Runs one collective on both sides, and compares table and JSON file."""
    name = " ".join([f"{collective}_perf", *flags])
    try:
        their_text, their_document = theirs.run_with_document(collective, [*SWEEP, *flags])
        our_text, our_document = ours.run_with_document(collective, [*SWEEP, *flags])
    except RunError as error:
        return [Comparison(name, failures=[str(error)])]
    return [compare_tables(name, their_text, our_text), compare_documents(name, their_document, our_document)]


def compare_comm_ops(theirs: Programs, ours: Programs) -> list[Comparison]:
    """Compares flags and SUMMARY lines of comm_ops_perf."""
    comparisons = [compare_flags("comm_ops_perf", theirs.help("comm_ops"), ours.help("comm_ops"))]
    for test in COMM_OPS_TESTS:
        name, flags = f"comm_ops_perf {test}", [test, "-s", "fixed", "-i", "2"]
        try:
            # Only MPI starts the ranks of nccl-tests' program.
            their_text = replace(theirs, ranks=()).run("comm_ops", flags)
            comparisons.append(compare_summaries(name, their_text, ours.run("comm_ops", flags)))
        except RunError as error:
            comparisons.append(Comparison(name, failures=[str(error)]))
    return comparisons


def compare_all(
    theirs: Programs, ours: Programs, collectives: list[str], parts: list[str], absent: list[str]
) -> Iterator[Comparison]:
    """Yields all comparisons. Adds sentences about parts that nccl-tests lacks to `absent`."""
    their_help = theirs.help(collectives[0])
    if "flags" in parts:
        yield compare_flags(f"{collectives[0]}_perf", their_help, ours.help(collectives[0]))
    runs: list[tuple[str, list[str]]] = [(name, []) for name in collectives if "collectives" in parts]
    if "-H" not in flags_in(their_help):
        absent.append("This nccl-tests has no -H.")
    elif "one_sided" in parts:
        runs += [(name, ONE_SIDED_FLAGS) for name in ONE_SIDED if name in collectives]
    for collective, flags in runs:
        yield from compare_collective(theirs, ours, collective, flags)
    if not theirs.path("comm_ops").exists():
        absent.append("This nccl-tests has no comm_ops_perf.")
    elif "comm_ops" in parts:
        yield from compare_comm_ops(theirs, ours)


def as_page(
    arguments: argparse.Namespace, comparisons: list[Comparison], versions: list[str], absent: list[str]
) -> str:
    """Returns the page with all results."""
    command = shlex.join([*shlex.split(arguments.mpirun), "COLLECTIVE_perf", *shlex.split(arguments.ranks), *SWEEP])
    lines = [
        f"# Output of nccl-tests and busbw: {', '.join([*versions, *nccl_settings(environment())])}",
        "",
        f"`bench/gpu_compatibility.py` ran `{command} -J FILE` with both, once each. "
        + " ".join(["Times are not compared.", *absent]),
        "",
        "| compared | result |",
        "| --- | --- |",
        *(f"| `{comparison.name}` | {comparison.result} |" for comparison in comparisons),
    ]
    return "\n".join(lines) + "\n"


def version_line(programs: Programs, collective: str) -> str:
    """Returns the line in which a program states its version, without '#'. Empty if it has none or fails."""
    try:
        text = programs.run(collective, ["-b", "8", "-e", "8", "-n", "1"])
    except RunError:
        return ""
    lines = [line for line in text.splitlines() if line.startswith("# nccl-tests version")]
    return " ".join(lines[0].lstrip("# ").split()) if lines else ""


def main() -> int:
    """Runs all comparisons, writes the page and returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=Path, required=True, help="folder of busbw's programs")
    parser.add_argument("--nccl-tests", type=Path, required=True, help="folder of nccl-tests' programs")
    parser.add_argument("--suffix", default="", help="end of the names of nccl-tests' programs, such as _mpi")
    parser.add_argument("--mpirun", default="", help="command that starts the processes of both")
    parser.add_argument("--ranks", default="", help='flags that start the ranks of both, such as "-g 2"')
    parser.add_argument("--collectives", default=",".join(NCCL_TESTS_COLLECTIVES), help="collectives to compare")
    parser.add_argument("--parts", default=",".join(PARTS), help="parts to compare")
    parser.add_argument("--results", type=Path, required=True, help="path of the page, without .md")
    arguments = parser.parse_args()
    parts = arguments.parts.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"--parts {unknown.pop()}: allowed are {', '.join(PARTS)}")
    mpirun, ranks = tuple(shlex.split(arguments.mpirun)), tuple(shlex.split(arguments.ranks))
    ours = Programs("busbw", arguments.programs.resolve(), "", mpirun, ranks)
    theirs = Programs("nccl-tests", arguments.nccl_tests.resolve(), arguments.suffix, mpirun, ranks)
    collectives = arguments.collectives.split(",")
    comparisons: list[Comparison] = []
    absent: list[str] = []
    for comparison in compare_all(theirs, ours, collectives, parts, absent):
        comparisons.append(comparison)
        print(f"{comparison.name}: {comparison.result}", file=sys.stderr)
    versions = [line for programs in (theirs, ours) if (line := version_line(programs, collectives[0]))]
    page = arguments.results.with_suffix(".md")
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(as_page(arguments, comparisons, versions, absent))
    print(f"wrote {page}", file=sys.stderr)
    return 0 if all(comparison.is_equal for comparison in comparisons) else EXIT_DIFFERENT


if __name__ == "__main__":
    sys.exit(main())
