"""Short page of bench/gpu_fastpath.py: a verdict for each target, extreme ratios, and tables of representative sizes.

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

from gpu_fastpath_floor import Floor, floor_of
from gpu_programs import machine_line, size_text

NCCL, OURS = "NCCL", "fast path"
NCCL_REGISTERED, OURS_REGISTERED = "NCCL -R 2", "fast path -R 2"
REGISTERED = (NCCL_REGISTERED, OURS_REGISTERED)
"""Variants with buffers in symmetric windows, which are compared only with each other."""
NOT_SLOWER_THAN_NCCL, NOT_SLOWER_THAN_BEST = 1.02, 1.03
AT_MOST_US = {
    "all_reduce": {1 << 10: 2.8, 16 << 10: 3.4, 64 << 10: 4.7, 256 << 10: 6.5, 1 << 20: 12.5, 4 << 20: 28.0},
    "all_gather": {1 << 10: 2.8, 16 << 10: 3.3, 64 << 10: 4.0, 256 << 10: 5.5, 1 << 20: 7.0, 4 << 20: 14.0},
}
"""Targets of this project for four H200s: device time of half."""
SHOWN_SIZES = "1K,16K,64K,256K,1M,4M,16M,64M,1G"
"""Default sizes of the tables. Verdicts and extreme ratios count all sizes."""
AT_MOST_REGISTERED_US = {**AT_MOST_US, "all_reduce": {**AT_MOST_US["all_reduce"], 1 << 20: 11.0, 4 << 20: 25.0}}


class Configuration(NamedTuple):
    """One configuration."""

    collective: str
    dtype: str
    launch: str  # "graph": device time is compared; "stream": time


class Figure(NamedTuple):
    """Time of one variant for one row in one round."""

    what: Configuration
    way: str
    round: int
    size_bytes: int
    placement: str
    time_us: float | None
    device_time_us: float | None
    wrong_elements: int | None

    @property
    def us(self) -> float | None:
        """The compared time: device time in graphs, else time."""
        return self.device_time_us if self.what.launch == "graph" else self.time_us


class Ratio(NamedTuple):
    """Ratio of two times over the rounds: minimum, median and maximum."""

    least: float
    middle: float
    most: float
    rounds: int

    def against(self, limit: float) -> str:
        """Returns the verdict for a limit. One round alone cannot miss it."""
        if self.middle <= limit:
            return "met"
        return "missed" if self.least > limit and self.rounds > 1 else "cannot be told"

    @property
    def text(self) -> str:
        """Median, with minimum and maximum if there are several rounds."""
        if self.rounds == 1:
            return f"{self.middle:.3f}"
        return f"{self.middle:.3f} ({self.least:.3f} to {self.most:.3f})"


def ratio(ours: dict[int, float], theirs: dict[int, float]) -> Ratio | None:
    """Returns the ratio of two variants by round. None if no round has both."""
    values = sorted(ours[number] / theirs[number] for number in ours.keys() & theirs.keys())
    return Ratio(values[0], median(values), values[-1], len(values)) if values else None


def above(us: float | None, floor_us: float) -> str:
    """Returns the distance of a time from the floor. Empty without a time."""
    return f"{us - floor_us:.2f} ({us / floor_us:.2f} x)" if us else ""


class Verdict(NamedTuple):
    """Verdict of one row for one target."""

    demand: str
    outcome: str  # met, missed, cannot be told
    text: str


class Row(NamedTuple):
    """One size and placement: medians, and ratios of the fast path to the others."""

    size_bytes: int
    middles_us: dict[str, float]
    over_nccl: Ratio | None
    best: str
    over_best: Ratio | None
    over_registered: Ratio | None


def row(size_bytes: int, figures: Sequence[Figure]) -> Row:
    """Summarizes the figures of one size and placement."""
    times: dict[str, dict[int, float]] = {}
    for figure in figures:
        if figure.us:
            times.setdefault(figure.way, {})[figure.round] = figure.us
    middles = {way: median(of_rounds.values()) for way, of_rounds in times.items()}
    peers = {way: time for way, time in middles.items() if way != OURS and way not in REGISTERED}
    best = min(peers, key=lambda way: peers[way], default="")

    def over(ours: str, theirs: str) -> Ratio | None:
        return ratio(times.get(ours, {}), times.get(theirs, {}))

    return Row(size_bytes, middles, over(OURS, NCCL), best, over(OURS, best), over(OURS_REGISTERED, NCCL_REGISTERED))


def targets(case: Configuration) -> list[tuple[str, dict[int, float]]]:
    """Returns the variants with target times, and their maximum time by size."""
    if (case.dtype, case.launch) != ("half", "graph"):
        return []
    found = [(OURS, AT_MOST_US), (OURS_REGISTERED, AT_MOST_REGISTERED_US)]
    return [(way, limits[case.collective]) for way, limits in found if case.collective in limits]


def verdicts(case: Configuration, placement: str, result: Row) -> Iterator[Verdict]:
    """Yields the verdicts of one row."""
    title = f"{case.collective} {case.dtype} {case.launch} {placement.replace('_', ' ')} {size_text(result.size_bytes)}"
    for ours, theirs, found, limit in (
        (OURS, NCCL, result.over_nccl, NOT_SLOWER_THAN_NCCL),
        (OURS, "the best peer", result.over_best, NOT_SLOWER_THAN_BEST),
        (OURS_REGISTERED, NCCL_REGISTERED, result.over_registered, NOT_SLOWER_THAN_NCCL),
    ):
        if found:
            outcome = found.against(limit)
            text = f"{title}: {ours}: {found.middle:.3f} of {theirs}'s time, at most {limit}: {outcome}"
            yield Verdict(f"{ours} at most {limit} of {theirs}'s time", outcome, text)
    for way, limits in targets(case):
        if result.size_bytes in limits and way in result.middles_us:
            us, most = result.middles_us[way], limits[result.size_bytes]
            outcome = "met" if us <= most else "missed"
            yield Verdict(
                "times that are wanted of 4 H200s",
                outcome,
                f"{title}: {way}: {us:.2f} us, at most {most:.1f}: {outcome}",
            )


def table(
    case: Configuration,
    placement: str,
    figures: Sequence[Figure],
    ways: Sequence[str],
    floor: Floor | None = None,
) -> tuple[list[str], list[Verdict]]:
    """Returns a table of one configuration and its verdicts. `floor` applies only to times in graphs."""
    present = [way for way in ways if any(figure.way == way for figure in figures)]
    limits = targets(case)
    registered = OURS_REGISTERED in present
    head = ["bytes", *(f"{way} (us)" for way in present), "over NCCL (least to most)", "over the best peer"]
    head += ["-R 2 over NCCL -R 2"] * registered + ["at most (us)"] * bool(limits)
    with_floor = floor if case.launch == "graph" else None
    if with_floor:
        head += ["floor (us)", "above it (us)"] + ["-R 2 above it (us)"] * registered
    lines = [f"| {' | '.join(head)} |", f"| {' | '.join('---:' for _ in head)} |"]
    notes: list[Verdict] = []
    for size in sorted({figure.size_bytes for figure in figures}):
        result = row(size, [f for f in figures if f.size_bytes == size and f.placement == placement])
        if OURS not in result.middles_us:
            continue
        cells = [
            size_text(size),
            *(f"{result.middles_us[way]:.2f}" if way in result.middles_us else "" for way in present),
        ]
        cells += [result.over_nccl.text if result.over_nccl else ""]
        cells += [f"{result.over_best.middle:.3f} ({result.best})" if result.over_best else ""]
        if registered:
            cells += [result.over_registered.text if result.over_registered else ""]
        if limits:
            plain, with_windows = (found.get(size) for _, found in limits)
            differ = plain and with_windows != plain and registered
            cells += [f"{plain:.1f}" + (f" (-R 2: {with_windows:.1f})" if differ else "") if plain else ""]
        if with_floor:
            least = with_floor.us(case.collective, size)
            shown = (OURS, OURS_REGISTERED) if registered else (OURS,)
            cells += [f"{least:.2f}" if least else ""]
            cells += [above(result.middles_us.get(way), least) if least else "" for way in shown]
        lines.append(f"| {' | '.join(cells)} |")
        notes += verdicts(case, placement, result)
    return lines, notes


def rounds_of(figures: Sequence[Figure]) -> str:
    """Describes the number of rounds, which may differ if the budget ended within a round."""
    of_ways = Counter(way for way, _ in {(figure.way, figure.round) for figure in figures})
    least, most = min(of_ways.values()), max(of_ways.values())
    if most == 1:
        return "one round"
    return f"medians of {most} rounds" if least == most else f"medians of {least} to {most} rounds"


def extremes_row(case: Configuration, placement: str, figures: Sequence[Figure]) -> str | None:
    """Returns a table line with the minimum and maximum ratios of one configuration. None if it has no ratio."""
    sizes = sorted({figure.size_bytes for figure in figures if figure.placement == placement})
    rows = [row(size, [f for f in figures if f.size_bytes == size and f.placement == placement]) for size in sizes]
    cells = []
    for ratios in (
        [(one.over_nccl.middle, one.size_bytes) for one in rows if one.over_nccl],
        [(one.over_best.middle, one.size_bytes) for one in rows if one.over_best],
        [(one.over_registered.middle, one.size_bytes) for one in rows if one.over_registered],
    ):
        edges = (min(ratios), max(ratios)) if ratios else ()
        cells += [f"{value:.3f} ({size_text(size)})" for value, size in edges] or ["", ""]
    if not any(cells):
        return None
    launch = "graph" if case.launch == "graph" else "one by one"
    head = [case.collective, case.dtype, placement.replace("_", " "), launch, str(len(sizes)), rounds_of(figures)]
    return f"| {' | '.join([*head, *cells])} |"


def page(
    facts: dict[str, Any],
    figures: Sequence[Figure],
    ways: Sequence[str],
    notes: Sequence[str],
    sizes: str = SHOWN_SIZES,
) -> str:
    """Returns the page: first the missed targets, then extreme ratios, then in-place tables of these sizes."""
    parts: list[str] = []
    extremes: list[str] = []
    shown = set(sizes.split(","))
    found: list[Verdict] = []
    floor = floor_of(facts["machine"]) if any(figure.what.launch == "graph" for figure in figures) else None
    for case in dict.fromkeys(figure.what for figure in figures):
        own_figures = [figure for figure in figures if figure.what == case]
        timed = "device time, in CUDA graphs" if case.launch == "graph" else "time, launched one by one"
        for placement in ("in_place", "out_of_place"):
            lines, of_table = table(case, placement, own_figures, ways, floor)
            found += of_table
            if line := extremes_row(case, placement, own_figures):
                extremes.append(line)
            rows = [line for line in lines[2:] if line.split(" | ")[0].removeprefix("| ") in shown]
            if rows and placement == "in_place":
                title = f"{case.collective}, {case.dtype}, in place: {timed}, {rounds_of(own_figures)}"
                parts += ["", f"## {title}", "", *lines[:2], *rows]
    ours = [figure for figure in figures if figure.way in (OURS, OURS_REGISTERED)]
    checked = [figure.wrong_elements for figure in ours if figure.wrong_elements is not None]
    head = [
        f"# The fast path compared with its peers: {machine_line(facts)}",
        "",
        f"The engine checked {len(checked)} results of the fast path and found {sum(checked)} wrong elements. The best "
        "peer uses no registered buffers. With `-R 2` (symmetric windows) the peer is NCCL with `-R 2`.",
        "",
        *([floor.words, ""] if floor else []),
        *(f"- {sentence}" for sentence in notes),
        "",
        *summary(found),
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


def summary(found: Sequence[Verdict]) -> list[str]:
    """Returns the number of rows per target and verdict, and lists the rows that miss a target."""
    lines = ["| demand | rows | met | missed | cannot be told |", "| --- | ---: | ---: | ---: | ---: |"]
    for demand in dict.fromkeys(verdict.demand for verdict in found):
        counts = Counter(verdict.outcome for verdict in found if verdict.demand == demand)
        numbers = [counts.total(), *(counts[outcome] for outcome in ("met", "missed", "cannot be told"))]
        lines.append(f"| {demand} | {' | '.join(map(str, numbers))} |")
    unmet = [f"- {verdict.text}" for verdict in found if verdict.outcome != "met"]
    return [*lines, *(["", "Demands that are missed or cannot be told:", "", *unmet] if unmet else [])]


def read(path: Path) -> tuple[dict[str, Any], list[Figure]]:
    """Reads facts and figures of a .jsonl.gz."""
    with gzip.open(path, "rt") as file:
        facts, *rows = [json.loads(line) for line in file]
    return (
        {name: value for name, value in facts.items() if name != "kind"},
        [Figure(**{**each, "what": Configuration(**each["what"])}) for each in rows],
    )


def write(results: Path, facts: dict[str, Any], figures: Sequence[Figure], sizes: str = SHOWN_SIZES) -> str:
    """Writes the page beside the figures and returns it; `results` has no suffix."""
    text = page(facts, figures, list(facts["ways"]), facts["said"], sizes)
    Path(f"{results}.md").write_text(text)
    return text


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", nargs="+", help="files that gpu_fastpath.py wrote, *.jsonl.gz")
    parser.add_argument("--sizes", default=SHOWN_SIZES, help=f"sizes of the tables [default: {SHOWN_SIZES}]")
    asked = parser.parse_args()
    for name in asked.figures:
        write(Path(name.removesuffix(".jsonl.gz")), *read(Path(name)), asked.sizes)
