"""Short page of gpu_parity.py: ratios by collective and band, and the times of representative sizes.

A row is a size and placement of one collective and launch mode, with one time per round for each program. Its key "way"
is the launch mode.

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

CHECK_NOTE = """\
From 1 MiB on both programs run with `-c 1`, their default. With `-c 0` nccl-tests leaves its buffers unwritten and
allocates two instead of three. That makes large sizes faster: its all_gather of 4 GiB out of place on two H200s took
7042 and 7029 us with `-c 0`, and 7461 and 7311 us with `-c 1`. busbw writes all memory first; it took 7361 us with
`-c 0`."""
"""Reason for measuring with checks."""
SHOWN_BYTES = (1 << 10, 1 << 20, 16 << 20, 1 << 30)
"""Sizes of the last table, in place. The summary counts all sizes."""
WHOLE_SWEEP = ["-b", "8", "-e", "8G", "-f", "2", "-c", "1"]


def spread_text(rows: list[dict[str, Any]], side: str) -> str:
    """Returns the spread of a program's rounds: maximum / minimum, as the median over the rows.

    `side` is the key of the program's times, "busbw_us" or "nccl_tests_us".
    """
    ratios = [max(row[side]) / min(row[side]) for row in rows if len(row[side]) > 1 and min(row[side]) > 0]
    return f"{statistics.median(ratios):.2f}" if ratios else "-"


def agreement_text(rows: list[dict[str, Any]], side: str) -> str:
    """Returns the number of rows in which a program's own rounds agree: "3 of 4"."""
    answers = [agrees_with_itself(row[side], row["size_bytes"]) for row in rows]
    decided = [agrees for agrees in answers if agrees is not None]
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


def tally_text(verdicts: list[str]) -> str:
    """Returns the number of rows per verdict: "20 met, 1 not met"."""
    counts = [(verdicts.count(verdict), verdict) for verdict in (MET, NOT_MET, CANNOT_BE_TOLD)]
    return ", ".join(f"{count} {verdict}" for count, verdict in counts if count)


def summary(rows: list[dict[str, Any]]) -> list[str]:
    """Returns ratios and verdicts by launch mode, collective and band."""
    lines = [
        "| ranks | collective | sizes | rounds | median of the sizes | within 1 % | single sizes | the least: median |"
        " the least: single sizes | busbw | nccl-tests | nccl-tests with itself | least ratio | greatest ratio |",
        "| --- | --- | --- | ---: | --- | --- | --- | ---: | --- | ---: | ---: | ---: | --- | --- |",
    ]
    for way, collective in dict.fromkeys((row["way"], row["collective"]) for row in rows):
        for large, name in ((True, "1 MiB and above"), (False, "below 1 MiB")):
            band_rows = [
                row
                for row in rows
                if (row["way"], row["collective"]) == (way, collective) and (row["size_bytes"] >= LARGE_BYTES) is large
            ]
            if band_rows:
                lines.append(f"| {way} | {collective} | {name} | {' | '.join(band_cells(band_rows, large=large))} |")
    return lines


def band_cells(rows: list[dict[str, Any]], *, large: bool) -> list[str]:
    """Returns the cells of one summary line after the name of its band. `large` is True from 1 MiB on."""
    round_counts = sorted({len(row["busbw_us"]) for row in rows})
    min_rounds, max_rounds = round_counts[0], round_counts[-1]
    verdicts = [evaluate_row(row) for row in rows]
    ratios_by_minimum = [verdict.by_minimum.ratio for verdict in verdicts if verdict.by_minimum]
    median = median_over_sizes(rows)
    return [
        f"{min_rounds}" if min_rounds == max_rounds else f"{min_rounds} to {max_rounds}",
        estimate_text(median),
        median.verdict(1 - MEDIAN_MARGIN, 1 + MEDIAN_MARGIN) if median and large else "-",
        tally_text([verdict.verdict() for verdict in verdicts]),
        f"{statistics.median(ratios_by_minimum):.3f}" if ratios_by_minimum else "-",
        tally_text([verdict.minimum_verdict() for verdict in verdicts]),
        spread_text(rows, "busbw_us"),
        spread_text(rows, "nccl_tests_us"),
        agreement_text(rows, "nccl_tests_us"),
        *extreme_texts([(verdict.by_median, row) for verdict, row in zip(verdicts, rows, strict=True)]),
    ]


def extreme_texts(estimates: list[tuple[Estimate | None, dict[str, Any]]]) -> list[str]:
    """Returns the least and the greatest ratio, each with its size and placement."""
    known = [(estimate.ratio, row) for estimate, row in estimates if estimate]
    if not known:
        return ["-", "-"]
    extremes = [select(known, key=lambda pair: pair[0]) for select in (min, max)]
    return [
        f"{ratio:.3f} ({size_text(row['size_bytes'])} {row['placement'].replace('_', ' ')})" for ratio, row in extremes
    ]


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
        lines += ["", CHECK_NOTE]
    for note in results["notes"]:
        lines += ["", note]
    if any(results["wall_s"].values()):
        lines += ["", *wall_time_lines(results["wall_s"], results["gpus"])]
    if results["repeatability"]:
        lines += ["", *repeatability_lines(results["repeatability"])]
    if results["left_out"]:
        lines += ["", f"Left out ({len(results['left_out'])}): {'; '.join(results['left_out'])}"]
    lines += ["", *single_size_lines(results["rows"])]
    return "\n".join(lines) + "\n"


def wall_time_lines(wall_s: dict[str, list[float]], gpus: int) -> list[str]:
    """Returns the list of wall times, by program."""
    lines = [f"Wall time of `all_reduce_perf -g {gpus} {' '.join(WHOLE_SWEEP)}`, in seconds:", ""]
    for side, values in wall_s.items():
        lines.append(f"- {side}: {', '.join(f'{value:.1f}' for value in values) or 'not measured'}")
    return lines


def repeatability_lines(figures: list[dict[str, Any]]) -> list[str]:
    """Returns the table of repeated runs."""
    return [
        "Repeated runs. The range is over the median, the standard deviation over the mean.",
        "",
        "| size | figure | runs | median (us) | least (us) | greatest (us) | range | deviation |",
        "| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        *(
            f"| {size_text(figure['size_bytes'])} | {figure['what']} | {figure['runs']} | {figure['median_us']:.2f} | "
            f"{min(figure['values_us']):.2f} | {max(figure['values_us']):.2f} | {figure['range_percent']:.2f} % | "
            f"{figure['stdev_percent']:.2f} % |"
            for figure in figures
        ),
    ]


def single_size_lines(rows: list[dict[str, Any]]) -> list[str]:
    """Returns the table of representative sizes."""
    shown = ", ".join(map(size_text, SHOWN_BYTES))
    lines = [
        f"Single sizes in place ({shown}; the summary counts all sizes and both placements):",
        "",
        "| ranks | collective | size | placement | rounds | busbw (us) | nccl-tests (us) | ratio | verdict |"
        " the least | verdict |",
        "| --- | --- | ---: | --- | ---: | ---: | ---: | --- | --- | --- | --- |",
    ]
    for row in rows:
        if row["size_bytes"] not in SHOWN_BYTES or row["placement"] != "in_place":
            continue
        ours, theirs = (center_us(row[side]) for side in ("busbw_us", "nccl_tests_us"))
        verdict = evaluate_row(row)
        lines.append(
            f"| {row['way']} | {row['collective']} | {size_text(row['size_bytes'])} | "
            f"{row['placement'].replace('_', ' ')} | {len(row['busbw_us'])} | {ours:.2f} | {theirs:.2f} | "
            f"{estimate_text(verdict.by_median)} | {verdict.verdict()} | "
            f"{estimate_text(verdict.by_minimum)} | {verdict.minimum_verdict()} |"
        )
    return lines


def main() -> None:
    """Reads the JSON and writes the page beside it."""
    (path,) = map(Path, sys.argv[1:])
    path.with_suffix(".md").write_text(as_page(json.loads(path.read_text())))


if __name__ == "__main__":
    main()
