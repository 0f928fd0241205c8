"""Short page of bench/gpu_fastpath.py: a verdict for each target, extreme ratios, and tables of representative sizes.

A variant is NCCL, the fast path or a peer, with its settings. A ratio is the time of one variant over that of another
in the same round.

Rebuilds the page from the figures, for example with other sizes:

python bench/gpu_fastpath_page.py --sizes 1K,64K,1M,16M build/bench-results/h200-x2-fastpath.jsonl.gz
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from gpu_programs import machine_line, size_text

NCCL, OURS = "NCCL", "fast path"
NCCL_REGISTERED, OURS_REGISTERED = "NCCL -R 2", "fast path -R 2"
REGISTERED = (NCCL_REGISTERED, OURS_REGISTERED)
"""Variants with buffers in symmetric windows, which are compared only with each other."""
MAX_RATIO_TO_NCCL, MAX_RATIO_TO_BEST = 1.02, 1.03
"""Maximum ratio of the fast path's time to NCCL's time, and to the best peer's."""
MAX_TIME_US = {
    "all_reduce": {1 << 10: 2.8, 16 << 10: 3.4, 64 << 10: 4.7, 256 << 10: 6.5, 1 << 20: 12.5, 4 << 20: 28.0},
    "all_gather": {1 << 10: 2.8, 16 << 10: 3.3, 64 << 10: 4.0, 256 << 10: 5.5, 1 << 20: 7.0, 4 << 20: 14.0},
}
"""Targets of this project for four H200s, by collective and size in bytes: device time of half in graphs."""
MAX_REGISTERED_TIME_US = {**MAX_TIME_US, "all_reduce": {**MAX_TIME_US["all_reduce"], 1 << 20: 11.0, 4 << 20: 25.0}}
"""The same targets for buffers in symmetric windows."""
SHOWN_SIZES = "1K,16K,64K,256K,1M,4M,16M,64M,1G"
"""Default sizes of the tables. Verdicts and extreme ratios count all sizes."""


class Configuration(NamedTuple):
    """Properties that all sizes of a table share."""

    collective: str
    dtype: str
    launch: str  # "graph": in CUDA graphs, device time is compared; "stream": one by one, time is compared


class Figure(NamedTuple):
    """Time of one variant for one row in one round. The fields are the keys of the stored figures."""

    what: Configuration
    way: str  # name of the variant
    round: int
    size_bytes: int
    placement: str
    time_us: float | None
    device_time_us: float | None
    wrong_elements: int | None  # None if the data was not checked

    @property
    def compared_us(self) -> float | None:
        """Device time in graphs, otherwise time."""
        return self.device_time_us if self.what.launch == "graph" else self.time_us


class Ratio(NamedTuple):
    """Ratio of two times over the rounds: minimum, median and maximum."""

    minimum: float
    median: float
    maximum: float
    rounds: int

    def outcome(self, limit: float) -> str:
        """Returns "met", "missed" or "cannot be told" for a maximum ratio. A single round never counts as missed."""
        if self.median <= limit:
            return "met"
        is_missed = self.minimum > limit and self.rounds > 1
        return "missed" if is_missed else "cannot be told"

    @property
    def text(self) -> str:
        """Median, with minimum and maximum if there are several rounds."""
        if self.rounds == 1:
            return f"{self.median:.3f}"
        return f"{self.median:.3f} ({self.minimum:.3f} to {self.maximum:.3f})"


def ratio_over_rounds(numerator_us: dict[int, float], denominator_us: dict[int, float]) -> Ratio | None:
    """Returns the ratio of two variants' times, given by round. None if no round has both."""
    common_rounds = numerator_us.keys() & denominator_us.keys()
    values = sorted(numerator_us[number] / denominator_us[number] for number in common_rounds)
    return Ratio(values[0], median(values), values[-1], len(values)) if values else None


class Verdict(NamedTuple):
    """Verdict of one row for one target."""

    demand: str  # text of the target, by which the summary counts
    outcome: str  # met, missed, cannot be told
    text: str  # sentence with row, figures and outcome


class Row(NamedTuple):
    """One size and placement: medians over the rounds, and ratios of the fast path to other variants."""

    size_bytes: int
    medians_us: dict[str, float]  # by variant
    over_nccl: Ratio | None
    best_peer: str  # fastest other variant without registered buffers, including NCCL; empty if none was measured
    over_best: Ratio | None
    over_registered: Ratio | None  # fast path over NCCL, both with registered buffers


def summarize_row(size_bytes: int, figures: Sequence[Figure]) -> Row:
    """Summarizes the figures of one size and placement."""
    times_us: dict[str, dict[int, float]] = {}  # by variant and round
    for figure in figures:
        if figure.compared_us:
            times_us.setdefault(figure.way, {})[figure.round] = figure.compared_us
    medians_us = {variant: median(by_round.values()) for variant, by_round in times_us.items()}
    peers_us = {variant: us for variant, us in medians_us.items() if variant != OURS and variant not in REGISTERED}
    best_peer = min(peers_us, key=lambda variant: peers_us[variant], default="")

    def over(numerator: str, denominator: str) -> Ratio | None:
        return ratio_over_rounds(times_us.get(numerator, {}), times_us.get(denominator, {}))

    return Row(
        size_bytes,
        medians_us,
        over_nccl=over(OURS, NCCL),
        best_peer=best_peer,
        over_best=over(OURS, best_peer),
        over_registered=over(OURS_REGISTERED, NCCL_REGISTERED),
    )


def target_times(case: Configuration) -> list[tuple[str, dict[int, float]]]:
    """Returns the variants with target times, and their maximum time in us by size. Empty without targets."""
    if (case.dtype, case.launch) != ("half", "graph"):
        return []
    targets = [(OURS, MAX_TIME_US), (OURS_REGISTERED, MAX_REGISTERED_TIME_US)]
    return [(variant, limits_us[case.collective]) for variant, limits_us in targets if case.collective in limits_us]


def verdicts(case: Configuration, placement: str, row: Row) -> Iterator[Verdict]:
    """Yields the verdicts of one row."""
    title = f"{case.collective} {case.dtype} {case.launch} {placement.replace('_', ' ')} {size_text(row.size_bytes)}"
    for ours, other, ratio, limit in (
        (OURS, NCCL, row.over_nccl, MAX_RATIO_TO_NCCL),
        (OURS, "the best peer", row.over_best, MAX_RATIO_TO_BEST),
        (OURS_REGISTERED, NCCL_REGISTERED, row.over_registered, MAX_RATIO_TO_NCCL),
    ):
        if ratio:
            outcome = ratio.outcome(limit)
            text = f"{title}: {ours}: {ratio.median:.3f} of {other}'s time, at most {limit}: {outcome}"
            yield Verdict(f"{ours} at most {limit} of {other}'s time", outcome, text)
    for variant, limits_us in target_times(case):
        if row.size_bytes in limits_us and variant in row.medians_us:
            time_us, limit_us = row.medians_us[variant], limits_us[row.size_bytes]
            outcome = "met" if time_us <= limit_us else "missed"
            yield Verdict(
                "times that are wanted of 4 H200s",
                outcome,
                f"{title}: {variant}: {time_us:.2f} us, at most {limit_us:.1f}: {outcome}",
            )


class Columns(NamedTuple):
    """Columns of a table of one configuration. Some are shown only if they have figures."""

    case: Configuration
    variants: list[str]

    def titles(self) -> list[str]:
        """Returns the cells of the head."""
        titles = ["bytes", *(f"{variant} (us)" for variant in self.variants)]
        titles += ["over NCCL (least to most)", "over the best peer"]
        if OURS_REGISTERED in self.variants:
            titles += ["-R 2 over NCCL -R 2"]
        if target_times(self.case):
            titles += ["at most (us)"]
        return titles

    def cells(self, row: Row) -> list[str]:
        """Returns the cells of a row, in the order of the titles."""
        times_us = [row.medians_us.get(variant) for variant in self.variants]
        cells = [size_text(row.size_bytes), *("" if time_us is None else f"{time_us:.2f}" for time_us in times_us)]
        cells += [row.over_nccl.text if row.over_nccl else ""]
        cells += [f"{row.over_best.median:.3f} ({row.best_peer})" if row.over_best else ""]
        has_registered = OURS_REGISTERED in self.variants
        if has_registered:
            cells += [row.over_registered.text if row.over_registered else ""]
        if targets := target_times(self.case):
            plain_us, registered_us = (limits_us.get(row.size_bytes) for _, limits_us in targets)
            cells += [target_text(plain_us, registered_us if has_registered else plain_us)]
        return cells


def table(
    case: Configuration,
    placement: str,
    figures: Sequence[Figure],
    variants: Sequence[str],
) -> tuple[list[str], list[Verdict]]:
    """Returns a table of one configuration and its verdicts."""
    columns = Columns(case, [variant for variant in variants if any(figure.way == variant for figure in figures)])
    titles = columns.titles()
    lines = [f"| {' | '.join(titles)} |", f"| {' | '.join('---:' for _ in titles)} |"]
    found_verdicts: list[Verdict] = []
    for size in sorted({figure.size_bytes for figure in figures}):
        row = summarize_row(size, figures_of(figures, size, placement))
        if OURS not in row.medians_us:
            continue
        lines.append(f"| {' | '.join(columns.cells(row))} |")
        found_verdicts += verdicts(case, placement, row)
    return lines, found_verdicts


def figures_of(figures: Sequence[Figure], size_bytes: int, placement: str) -> list[Figure]:
    """Returns the figures of one size and placement."""
    return [figure for figure in figures if (figure.size_bytes, figure.placement) == (size_bytes, placement)]


def target_text(plain_us: float | None, registered_us: float | None) -> str:
    """Returns the target time, and that for registered buffers if it differs. Empty without a target."""
    if not plain_us:
        return ""
    return f"{plain_us:.1f}" + (f" (-R 2: {registered_us:.1f})" if registered_us != plain_us else "")


def rounds_text(figures: Sequence[Figure]) -> str:
    """Describes the number of rounds, which may differ if the budget ended within a round."""
    rounds = Counter(variant for variant, _ in {(figure.way, figure.round) for figure in figures})
    minimum, maximum = min(rounds.values()), max(rounds.values())
    if maximum == 1:
        return "one round"
    return f"medians of {maximum} rounds" if minimum == maximum else f"medians of {minimum} to {maximum} rounds"


def extremes_row(case: Configuration, placement: str, figures: Sequence[Figure]) -> str | None:
    """Returns a table line with the minimum and maximum ratios of one configuration. None if it has no ratio."""
    sizes = sorted({figure.size_bytes for figure in figures if figure.placement == placement})
    rows = [summarize_row(size, figures_of(figures, size, placement)) for size in sizes]
    cells = []
    for ratios in (
        [(row.over_nccl.median, row.size_bytes) for row in rows if row.over_nccl],
        [(row.over_best.median, row.size_bytes) for row in rows if row.over_best],
        [(row.over_registered.median, row.size_bytes) for row in rows if row.over_registered],
    ):
        extremes = (min(ratios), max(ratios)) if ratios else ()
        cells += [f"{value:.3f} ({size_text(size)})" for value, size in extremes] or ["", ""]
    if not any(cells):
        return None
    launch = "graph" if case.launch == "graph" else "one by one"
    head = [case.collective, case.dtype, placement.replace("_", " "), launch, str(len(sizes)), rounds_text(figures)]
    return f"| {' | '.join([*head, *cells])} |"


def page(
    facts: dict[str, Any],
    figures: Sequence[Figure],
    variants: Sequence[str],
    notes: Sequence[str],
    sizes: str = SHOWN_SIZES,
) -> str:
    """Returns the page: first the missed targets, then extreme ratios, then in-place tables of these sizes."""
    parts: list[str] = []
    extremes: list[str] = []
    shown_sizes = set(sizes.split(","))
    all_verdicts: list[Verdict] = []
    for case in dict.fromkeys(figure.what for figure in figures):
        own_figures = [figure for figure in figures if figure.what == case]
        timed = "device time, in CUDA graphs" if case.launch == "graph" else "time, launched one by one"
        for placement in ("in_place", "out_of_place"):
            lines, table_verdicts = table(case, placement, own_figures, variants)
            all_verdicts += table_verdicts
            if line := extremes_row(case, placement, own_figures):
                extremes.append(line)
            head_lines, row_lines = lines[:2], lines[2:]
            shown_lines = [line for line in row_lines if first_cell(line) in shown_sizes]
            if shown_lines and placement == "in_place":
                title = f"{case.collective}, {case.dtype}, in place: {timed}, {rounds_text(own_figures)}"
                parts += ["", f"## {title}", "", *head_lines, *shown_lines]
    head = [
        f"# The fast path compared with its peers: {machine_line(facts)}",
        "",
        f"{checks_sentence(figures)} The best peer uses no registered buffers. With `-R 2` (symmetric windows) the "
        "peer is NCCL with `-R 2`.",
        "",
        *(f"- {sentence}" for sentence in notes),
        "",
        *summary(all_verdicts),
        "",
        "Least and greatest ratio over all sizes, each with its size:",
        "",
        "| collective | type | placement | launch | sizes | rounds | over NCCL: least | greatest "
        "| over the best peer: least | greatest | -R 2 over NCCL -R 2: least | greatest |",
        "| --- | --- | --- | --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        *extremes,
        "",
        f"The tables below show the sizes {sizes.replace(',', ', ')} in place.",
    ]
    return "\n".join([*head, *parts]) + "\n"


def first_cell(line: str) -> str:
    """Returns the first cell of a line of a table: the size of a row."""
    return line.split(" | ")[0].removeprefix("| ")


def checks_sentence(figures: Sequence[Figure]) -> str:
    """Returns the number of checked results of the fast path, and their wrong elements."""
    ours = [figure for figure in figures if figure.way in (OURS, OURS_REGISTERED)]
    checked = [figure.wrong_elements for figure in ours if figure.wrong_elements is not None]
    return f"The engine checked {len(checked)} results of the fast path and found {sum(checked)} wrong elements."


def summary(verdicts: Sequence[Verdict]) -> list[str]:
    """Returns the number of rows per target and verdict, and lists the rows that miss a target."""
    lines = ["| demand | rows | met | missed | cannot be told |", "| --- | ---: | ---: | ---: | ---: |"]
    for demand in dict.fromkeys(verdict.demand for verdict in verdicts):
        counts = Counter(verdict.outcome for verdict in verdicts if verdict.demand == demand)
        numbers = [counts.total(), *(counts[outcome] for outcome in ("met", "missed", "cannot be told"))]
        lines.append(f"| {demand} | {' | '.join(map(str, numbers))} |")
    unmet = [f"- {verdict.text}" for verdict in verdicts if verdict.outcome != "met"]
    return [*lines, *(["", "Demands that are missed or cannot be told:", "", *unmet] if unmet else [])]


def read_figures(path: Path) -> tuple[dict[str, Any], list[Figure]]:
    """Reads facts and figures of a .jsonl.gz."""
    with gzip.open(path, "rt") as file:
        facts, *rows = [json.loads(line) for line in file]
    return (
        {name: value for name, value in facts.items() if name != "kind"},
        [Figure(**{**row, "what": Configuration(**row["what"])}) for row in rows],
    )


def write_results(results: Path, facts: dict[str, Any], figures: Sequence[Figure]) -> str:
    """Writes figures and page, and returns the page; `results` has no suffix."""
    results.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(f"{results}.jsonl.gz", "wt") as file:
        file.write(json.dumps({"kind": "provenance", **facts}) + "\n")
        for figure in figures:
            file.write(json.dumps(figure._asdict() | {"what": figure.what._asdict()}) + "\n")
    return write_page(results, facts, figures)


def write_page(results: Path, facts: dict[str, Any], figures: Sequence[Figure], sizes: str = SHOWN_SIZES) -> str:
    """Writes the page beside the figures and returns it; `results` has no suffix."""
    text = page(facts, figures, list(facts["ways"]), facts["said"], sizes)
    Path(f"{results}.md").write_text(text)
    return text


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", nargs="+", help="files that gpu_fastpath.py wrote, *.jsonl.gz")
    parser.add_argument("--sizes", default=SHOWN_SIZES, help=f"sizes of the tables [default: {SHOWN_SIZES}]")
    arguments = parser.parse_args()
    for name in arguments.figures:
        write_page(Path(name.removesuffix(".jsonl.gz")), *read_figures(Path(name)), arguments.sizes)
