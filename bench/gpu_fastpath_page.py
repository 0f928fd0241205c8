"""Short page of bench/gpu_fastpath.py: a verdict for each limit, extreme ratios, and tables of representative sizes.

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
BEST_PEER = "the best peer"
"""Fastest other variant of a row without registered buffers, including NCCL."""


class Comparison(NamedTuple):
    """Two variants to compare, and the maximum ratio of their times."""

    ours: str
    other: str
    limit: float


COMPARISONS = (
    Comparison(OURS, NCCL, 1.02),
    Comparison(OURS, BEST_PEER, 1.03),
    Comparison(OURS_REGISTERED, NCCL_REGISTERED, 1.02),
)
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
    """Verdict of one row for one comparison."""

    demand: str  # text of the limit, by which the summary counts
    outcome: str  # met, missed, cannot be told
    text: str  # sentence with row, figures and outcome


class Row(NamedTuple):
    """One size and placement: medians over the rounds, and ratios of the fast path to other variants."""

    size_bytes: int
    medians_us: dict[str, float]  # by variant
    best_peer: str  # name of BEST_PEER; empty if no other variant was measured
    ratios: dict[Comparison, Ratio]  # in the order of COMPARISONS


def summarize_rows(figures: Sequence[Figure], placement: str) -> list[Row]:
    """Summarizes the figures of one placement by size. Sizes that the fast path has not measured are left out."""
    figures_by_size: dict[int, list[Figure]] = {}
    for figure in figures:
        if figure.placement == placement:
            figures_by_size.setdefault(figure.size_bytes, []).append(figure)
    rows = [_summarize_row(size, figures_by_size[size]) for size in sorted(figures_by_size)]
    return [row for row in rows if OURS in row.medians_us]


def _summarize_row(size_bytes: int, figures: Sequence[Figure]) -> Row:
    times_us: dict[str, dict[int, float]] = {}  # by variant and round
    for figure in figures:
        if figure.compared_us:
            times_us.setdefault(figure.way, {})[figure.round] = figure.compared_us
    medians_us = {variant: median(by_round.values()) for variant, by_round in times_us.items()}
    peers_us = {variant: us for variant, us in medians_us.items() if variant != OURS and variant not in REGISTERED}
    best_peer = min(peers_us, key=lambda variant: peers_us[variant], default="")
    ratios = {}
    for comparison in COMPARISONS:
        other = best_peer if comparison.other == BEST_PEER else comparison.other
        if ratio := ratio_over_rounds(times_us.get(comparison.ours, {}), times_us.get(other, {})):
            ratios[comparison] = ratio
    return Row(size_bytes, medians_us, best_peer, ratios)


def verdicts(case: Configuration, placement: str, row: Row) -> Iterator[Verdict]:
    """Yields the verdicts of one row."""
    title = f"{case.collective} {case.dtype} {case.launch} {placement.replace('_', ' ')} {size_text(row.size_bytes)}"
    for comparison, ratio in row.ratios.items():
        outcome = ratio.outcome(comparison.limit)
        demand = f"{comparison.ours} at most {comparison.limit} of {comparison.other}'s time"
        figures_text = f"{ratio.median:.3f} of {comparison.other}'s time, at most {comparison.limit}"
        yield Verdict(demand, outcome, f"{title}: {comparison.ours}: {figures_text}: {outcome}")


def table(rows: Sequence[Row], variants: Sequence[str]) -> list[str]:
    """Returns a table of one configuration. Variants and comparisons without figures are left out."""
    shown_variants = [variant for variant in variants if any(variant in row.medians_us for row in rows)]
    comparisons = [comparison for comparison in COMPARISONS if any(comparison in row.ratios for row in rows)]
    titles = ["bytes", *(f"{variant} (us)" for variant in shown_variants)]
    titles += [f"{comparison.ours} over {comparison.other}" for comparison in comparisons]
    lines = [f"| {' | '.join(titles)} |", f"| {' | '.join('---:' for _ in titles)} |"]
    for row in rows:
        times = [f"{row.medians_us[variant]:.2f}" if variant in row.medians_us else "" for variant in shown_variants]
        ratios = [row.ratios[comparison].text if comparison in row.ratios else "" for comparison in comparisons]
        lines.append(f"| {' | '.join([size_text(row.size_bytes), *times, *ratios])} |")
    return lines


def rounds_text(figures: Sequence[Figure]) -> str:
    """Describes the number of rounds, which may differ if the measurement ended within a round."""
    rounds = Counter(variant for variant, _ in {(figure.way, figure.round) for figure in figures})
    minimum, maximum = min(rounds.values()), max(rounds.values())
    if maximum == 1:
        return "one round"
    return f"medians of {maximum} rounds" if minimum == maximum else f"medians of {minimum} to {maximum} rounds"


def extreme_cells(rows: Sequence[Row]) -> list[str]:
    """Returns the minimum and maximum ratio of each comparison with their sizes. Empty texts without a ratio."""
    cells = []
    for comparison in COMPARISONS:
        ratios = [(row.ratios[comparison].median, row.size_bytes) for row in rows if comparison in row.ratios]
        extremes = (min(ratios), max(ratios)) if ratios else ()
        cells += [f"{value:.3f} ({size_text(size)})" for value, size in extremes] or ["", ""]
    return cells


def page(
    facts: dict[str, Any],
    figures: Sequence[Figure],
    variants: Sequence[str],
    notes: Sequence[str],
    sizes: str = SHOWN_SIZES,
) -> str:
    """Returns the page: first the missed limits, then extreme ratios, then in-place tables of these sizes."""
    parts: list[str] = []
    extremes: list[str] = []
    all_verdicts: list[Verdict] = []
    for case in dict.fromkeys(figure.what for figure in figures):
        own_figures = [figure for figure in figures if figure.what == case]
        own_rounds_text = rounds_text(own_figures)
        for placement in ("in_place", "out_of_place"):
            rows = summarize_rows(own_figures, placement)
            all_verdicts += (verdict for row in rows for verdict in verdicts(case, placement, row))
            launch = "graph" if case.launch == "graph" else "one by one"
            cells = [case.collective, case.dtype, placement.replace("_", " "), launch, str(len(rows)), own_rounds_text]
            if any(row.ratios for row in rows):
                extremes.append(f"| {' | '.join([*cells, *extreme_cells(rows)])} |")
            shown_rows = [row for row in rows if size_text(row.size_bytes) in sizes.split(",")]
            if shown_rows and placement == "in_place":
                timed = "device time, in CUDA graphs" if case.launch == "graph" else "time, launched one by one"
                title = f"{case.collective}, {case.dtype}, in place: {timed}, {own_rounds_text}"
                parts += ["", f"## {title}", "", *table(shown_rows, variants)]
    extreme_titles = [
        title
        for comparison in COMPARISONS
        for title in (f"{comparison.ours} over {comparison.other}: least", "greatest")
    ]
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
        f"| collective | type | placement | launch | sizes | rounds | {' | '.join(extreme_titles)} |",
        f"| --- | --- | --- | --- | ---: | --- | {' | '.join('---:' for _ in extreme_titles)} |",
        *extremes,
        "",
        f"The tables below show the sizes {sizes.replace(',', ', ')} in place.",
    ]
    return "\n".join([*head, *parts]) + "\n"


def checks_sentence(figures: Sequence[Figure]) -> str:
    """Returns the number of checked results of the fast path, and their wrong elements."""
    ours = [figure for figure in figures if figure.way in (OURS, OURS_REGISTERED)]
    checked = [figure.wrong_elements for figure in ours if figure.wrong_elements is not None]
    return f"The engine checked {len(checked)} results of the fast path and found {sum(checked)} wrong elements."


def summary(verdicts: Sequence[Verdict]) -> list[str]:
    """Returns the number of rows per demand and verdict, and lists the rows that miss a limit."""
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
