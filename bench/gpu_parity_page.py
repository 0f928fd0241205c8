"""The page of gpu_parity.py's results; makes it again from its JSON, after a note was added by hand, for example.

python bench/gpu_parity_page.py bench/results/h200-x4-parity.json
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

from gpu_programs import machine_line, size_text

WHOLE_SWEEP = ["-b", "8", "-e", "8G", "-f", "2", "-c", "1"]
LARGE_BYTES = 1 << 20


def scatter(rows: list[dict[str, Any]], side: str) -> str:
    """How far the rounds of a side lie apart: the greatest over the least, the median of all sizes."""
    found = [max(row[side]) / min(row[side]) for row in rows if len(row[side]) > 1 and min(row[side]) > 0]
    return f"{statistics.median(found):.2f}" if found else "-"


def summary(rows: list[dict[str, Any]]) -> list[str]:
    """Ratios by way, collective and band."""
    lines = ["| ranks | collective | sizes | rounds | median | least | greatest | of the least | busbw | nccl-tests |"]
    lines += ["| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for way, collective in dict.fromkeys((row["way"], row["collective"]) for row in rows):
        for large, name in ((True, "1 MiB and above"), (False, "below 1 MiB")):
            found = [
                row
                for row in rows
                if (row["way"], row["collective"]) == (way, collective)
                and (row["size_bytes"] >= LARGE_BYTES) is large
                and row["ratio"] is not None
            ]
            if found:
                ratios = [row["ratio"] for row in found]
                of_least = statistics.median(min(row["busbw_us"]) / min(row["nccl_tests_us"]) for row in found)
                rounds = sorted({len(row["busbw_us"]) for row in found})
                lines.append(
                    f"| {way} | {collective} | {name} | {' or '.join(map(str, rounds))} | "
                    f"{statistics.median(ratios):.3f} | {min(ratios):.3f} | {max(ratios):.3f} | {of_least:.3f} | "
                    f"{scatter(found, 'busbw_us')} | {scatter(found, 'nccl_tests_us')} |"
                )
    return lines


def as_page(results: dict[str, Any]) -> str:
    """The results as Markdown."""
    lines = [f"# busbw beside nccl-tests: {machine_line(results['provenance'])}", ""]
    lines += [
        f"{results['gpus']} GPUs, both programs in turns with the same flags. A ratio is busbw's `time` over",
        "nccl-tests', medians over the rounds; `of the least` is the ratio of the shortest rounds, the median of all",
        "sizes; the last two columns say how far the rounds of one program lie apart (the longest over the shortest,",
        "the median of all sizes). `g`: one process and one thread (-g); `t`: threads (-t); `processes`: a process for",
        f"each GPU (nccl-tests: {results['their_processes']}).",
        "",
        *summary(results["rows"]),
    ]
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
        lines += ["", f"Left out ({len(results['left_out'])}): {'; '.join(results['left_out'][:6])}"]
    lines += ["", "| ranks | collective | size | placement | rounds | busbw (us) | nccl-tests (us) | ratio |"]
    lines += ["| --- | --- | ---: | --- | ---: | ---: | ---: | ---: |"]
    for row in results["rows"]:
        ours, theirs = statistics.median(row["busbw_us"]), statistics.median(row["nccl_tests_us"])
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.3f}"
        lines.append(
            f"| {row['way']} | {row['collective']} | {size_text(row['size_bytes'])} | "
            f"{row['placement'].replace('_', ' ')} | {len(row['busbw_us'])} | {ours:.2f} | {theirs:.2f} | {ratio} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Reads the JSON, writes the page beside it."""
    (path,) = map(Path, sys.argv[1:])
    path.with_suffix(".md").write_text(as_page(json.loads(path.read_text())))


if __name__ == "__main__":
    main()
