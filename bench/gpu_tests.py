"""What tools/gpu_test.sh found, as a page.

Numbers of tests by outcome, each failed test with its programs' messages, and every program's rows and wrong elements.

    python bench/gpu_tests.py build/gpu-results-... --results build/bench-results/h200-x4-tests

The records are written beside it, without samples.
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
MAX_SAID = 300
"""Characters of what a program said that stand in the page."""


@dataclass
class Found:
    """Of one program over all runs without a fault on purpose."""

    runs: int = 0
    rows: int = 0
    checked: int = 0
    wrong: int = 0
    types: set[str] = field(default_factory=set)
    operators: set[str] = field(default_factory=set)
    placements: set[str] = field(default_factory=set)


def runs_in(folder: Path) -> Iterator[list[dict[str, Any]]]:
    """The records of each run. The last line of one that was killed may be half a line."""
    for path in sorted(folder.rglob("*.jsonl")):
        whole = [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
        if whole:
            yield [json.loads(line) for line in whole]


def add(found: Found, records: list[dict[str, Any]]) -> None:
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
    """How many tests ended how, and in how many seconds, over all sessions of pytest in the report."""
    counts: dict[str, int] = {}
    seconds = 0.0
    for line in report.splitlines():
        if not re.fullmatch(r"=+ .* in [\d.]+s.*", line):
            continue
        for number, word in re.findall(r"(\d+) (passed|failed|skipped|errors?)\b", line):
            counts[word] = counts.get(word, 0) + int(number)
        seconds += float(re.findall(r" in ([\d.]+)s", line)[-1])
    return f"{', '.join(f'{count} {word}' for word, count in counts.items())} in {seconds:.0f} s"


def said_in(records: Path) -> dict[str, str]:
    """What programs said on stderr, each sentence once, by the name of their test's folder."""
    sentences: dict[str, list[str]] = {}
    for path in sorted(records.rglob("*.err")):
        if sentence := " ".join(path.read_text().split()):
            sentences.setdefault(path.parent.name, []).append(without_paths(sentence))
    said = {name: "; ".join(dict.fromkeys(own)) for name, own in sentences.items()}
    return {name: text if len(text) <= MAX_SAID else f"{text[:MAX_SAID]}..." for name, text in said.items()}


def failure_text(test: str, said: dict[str, str]) -> str:
    """Returns a failed test's name, followed by the messages of its programs."""
    message = said.get(test.replace("::", "-"))
    return f"Failed: {test}: {message}" if message else f"Failed: {test}."


def names_it(row: dict[str, Any], fault: str) -> bool:
    """Whether the first wrong element is the one into which the fault was put, and the only one."""
    asked = dict(word.split("=") for word in fault.partition(":")[2].split(","))
    place = ("rank", "index") if "index" in asked else ("rank",)
    return [[wrong[name] for name in place] for wrong in row["check"]["first_wrong"]] == [
        [int(asked[name]) for name in place]
    ]


def page(runs: list[list[dict[str, Any]]], report: str, outcomes: list[str], said: dict[str, str]) -> str:
    """Returns the page; `said` maps a test's folder to the messages of its programs."""
    first = max((records[0] for records in runs), key=lambda run: len(run["ranks"]))
    machine = first["machine"]
    gpus = len({(rank["host"], rank["bus_id"]) for rank in first["ranks"]})  # which ranks may share
    failed = [line.split()[1].rpartition("/")[2] for line in report.splitlines() if line.startswith("FAILED ")]
    programs: dict[str, Found] = {}
    struck = named = 0
    for records in runs:
        fault = next((arg for arg in records[0]["args"] if arg.startswith(("flip:", "overrun:"))), None)
        if FAULT not in records[0]["args"]:
            add(programs.setdefault(records[0]["collective"], Found()), records)
        elif fault:
            rows = [row for row in records if row["kind"] == "row" and row["check"]["state"] == "checked"]
            struck += len(rows)
            named += sum(names_it(row, fault) for row in rows)
    faults = f"{struck} rows had one planted fault each; in {named} of them the check named exactly that element."
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
        *(failure_text(name, said) for name in failed),
        *(f"Either outcome is right here: {outcome}" for outcome in outcomes),
        "",
        *([faults, ""] if struck else []),
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
    """Reads the folder, writes the page and the records."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="what tools/gpu_test.sh wrote: tests.txt and records/")
    parser.add_argument(
        "--results", type=Path, required=True, help="path without suffix; .jsonl.gz and .md are written"
    )
    arguments = parser.parse_args()
    runs = list(runs_in(arguments.folder / "records"))
    outcomes = [path.read_text().strip() for path in sorted(arguments.folder.rglob("outcome.txt"))]
    report = (arguments.folder / "tests.txt").read_text()
    text = page(runs, report, outcomes, said_in(arguments.folder / "records"))
    arguments.results.parent.mkdir(parents=True, exist_ok=True)
    Path(f"{arguments.results}.md").write_text(text)
    with gzip.open(f"{arguments.results}.jsonl.gz", "wt") as kept:
        for records in runs:
            for record in records:
                lean = {name: value for name, value in record.items() if "samples" not in name}
                kept.write(json.dumps(without_paths(lean), separators=(",", ":")) + "\n")
    print(text)


if __name__ == "__main__":
    main()
