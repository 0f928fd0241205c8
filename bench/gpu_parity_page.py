"""Short page of gpu_parity.py: ratios by collective and band, and the times of representative sizes.

Rebuilds the page from its JSON, for example after a note was added by hand:

python bench/gpu_parity_page.py build/bench-results/h200-x4-parity.json
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
From 1 MiB on both programs run with `-c 1`, their default. With `-c 0` nccl-tests leaves its buffers unwritten and
allocates two instead of three. That makes large sizes faster: its all_gather of 4 GiB out of place on two H200s took
7042 and 7029 us with `-c 0`, and 7461 and 7311 us with `-c 1`. busbw writes all memory first; it took 7361 us with
`-c 0`."""
"""Note on the page: the reason for measuring with checks."""
SHOWN_BYTES = (1 << 10, 1 << 20, 16 << 20, 1 << 30)
"""Sizes of the last table, in place. The summary counts all sizes."""
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
    lines[0] += (
        " the least: single sizes | busbw | nccl-tests | nccl-tests with itself | least ratio | greatest ratio |"
    )
    lines += ["| --- | --- | --- | ---: | --- | --- | --- | ---: | --- | ---: | ---: | ---: | --- | --- |"]
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
            ratios = [(each.by_median, row) for each, row in zip(verdicts, found, strict=True) if each.by_median]
            extremes = [choose(ratios, key=lambda pair: pair[0].ratio) for choose in (min, max)] if ratios else []
            edges = [
                f"{one.ratio:.3f} ({size_text(row['size_bytes'])} {row['placement'].replace('_', ' ')})"
                for one, row in extremes
            ] or ["-", "-"]
            within = median.verdict(1 - MEDIAN_MARGIN, 1 + MEDIAN_MARGIN) if median and large else "-"
            lines.append(
                f"| {way} | {collective} | {name} | {' to '.join(map(str, dict.fromkeys((rounds[0], rounds[-1]))))} | "
                f"{estimate_text(median)} | {within} | {tally([each.verdict() for each in verdicts])} | "
                f"{f'{statistics.median(minimums):.3f}' if minimums else '-'} | "
                f"{tally([each.least_verdict() for each in verdicts])} | "
                f"{spread(found, 'busbw_us')} | {spread(found, 'nccl_tests_us')} | {agrees(found, 'nccl_tests_us')} "
                f"| {edges[0]} | {edges[1]} |"
            )
    return lines


def as_page(results: dict[str, Any]) -> str:
    """Returns the results as Markdown."""
    lines = [f"# busbw compared with nccl-tests: {machine_line(results['provenance'])}", ""]
    lines += [
        f"Both programs alternated on {results['gpus']} GPUs with the same flags. A ratio is busbw's `time` over",
        "that of nccl-tests. A round is one start of each program and counts by the median of its cycles. Ratios are",
        "of geometric means over the rounds, with 95 % intervals in parentheses.",
        "",
        "- Limits: 0.97 to 1.03 from 1 MiB on, at most 1.02 below. A verdict is `met` or `not met` only if the whole",
        "  interval is within or outside the limit.",
        "- `the least` compares the shortest cycles of all rounds.",
        "- `busbw` and `nccl-tests`: longest over shortest round of one program, median over the sizes.",
        "- `nccl-tests with itself`: sizes at which its own rounds agree within the limit.",
        "- `g`: one process and one thread (`-g`). `t`: threads (`-t`). `processes`: a process for each GPU",
        f"  (nccl-tests: {results['their_processes']}).",
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
            "Repeated runs. The range is over the median, the standard deviation over the mean.",
        ]
        lines += ["", "| size | figure | runs | median (us) | least (us) | greatest (us) | range | deviation |"]
        lines += ["| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |"]
        lines += [
            f"| {size_text(row['size_bytes'])} | {row['what']} | {row['runs']} | {row['median_us']:.2f} | "
            f"{min(row['values_us']):.2f} | {max(row['values_us']):.2f} | {row['range_percent']:.2f} % | "
            f"{row['stdev_percent']:.2f} % |"
            for row in results["repeatability"]
        ]
    if results["left_out"]:
        lines += ["", f"Left out ({len(results['left_out'])}): {'; '.join(results['left_out'])}"]
    shown = ", ".join(map(size_text, SHOWN_BYTES))
    lines += ["", f"Single sizes in place ({shown}; the summary counts all sizes and both placements):"]
    lines += ["", "| ranks | collective | size | placement | rounds | busbw (us) | nccl-tests (us) | ratio | verdict |"]
    lines[-1] += " the least | verdict |"
    lines += ["| --- | --- | ---: | --- | ---: | ---: | ---: | --- | --- | --- | --- |"]
    for row in results["rows"]:
        if row["size_bytes"] not in SHOWN_BYTES or row["placement"] != "in_place":
            continue
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
