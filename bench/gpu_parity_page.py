"""Page of gpu_parity.py: ratios and verdicts by collective and band, and the times of representative sizes.

A row is a size and placement of one collective and launch mode, with one time per round for each program. Its key "way"
is the launch mode. A verdict compares the interval of the ratio of the times with a limit.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpu_programs import machine_line, size_text

from busbw.statistics.stats import Interval, SampleSummary, mean_difference, run_summary

CHECK_NOTE = """\
From 1 MiB on both programs run with `-c 1`, their default. With `-c 0` nccl-tests leaves its buffers unwritten and
allocates two instead of three. That makes large sizes faster: its all_gather of 4 GiB out of place on two H200s took
7042 and 7029 us with `-c 0`, and 7461 and 7311 us with `-c 1`. busbw writes all memory first; it took 7361 us with
`-c 0`."""
"""Reason for measuring with checks."""
SHOWN_BYTES = (1 << 10, 1 << 20, 16 << 20, 1 << 30)
"""Sizes of the last table, in place. The summary counts all sizes."""
LARGE_BYTES = 1 << 20
LARGE_LIMITS = (0.97, 1.03)
"""From 1 MiB on: minimum and maximum ratio of busbw's time to that of nccl-tests."""
SMALL_LIMITS = (0.0, 1.02)
"""Below 1 MiB: the same. A shorter time is allowed."""
MEDIAN_LIMITS = (0.99, 1.01)
"""Limits of the median over the sizes from 1 MiB on."""
MET, NOT_MET, CANNOT_BE_TOLD = "met", "not met", "cannot be told"
_ALPHA = 0.05
"""Intervals have the confidence level 1 - _ALPHA."""


@dataclass(frozen=True)
class Estimate:
    """busbw's time / nccl-tests' time, with its 95 % interval. The interval is None for too few rounds."""

    ratio: float
    interval: tuple[float, float] | None = None

    @classmethod
    def of(cls, log_ratio: Interval) -> Estimate:
        """Converts an interval of the logarithm of the ratio."""
        return cls(math.exp(log_ratio.estimate), log_ratio.ratios)

    def verdict(self, limits: tuple[float, float]) -> str:
        """Returns MET or NOT_MET if the whole interval is within or outside the limits, otherwise CANNOT_BE_TOLD."""
        if self.interval is None:
            return CANNOT_BE_TOLD
        (low, high), (minimum, maximum) = self.interval, limits
        if minimum <= low and high <= maximum:
            return MET
        is_outside = high < minimum or low > maximum
        return NOT_MET if is_outside else CANNOT_BE_TOLD

    @property
    def text(self) -> str:
        """The ratio, and its interval if it is known."""
        return f"{self.ratio:.3f}" + ("" if self.interval is None else " ({:.3f} to {:.3f})".format(*self.interval))


def estimate_ratio(row: dict[str, Any]) -> Estimate | None:
    """Returns the ratio of geometric means over the rounds, with Welch's interval. None if a time is 0."""
    ours, theirs = row["busbw_us"], row["nccl_tests_us"]
    if min(*ours, *theirs) <= 0:
        return None
    if len(ours) < 2:
        return Estimate(ours[0] / theirs[0])
    return Estimate.of(mean_difference(run_summary(ours), run_summary(theirs), alpha=_ALPHA))


def row_verdict(row: dict[str, Any]) -> str:
    """Returns the verdict of one row, by the limits of its size."""
    estimate = estimate_ratio(row)
    limits = LARGE_LIMITS if row["size_bytes"] >= LARGE_BYTES else SMALL_LIMITS
    return estimate.verdict(limits) if estimate else CANNOT_BE_TOLD


def median_over_sizes(rows: Sequence[dict[str, Any]]) -> Estimate | None:
    """Returns the geometric mean over the rounds of the median ratio over the rows. None if a round has no ratio."""
    medians = []
    for round_index in range(min(len(row["busbw_us"]) for row in rows)):
        pairs = [(row["busbw_us"][round_index], row["nccl_tests_us"][round_index]) for row in rows]
        ratios = [ours / theirs for ours, theirs in pairs if ours > 0 and theirs > 0]
        if not ratios:
            return None
        medians.append(statistics.median(ratios))
    if len(medians) < 2:
        return Estimate(medians[0])
    exact_one = SampleSummary(0.0, 0.0, 1.0)  # logarithm 0 without variance: the ratios are compared with 1
    return Estimate.of(mean_difference(run_summary(medians), exact_one, alpha=_ALPHA))


def spread_text(rows: Sequence[dict[str, Any]], side: str) -> str:
    """Returns the spread of a program's rounds: maximum / minimum, as the median over the rows.

    `side` is the key of the program's times, "busbw_us" or "nccl_tests_us".
    """
    ratios = [max(row[side]) / min(row[side]) for row in rows if len(row[side]) > 1 and min(row[side]) > 0]
    return f"{statistics.median(ratios):.2f}" if ratios else "-"


def tally_text(verdicts: list[str]) -> str:
    """Returns the number of rows per verdict: "20 met, 1 not met"."""
    counts = [(verdicts.count(verdict), verdict) for verdict in (MET, NOT_MET, CANNOT_BE_TOLD)]
    return ", ".join(f"{count} {verdict}" for count, verdict in counts if count)


def summary(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Returns ratios and verdicts by launch mode, collective and band."""
    lines = [
        "| ranks | collective | sizes | rounds | median of the sizes | within 1 % | single sizes | busbw | nccl-tests |"
        " least ratio | greatest ratio |",
        "| --- | --- | --- | ---: | --- | --- | --- | ---: | ---: | --- | --- |",
    ]
    for way, collective in dict.fromkeys((row["way"], row["collective"]) for row in rows):
        for is_large, name in ((True, "1 MiB and above"), (False, "below 1 MiB")):
            band_rows = [
                row
                for row in rows
                if (row["way"], row["collective"]) == (way, collective)
                and (row["size_bytes"] >= LARGE_BYTES) is is_large
            ]
            if band_rows:
                cells = [way, collective, name, *band_cells(band_rows, is_large=is_large)]
                lines.append(f"| {' | '.join(cells)} |")
    return lines


def band_cells(rows: Sequence[dict[str, Any]], *, is_large: bool) -> list[str]:
    """Returns the cells of one summary line after the name of its band. `is_large` is true from 1 MiB on."""
    round_counts = sorted({len(row["busbw_us"]) for row in rows})
    median = median_over_sizes(rows)
    known = [(estimate.ratio, row) for row in rows if (estimate := estimate_ratio(row))]
    extremes = [select(known, key=lambda pair: pair[0]) for select in (min, max)] if known else []
    extreme_texts = [
        f"{ratio:.3f} ({size_text(row['size_bytes'])} {row['placement'].replace('_', ' ')})" for ratio, row in extremes
    ]
    return [
        " to ".join(str(count) for count in dict.fromkeys((round_counts[0], round_counts[-1]))),
        median.text if median else "-",
        median.verdict(MEDIAN_LIMITS) if median and is_large else "-",
        tally_text([row_verdict(row) for row in rows]),
        spread_text(rows, "busbw_us"),
        spread_text(rows, "nccl_tests_us"),
        *(extreme_texts or ["-", "-"]),
    ]


def as_page(results: dict[str, Any]) -> str:
    """Returns the results as Markdown."""
    lines = [
        f"# busbw compared with nccl-tests: {machine_line(results['provenance'])}",
        "",
        f"Both programs alternated on {results['gpus']} GPUs with the same flags. A ratio is busbw's `time` over",
        "that of nccl-tests. A round is one start of each program and counts by the median of its cycles. Ratios are",
        "of geometric means over the rounds, with 95 % intervals in parentheses.",
        "",
        "- Limits: 0.97 to 1.03 from 1 MiB on, at most 1.02 below. A verdict is `met` or `not met` only if the whole",
        "  interval is within or outside the limit.",
        "- `busbw` and `nccl-tests`: longest over shortest round of one program, median over the sizes.",
        "- `g`: one process and one thread (`-g`). `t`: threads (`-t`). `processes`: a process for each GPU",
        f"  (nccl-tests: {results['their_processes']}).",
        "",
        *summary(results["rows"]),
        "",
        CHECK_NOTE,
    ]
    if results["left_out"]:
        lines += ["", f"Left out ({len(results['left_out'])}): {'; '.join(results['left_out'])}"]
    lines += ["", *single_size_lines(results["rows"])]
    return "\n".join(lines) + "\n"


def single_size_lines(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Returns the table of representative sizes."""
    lines = [
        f"Single sizes in place ({', '.join(map(size_text, SHOWN_BYTES))}; the summary counts all sizes and both "
        "placements):",
        "",
        "| ranks | collective | size | rounds | busbw (us) | nccl-tests (us) | ratio | verdict |",
        "| --- | --- | ---: | ---: | ---: | ---: | --- | --- |",
    ]
    for row in rows:
        if row["size_bytes"] not in SHOWN_BYTES or row["placement"] != "in_place":
            continue
        ours_us, theirs_us = (statistics.median(row[side]) for side in ("busbw_us", "nccl_tests_us"))
        estimate = estimate_ratio(row)
        lines.append(
            f"| {row['way']} | {row['collective']} | {size_text(row['size_bytes'])} | {len(row['busbw_us'])} | "
            f"{ours_us:.2f} | {theirs_us:.2f} | {estimate.text if estimate else '-'} | {row_verdict(row)} |"
        )
    return lines
