"""Page of gpu_parity.py. Rebuilds the page from its JSON, for example after a note was added by hand.

python bench/gpu_parity_page.py bench/results/h200-x4-parity.json
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

from gpu_parity_verdict import (
    CANNOT_BE_TOLD,
    LARGE_BYTES,
    MEDIAN_MARGIN,
    MET,
    NOT_MET,
    Estimate,
    agrees_with_itself,
    evaluate_row,
    median_over_sizes,
)
from gpu_programs import machine_line, size_text

CHECKED = """\
From 1 MiB on both programs run with -c 1, their default. nccl-tests' -c 0 leaves its buffers unwritten and allocates
two in place of three, which makes large sizes faster: on two H200s its all_gather of 4 GiB out of place took 7042
and 7029 us with -c 0, 7461 and 7311 us with -c 1; busbw, which writes all memory before it times, took 7361 us with
-c 0."""
"""Note on the page: the reason for measuring with checks."""
WHOLE_SWEEP = ["-b", "8", "-e", "8G", "-f", "2", "-c", "1"]


def spread(rows: list[dict[str, Any]], side: str) -> str:
    """Returns the spread of a program's rounds: maximum / minimum, as the median over the sizes."""
    found = [max(row[side]) / min(row[side]) for row in rows if len(row[side]) > 1 and min(row[side]) > 0]
    return f"{statistics.median(found):.2f}" if found else "-"


def agrees(rows: list[dict[str, Any]], side: str) -> str:
    """Returns the number of sizes at which a program's own rounds agree."""
    found = [agrees_with_itself(row[side], row["size_bytes"]) for row in rows]
    decided = [agrees for agrees in found if agrees is not None]
    return f"{sum(decided)} of {len(decided)}" if decided else "-"


def center_us(times_us: list[float]) -> float:
    """Returns the geometric mean, or the median if a time is 0."""
    return statistics.geometric_mean(times_us) if min(times_us) > 0 else statistics.median(times_us)


def estimate_text(estimate: Estimate | None) -> str:
    """Formats the ratio and its interval, if known."""
    if estimate is None:
        return "-"
    if estimate.low is None or estimate.high is None:
        return f"{estimate.ratio:.3f}"
    return f"{estimate.ratio:.3f} ({estimate.low:.3f} to {estimate.high:.3f})"


def tally(verdicts: list[str]) -> str:
    """Returns the number of sizes per verdict."""
    found = [(verdicts.count(verdict), verdict) for verdict in (MET, NOT_MET, CANNOT_BE_TOLD)]
    return ", ".join(f"{count} {verdict}" for count, verdict in found if count)


def summary(rows: list[dict[str, Any]]) -> list[str]:
    """Returns ratios and verdicts by launch mode, collective and band."""
    lines = [
        "| ranks | collective | sizes | rounds | median of the sizes | within 1 % | single sizes | the least: median |"
    ]
    lines[0] += " the least: single sizes | busbw | nccl-tests | nccl-tests with itself |"
    lines += ["| --- | --- | --- | ---: | --- | --- | --- | ---: | --- | ---: | ---: | ---: |"]
    for way, collective in dict.fromkeys((row["way"], row["collective"]) for row in rows):
        for large, name in ((True, "1 MiB and above"), (False, "below 1 MiB")):
            found = [
                row
                for row in rows
                if (row["way"], row["collective"]) == (way, collective) and (row["size_bytes"] >= LARGE_BYTES) is large
            ]
            if not found:
                continue
            rounds = sorted({len(row["busbw_us"]) for row in found})
            verdicts = [evaluate_row(row) for row in found]
            minimums = [each.by_least.ratio for each in verdicts if each.by_least]
            median = median_over_sizes(found)
            within = median.verdict(1 - MEDIAN_MARGIN, 1 + MEDIAN_MARGIN) if median and large else "-"
            lines.append(
                f"| {way} | {collective} | {name} | {' to '.join(map(str, dict.fromkeys((rounds[0], rounds[-1]))))} | "
                f"{estimate_text(median)} | {within} | {tally([each.verdict() for each in verdicts])} | "
                f"{f'{statistics.median(minimums):.3f}' if minimums else '-'} | "
                f"{tally([each.least_verdict() for each in verdicts])} | "
                f"{spread(found, 'busbw_us')} | {spread(found, 'nccl_tests_us')} | {agrees(found, 'nccl_tests_us')} |"
            )
    return lines


def as_page(results: dict[str, Any]) -> str:
    """Returns the results as Markdown."""
    lines = [f"# busbw beside nccl-tests: {machine_line(results['provenance'])}", ""]
    lines += [
        f"{results['gpus']} GPUs, both programs alternating with the same flags. A ratio is busbw's `time` over",
        "nccl-tests'. A round runs each program through all sizes, once or several times, and counts by the median",
        "of these cycles. Ratios are of geometric means over the rounds, with the 95 % interval in parentheses.",
        "From 1 MiB on the ratio of a size must be between 0.97 and 1.03, below 1 MiB at most 1.02: met if the",
        "whole interval is within the limits, not met if it is outside. `the least` compares the shortest cycles of",
        "all rounds instead. The last columns show the spread of the rounds of one program (longest over shortest,",
        "the median of all sizes), and the number of sizes at which nccl-tests' own rounds agree within the same",
        "limit. If they do not, no single round can be required to meet it. `g`: one process and one thread (-g);",
        f"`t`: threads (-t); `processes`: a process for each GPU (nccl-tests: {results['their_processes']}).",
        "",
        *summary(results["rows"]),
    ]
    if results.get("large_flags"):
        lines += ["", CHECKED]
    for note in results["notes"]:
        lines += ["", note]
    if any(results["wall_s"].values()):
        lines += ["", f"Wall time of `all_reduce_perf -g {results['gpus']} {' '.join(WHOLE_SWEEP)}`, in seconds:", ""]
        for side, values in results["wall_s"].items():
            lines.append(f"- {side}: {', '.join(f'{value:.1f}' for value in values) or 'not measured'}")
    if results["repeatability"]:
        lines += [
            "",
            "Runs repeated: how far their figures lie apart (range over median; standard deviation over mean).",
        ]
        lines += ["", "| size | figure | runs | median (us) | range | deviation |"]
        lines += ["| ---: | --- | ---: | ---: | ---: | ---: |"]
        lines += [
            f"| {size_text(row['size_bytes'])} | {row['what']} | {row['runs']} | {row['median_us']:.2f} | "
            f"{row['range_percent']:.2f} % | {row['stdev_percent']:.2f} % |"
            for row in results["repeatability"]
        ]
    if results["left_out"]:
        lines += ["", f"Left out ({len(results['left_out'])}): {'; '.join(results['left_out'])}"]
    lines += ["", "| ranks | collective | size | placement | rounds | busbw (us) | nccl-tests (us) | ratio | verdict |"]
    lines[-1] += " the least | verdict |"
    lines += ["| --- | --- | ---: | --- | ---: | ---: | ---: | --- | --- | --- | --- |"]
    for row in results["rows"]:
        ours, theirs = (center_us(row[side]) for side in ("busbw_us", "nccl_tests_us"))
        found = evaluate_row(row)
        lines.append(
            f"| {row['way']} | {row['collective']} | {size_text(row['size_bytes'])} | "
            f"{row['placement'].replace('_', ' ')} | {len(row['busbw_us'])} | {ours:.2f} | {theirs:.2f} | "
            f"{estimate_text(found.by_median)} | {found.verdict()} | "
            f"{estimate_text(found.by_least)} | {found.least_verdict()} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Reads the JSON and writes the page beside it."""
    (path,) = map(Path, sys.argv[1:])
    path.with_suffix(".md").write_text(as_page(json.loads(path.read_text())))


if __name__ == "__main__":
    main()
