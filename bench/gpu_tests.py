"""Page of the results of tools/gpu_test.sh, which runs tests/gpu.

The page shows the number of tests by outcome, each failed test with its programs' stderr, and rows and wrong elements
per program. Some runs have an injected fault (--fault). If it makes one element wrong, the page counts how often the
check named exactly that element.

    python bench/gpu_tests.py build/gpu-results-... --results build/bench-results/h200-x4-tests

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

FAULT_FLAG = "--fault"
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


def read_runs(folder: Path) -> Iterator[list[dict[str, Any]]]:
    """Yields the records of each run. Skips an incomplete last line, which a killed run may leave."""
    for path in sorted(folder.rglob("*.jsonl")):
        complete_lines = [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
        if complete_lines:
            yield [json.loads(line) for line in complete_lines]


def count_run(counts: ProgramCounts, records: list[dict[str, Any]]) -> None:
    """Adds the rows of a run to the counts of its program."""
    counts.runs += 1
    for row in records:
        if row["kind"] != "row":
            continue
        counts.rows += 1
        counts.types.add(row["dtype"])
        counts.placements.add(row["placement"].replace("_", " "))
        if row["redop"]:
            counts.operators.add(row["redop"])
        if row["check"]["state"] == "checked":
            counts.checked += 1
            counts.wrong += row["check"]["wrong_elements"]


def outcome_text(report: str) -> str:
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


def stderr_by_test(records: Path) -> dict[str, str]:
    """Returns the stderr of the programs by test folder, with each text only once."""
    texts_by_test: dict[str, list[str]] = {}
    for path in sorted(records.rglob("*.err")):
        if text := " ".join(path.read_text().split()):
            texts_by_test.setdefault(path.parent.name, []).append(without_paths(text))
    return {test: cut("; ".join(dict.fromkeys(texts))) for test, texts in texts_by_test.items()}


def cut(text: str) -> str:
    """Cuts a text to the length that the page shows."""
    return text if len(text) <= MAX_STDERR_CHARACTERS else f"{text[:MAX_STDERR_CHARACTERS]}..."


def failure_text(test: str, stderr_texts: dict[str, str]) -> str:
    """Returns the name of a failed test, followed by the stderr of its programs."""
    message = stderr_texts.get(test.replace("::", "-"))
    return f"Failed: {test}: {message}" if message else f"Failed: {test}."


def names_fault(row: dict[str, Any], fault: str) -> bool:
    """True if the record names exactly the element with the injected fault, such as "flip:rank=1,index=7"."""
    fault_fields = dict(word.split("=") for word in fault.partition(":")[2].split(","))
    keys = ("rank", "index") if "index" in fault_fields else ("rank",)
    injected = [int(fault_fields[name]) for name in keys]
    reported = [[wrong[name] for name in keys] for wrong in row["check"]["first_wrong"]]
    return reported == [injected]


def faults_lines(runs: list[list[dict[str, Any]]]) -> list[str]:
    """Returns the paragraph on the rows with an injected fault. Empty if no row has a fault."""
    injected = detected = 0
    for records in runs:
        arguments = records[0]["args"]
        wrong_data_fault = next((word for word in arguments if word.startswith(("flip:", "overrun:"))), None)
        if FAULT_FLAG in arguments and wrong_data_fault:
            rows = [row for row in records if row["kind"] == "row" and row["check"]["state"] == "checked"]
            injected += len(rows)
            detected += sum(names_fault(row, wrong_data_fault) for row in rows)
    if not injected:
        return []
    text = f"{injected} rows had one injected fault each; in {detected} of them the check named exactly that element."
    return [text, ""]


def page(runs: list[list[dict[str, Any]]], report: str, outcomes: list[str], stderr_texts: dict[str, str]) -> str:
    """Returns the page: tests, programs and injected faults.

    Args:
        runs: Records of each run, header first.
        report: Output of pytest.
        outcomes: Sentences of tests that accept two outcomes, with the one that occurred.
        stderr_texts: Stderr by test folder.
    """
    largest_run = max((records[0] for records in runs), key=lambda header: len(header["ranks"]))
    machine = largest_run["machine"]
    gpus = len({(rank["host"], rank["bus_id"]) for rank in largest_run["ranks"]})  # several ranks may share one GPU
    failed = [line.split()[1].rpartition("/")[2] for line in report.splitlines() if line.startswith("FAILED ")]
    programs: dict[str, ProgramCounts] = {}
    for records in runs:
        if FAULT_FLAG not in records[0]["args"]:
            count_run(programs.setdefault(records[0]["collective"], ProgramCounts()), records)
    head = [
        f"# Tests on {gpus} x {largest_run['ranks'][0]['device_name']}",
        largest_run["start_time"][:10],
        f"busbw {version_text(largest_run)}",
        f"NCCL {machine.get('nccl_version')}",
        f"driver {machine.get('driver')}",
        *nccl_settings(largest_run.get("environment", {})),
    ]
    lines = [
        ", ".join(head),
        "",
        f"Tests: {outcome_text(report)}.",
        *(failure_text(name, stderr_texts) for name in failed),
        *(f"Either outcome is right here: {outcome}" for outcome in outcomes),
        "",
        *faults_lines(runs),
        "| program | runs | rows | types | operators | placements | checked | wrong elements |",
        "| --- | ---: | ---: | ---: | ---: | --- | ---: | ---: |",
    ]
    lines += [
        f"| {name}_perf | {counts.runs} | {counts.rows} | {len(counts.types)} | {len(counts.operators) or '-'} | "
        f"{', '.join(sorted(counts.placements))} | {counts.checked} | {counts.wrong} |"
        for name, counts in sorted(programs.items())
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Reads the folder, and writes the page and the records."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="output of tools/gpu_test.sh: tests.txt and records/")
    parser.add_argument("--results", type=Path, required=True, help="output path without suffix, for .jsonl.gz and .md")
    arguments = parser.parse_args()
    runs = list(read_runs(arguments.folder / "records"))
    outcomes = [path.read_text().strip() for path in sorted(arguments.folder.rglob("outcome.txt"))]
    report = (arguments.folder / "tests.txt").read_text()
    text = page(runs, report, outcomes, stderr_by_test(arguments.folder / "records"))
    arguments.results.parent.mkdir(parents=True, exist_ok=True)
    Path(f"{arguments.results}.md").write_text(text)
    with gzip.open(f"{arguments.results}.jsonl.gz", "wt") as file:
        for records in runs:
            for record in records:
                reduced = {name: value for name, value in record.items() if "samples" not in name}
                file.write(json.dumps(without_paths(reduced), separators=(",", ":")) + "\n")
    print(text)


if __name__ == "__main__":
    main()
