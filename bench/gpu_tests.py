"""Page of the results of tools/gpu_test.sh.

It lists rows, types, operators, placements and wrong elements per program, and each test with its programs' stderr.

    python bench/gpu_tests.py build/gpu-results-... --results bench/results/h200-x4-tests

The records are written beside the page, without samples.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_programs import nccl_settings, version_text, without_paths

FAULT = "--fault"
MAX_STDERR_CHARACTERS = 300
"""Maximum number of stderr characters per test on the page."""


@dataclass
class ProgramCounts:
    """Counts of one program over all runs without an injected fault."""

    runs: int = 0
    rows: int = 0
    checked: int = 0
    wrong: int = 0
    types: set[str] = field(default_factory=set)
    operators: set[str] = field(default_factory=set)
    placements: set[str] = field(default_factory=set)


def runs_in(folder: Path) -> Iterator[list[dict[str, Any]]]:
    """Yields the records of each run. Skips an incomplete last line, which a killed run may leave."""
    for path in sorted(folder.rglob("*.jsonl")):
        whole = [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
        if whole:
            yield [json.loads(line) for line in whole]


def add(found: ProgramCounts, records: list[dict[str, Any]]) -> None:
    """Counts the rows of a run."""
    found.runs += 1
    for row in records:
        if row["kind"] != "row":
            continue
        found.rows += 1
        found.types.add(row["dtype"])
        found.placements.add(row["placement"].replace("_", " "))
        if row["redop"]:
            found.operators.add(row["redop"])
        if row["check"]["state"] == "checked":
            found.checked += 1
            found.wrong += row["check"]["wrong_elements"]


def outcome(report: str) -> str:
    """Returns the number of tests by outcome, and the seconds, over all pytest sessions in the report."""
    counts: dict[str, int] = {}
    seconds = 0.0
    for line in report.splitlines():
        if not re.fullmatch(r"=+ .* in [\d.]+s.*", line):
            continue
        for number, word in re.findall(r"(\d+) (passed|failed|skipped|errors?)\b", line):
            counts[word] = counts.get(word, 0) + int(number)
        seconds += float(re.findall(r" in ([\d.]+)s", line)[-1])
    return f"{', '.join(f'{count} {word}' for word, count in counts.items())} in {seconds:.0f} s"


def tests_in(report: str) -> dict[str, str]:
    """Returns the last outcome of each test from the output of pytest -v, with or without pytest-xdist."""
    found: dict[str, str] = {}
    word = "PASSED|FAILED|SKIPPED|ERROR"
    for line in report.splitlines():
        if side_by_side := re.match(rf"\[gw\d+\] \[ *\d+%\] ({word}) tests/gpu/(\S.*?)\s*$", line):
            found[side_by_side[2]] = side_by_side[1].lower()
        elif alone := re.match(rf"tests/gpu/(\S.*?) ({word})\b", line):
            found[alone[1]] = alone[2].lower()
    return found


def stderr_by_test(records: Path) -> dict[str, str]:
    """Returns the stderr of the programs by test folder, with each text only once."""
    sentences: dict[str, list[str]] = {}
    for path in sorted(records.rglob("*.err")):
        if sentence := " ".join(path.read_text().split()):
            sentences.setdefault(path.parent.name, []).append(without_paths(sentence))
    stderr_texts = {name: "; ".join(dict.fromkeys(own)).replace("|", "\\|") for name, own in sentences.items()}
    return {
        name: text if len(text) <= MAX_STDERR_CHARACTERS else f"{text[:MAX_STDERR_CHARACTERS]}..."
        for name, text in stderr_texts.items()
    }


def list_of_tests(report: str, records: Path) -> list[str]:
    """Returns a table with one row per test."""
    stderr_texts = stderr_by_test(records)
    rows = [
        f"| {test} | {outcome} | {stderr_texts.get(test.replace('::', '-'), '')} |"
        for test, outcome in sorted(tests_in(report).items())
    ]
    return ["", "| test | outcome | what its programs said on stderr |", "| --- | --- | --- |", *rows] if rows else []


def names_fault(row: dict[str, Any], fault: str) -> bool:
    """Returns True if the record names exactly the element with the injected fault."""
    fault_fields = dict(word.split("=") for word in fault.partition(":")[2].split(","))
    keys = ("rank", "index") if "index" in fault_fields else ("rank",)
    return [[wrong[name] for name in keys] for wrong in row["check"]["first_wrong"]] == [
        [int(fault_fields[name]) for name in keys]
    ]


def page(runs: list[list[dict[str, Any]]], report: str, outcomes: list[str]) -> str:
    """Returns the page: tests, programs and injected faults."""
    first = max((records[0] for records in runs), key=lambda run: len(run["ranks"]))
    machine = first["machine"]
    gpus = len({(rank["host"], rank["bus_id"]) for rank in first["ranks"]})  # several ranks may share one GPU
    failed = [line.split()[1].rpartition("/")[2] for line in report.splitlines() if line.startswith("FAILED ")]
    programs: dict[str, ProgramCounts] = {}
    injected = detected = 0
    for records in runs:
        fault = next((arg for arg in records[0]["args"] if arg.startswith(("flip:", "overrun:"))), None)
        if FAULT not in records[0]["args"]:
            add(programs.setdefault(records[0]["collective"], ProgramCounts()), records)
        elif fault:
            rows = [row for row in records if row["kind"] == "row" and row["check"]["state"] == "checked"]
            injected += len(rows)
            detected += sum(names_fault(row, fault) for row in rows)
    faults = (
        f"A fault was put into the result of one rank in {injected} rows; in {detected} exactly that element was named."
    )
    head = [
        f"# Tests on {gpus} x {first['ranks'][0]['device_name']}",
        first["start_time"][:10],
        f"busbw {version_text(first)}",
        f"NCCL {machine.get('nccl_version')}",
        f"driver {machine.get('driver')}",
        *nccl_settings(first.get("environment", {})),
    ]
    lines = [
        ", ".join(head),
        "",
        f"Tests: {outcome(report)}.",
        *(f"Failed: {name}." for name in failed),
        *(f"Where two outcomes are right: {outcome}" for outcome in outcomes),
        "",
        *([faults, ""] if injected else []),
        "| program | runs | rows | types | operators | placements | checked | wrong elements |",
        "| --- | ---: | ---: | ---: | ---: | --- | ---: | ---: |",
    ]
    lines += [
        f"| {name}_perf | {found.runs} | {found.rows} | {len(found.types)} | {len(found.operators) or '-'} | "
        f"{', '.join(sorted(found.placements))} | {found.checked} | {found.wrong} |"
        for name, found in sorted(programs.items())
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Reads the folder, and writes the page and the records."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="output of tools/gpu_test.sh: tests.txt and records/")
    parser.add_argument("--results", type=Path, required=True, help="output path without suffix, for .jsonl.gz and .md")
    arguments = parser.parse_args()
    runs = list(runs_in(arguments.folder / "records"))
    outcomes = [path.read_text().strip() for path in sorted(arguments.folder.rglob("outcome.txt"))]
    report = (arguments.folder / "tests.txt").read_text()
    text = page(runs, report, outcomes) + "\n".join([*list_of_tests(report, arguments.folder / "records"), ""])
    Path(f"{arguments.results}.md").write_text(text)
    with gzip.open(f"{arguments.results}.jsonl.gz", "wt") as file:
        for records in runs:
            for record in records:
                reduced = {name: value for name, value in record.items() if "samples" not in name}
                file.write(json.dumps(without_paths(reduced), separators=(",", ":")) + "\n")
    print(text)


if __name__ == "__main__":
    main()
