"""The fast path beside NCCL and its other peers on one machine: the same programs, sizes and rounds, in one run.

    python bench/gpu_fastpath.py --results bench/results/h200-x4-fastpath \
        --peer 'NCCL -R 2=-R 2' --peer 'MSCCL++=--library libmscclpp_nccl.so MSCCLPP_NCCL_LIB_PATH=libnccl.so.2'

A peer is a name and a side as `busbw ab` takes it. Plain NCCL and the fast path are always measured. Each round starts
every way once for each configuration, in an order of its own; figures are medians over rounds, ratios are of figures of
the same round, with their least and greatest. It ends when its rounds are done or --budget-s is used up, and writes
what it has.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from gpu_programs import machine_line, size_text, without_paths

from busbw import engine
from busbw.ab import BlockEndedError, Measurement, SideSpec, parse_side
from busbw.errors import Exit

REDUCING = ("all_reduce", "reduce_scatter")
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "alltoall")
NCCL, OURS = "NCCL", "fast path"
BANDS = {
    "small": (("-b", "8", "-e", "16M", "-f", "2", "-w", "20", "-n", "200"), "2"),
    "large": (("-b", "32M", "-e", "1G", "-f", "2", "-w", "2", "-n", "20"), "1"),
}
"""Flags, and how often a graph of the iterations is launched (-G)."""
TRIAL = ("-b", "8", "-e", "4K", "-f", "2", "-w", "1", "-n", "4")
NOT_SLOWER_THAN_NCCL, NOT_SLOWER_THAN_BEST = 1.02, 1.03
AT_MOST_US = {
    "all_reduce": {1 << 10: 2.8, 16 << 10: 3.4, 64 << 10: 4.7, 256 << 10: 6.5, 1 << 20: 12.5, 4 << 20: 28.0},
    "all_gather": {1 << 10: 2.8, 16 << 10: 3.3, 64 << 10: 4.0, 256 << 10: 5.5, 1 << 20: 7.0, 4 << 20: 14.0},
}
"""What this project set itself for four H200s, device time of halves."""


class What(NamedTuple):
    """One configuration."""

    collective: str
    dtype: str
    launch: str  # "graph": the device's time; "stream": what a program pays


class Figure(NamedTuple):
    """One way's time of one row in one round."""

    what: What
    way: str
    round: int
    size_bytes: int
    placement: str
    time_us: float | None
    device_time_us: float | None
    wrong_elements: int | None

    @property
    def us(self) -> float | None:
        """What is compared."""
        return self.device_time_us if self.what.launch == "graph" else self.time_us


def configurations(collectives: Sequence[str], dtypes: Sequence[str], launches: Sequence[str]) -> list[What]:
    """All that is measured; types make no difference where data are only moved."""
    return [
        What(collective, dtype, launch)
        for launch in launches
        for collective in collectives
        for dtype in (dtypes if collective in REDUCING else dtypes[:1])
    ]


def flags(what: What, band: str, ranks: Sequence[str], *, trial: bool) -> tuple[str, ...]:
    """The engine's, for one start."""
    sweep, graphs = (TRIAL, "1") if trial else BANDS[band]
    recorded = ("-G", graphs) if what.launch == "graph" and not trial else ()
    return (*ranks, "-d", what.dtype, *sweep, *recorded, "-T", "60")


def measured(
    what: What, way: str, side: SideSpec, number: int, words: tuple[str, ...], folder: Path
) -> Iterator[Figure]:
    """One start. The first round is checked."""
    name = f"{number}-{len(list(folder.iterdir()))}"
    block = Measurement(engine.program(f"{what.collective}_perf"), words, folder).block(
        side, name, "-c", "1" if number == 1 else "0"
    )
    for point, figure in block.items():
        yield Figure(
            what,
            way,
            number,
            point.size_bytes,
            point.placement,
            figure.time_us,
            figure.device_time_us,
            figure.wrong_elements,
        )


class Ratio(NamedTuple):
    """A time over another's."""

    least: float
    middle: float
    most: float

    def against(self, limit: float) -> str:
        """Whether it is at most so much."""
        return "met" if self.middle <= limit else "missed" if self.least > limit else "cannot be told"


def ratio(ours: dict[int, float], theirs: dict[int, float]) -> Ratio | None:
    """Of figures by round; None where no round has both."""
    values = sorted(ours[number] / theirs[number] for number in ours.keys() & theirs.keys())
    return Ratio(values[0], median(values), values[-1]) if values else None


def by_way(figures: Sequence[Figure]) -> dict[str, dict[int, float]]:
    """Times by way and round, of one row."""
    found: dict[str, dict[int, float]] = {}
    for figure in figures:
        if figure.us:
            found.setdefault(figure.way, {})[figure.round] = figure.us
    return found


def table(what: What, placement: str, figures: Sequence[Figure], ways: Sequence[str]) -> tuple[list[str], list[str]]:
    """A table of one configuration, and what it says of each demand."""
    demands = AT_MOST_US.get(what.collective, {}) if (what.dtype, what.launch) == ("half", "graph") else {}
    head = ["bytes", *(f"{way} (us)" for way in ways), "over NCCL (least to most)", "over the best peer"]
    lines = [f"| {' | '.join([*head, 'at most (us)'] if demands else head)} |"]
    lines.append(f"| {' | '.join('---:' for _ in range(len(head) + bool(demands)))} |")
    verdicts = []
    for size in sorted({figure.size_bytes for figure in figures}):
        times = by_way([f for f in figures if f.size_bytes == size and f.placement == placement])
        if OURS not in times:
            continue
        middles = {way: median(times[way].values()) for way in ways if way in times}
        peers = {way: time for way, time in middles.items() if way != OURS}
        over_nccl = ratio(times[OURS], times.get(NCCL, {}))
        best = min(peers, key=lambda way: peers[way], default=None)
        over_best = ratio(times[OURS], times[best]) if best else None
        cells = [size_text(size), *(f"{middles[way]:.2f}" if way in middles else "" for way in ways)]
        cells += [f"{over_nccl.middle:.3f} ({over_nccl.least:.3f} to {over_nccl.most:.3f})" if over_nccl else ""]
        cells += [f"{over_best.middle:.3f} ({best})" if over_best else ""]
        if demands:
            cells.append(f"{demands[size]:.1f}" if size in demands else "")
        lines.append(f"| {' | '.join(cells)} |")
        where = f"{what.collective} {what.dtype} {what.launch} {placement.replace('_', ' ')} {size_text(size)}"
        for name, found, limit in (
            ("NCCL", over_nccl, NOT_SLOWER_THAN_NCCL),
            ("the best peer", over_best, NOT_SLOWER_THAN_BEST),
        ):
            if found and (said := found.against(limit)) != "met":
                verdicts.append(f"{where}: {found.middle:.3f} of {name}'s time, at most {limit}: {said}")
        if size in demands and middles[OURS] > demands[size]:
            verdicts.append(f"{where}: {middles[OURS]:.2f} us, at most {demands[size]:.1f}: missed")
    return lines, verdicts


def page(facts: dict[str, Any], figures: Sequence[Figure], ways: Sequence[str], said: Sequence[str]) -> str:
    """All tables, what was not met first."""
    parts, verdicts = [], []
    for what in dict.fromkeys(figure.what for figure in figures):
        own = [figure for figure in figures if figure.what == what]
        timed = "device time, in CUDA graphs" if what.launch == "graph" else "time, launched one by one"
        for placement in ("in_place", "out_of_place"):
            lines, found = table(what, placement, own, ways)
            if len(lines) > 2:
                title = f"{what.collective}, {what.dtype}, {placement.replace('_', ' ')}: {timed}"
                parts += ["", f"## {title}", "", *lines]
                verdicts += found
    wrong = sum(figure.wrong_elements or 0 for figure in figures if figure.way == OURS)
    checked = sum(figure.wrong_elements is not None for figure in figures if figure.way == OURS)
    rounds = max((figure.round for figure in figures), default=0)
    head = [
        f"# The fast path beside its peers: {machine_line(facts)}",
        "",
        f"{rounds} rounds; medians over them. Of the fast path {checked} measurements were checked, with {wrong} wrong "
        "elements.",
        "",
        *(f"- {sentence}" for sentence in said),
        "",
        "Not met, or not to be told:"
        if verdicts
        else "Every demand was met: at most 1.02 of NCCL's time, 1.03 of the "
        "best peer's, and the figures in the last column.",
        *(["", *(f"- {verdict}" for verdict in verdicts)] if verdicts else []),
    ]
    return "\n".join([*head, *parts]) + "\n"


def main() -> int:
    """Measures and writes page and figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, required=True, help="without suffix; .md and .jsonl.gz are written")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=SIDE", help="another way; repeatable")
    parser.add_argument("--ours", default="--preload libbusbw_nccl.so", metavar="SIDE", help="the fast path's side")
    parser.add_argument("--collectives", default=",".join(COLLECTIVES))
    parser.add_argument("--dtypes", default="half,bfloat16,float", help="of what is reduced; others take the first")
    parser.add_argument("--launches", default="graph", help="graph, stream, or both with a comma")
    parser.add_argument("--bands", default="small,large", help="8 B to 16 MiB, 32 MiB to 1 GiB")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--ranks", default="", metavar="FLAGS", help="such as '--processes 4'; default: -t and every GPU"
    )
    parser.add_argument("--budget-s", type=float, default=1e9, help="start nothing that would end later")
    parser.add_argument("--trial", action="store_true", help="small sizes, few iterations, on the host: try this out")
    asked = parser.parse_args()
    sides = {NCCL: parse_side("--peer", "BUSBW_FASTPATH=off")}
    for peer in asked.peer:
        name, equals, text = peer.partition("=")
        if not equals:
            parser.error(f"--peer {peer} is not NAME=SIDE")
        sides[name] = parse_side("--peer", text)
    sides[OURS] = parse_side("--ours", asked.ours)
    ranks = asked.ranks.split() or ["-t", str(engine.default_ranks())]
    wanted = configurations(asked.collectives.split(","), asked.dtypes.split(","), asked.launches.split(","))
    figures: list[Figure] = []
    said: list[str] = []
    headers: dict[str, Any] = {}
    started, slowest_s = time.monotonic(), 0.0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        plan = [
            (number, what, band, way)
            for number in range(1, asked.rounds + 1)
            for what in wanted
            for band in asked.bands.split(",")
            for way in random.sample(list(sides), len(sides))
        ]
        for done, (number, what, band, way) in enumerate(plan):
            begun = time.monotonic()
            if begun - started + slowest_s > asked.budget_s:
                said.append(f"The time given was over: {len(plan) - done} of {len(plan)} starts were left out.")
                break
            try:
                words = flags(what, band, ranks, trial=asked.trial)
                figures += measured(what, way, sides[way], number, words, folder)
            except BlockEndedError as error:
                if error.exit_code == Exit.INTERRUPTED:
                    said.append("Interrupted.")
                    break
                where = f"{what.collective} {what.dtype}, {band} sizes"
                sentence = f"{way} failed at {where}, with exit code {error.exit_code}"
                said += [] if sentence in said else [sentence]
            if way == NCCL and not headers and (kept := sorted(folder.glob("*.jsonl"))):
                headers = json.loads(kept[-1].read_text().splitlines()[0])  # not a peer's, which may be another NCCL
            for old in folder.glob("*.jsonl"):
                old.write_text("")  # names go on being counted; samples of all rounds would fill a disk
            slowest_s = max(slowest_s, time.monotonic() - begun)
            print(f"{done + 1} of {len(plan)}: {way}, {' '.join(what)}, {band}", file=sys.stderr)
    if not figures:
        print("nothing was measured", file=sys.stderr)
        return 3
    facts = {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "machine": f"{len(headers['ranks'])} x {headers['ranks'][0]['device_name']}",
        "busbw": headers["busbw_version"],
        "facts": without_paths(headers["machine"]),
        "ways": {name: without_paths(side.text) for name, side in sides.items()},
    }
    said = [f"{name}: `{without_paths(side.text)}`" for name, side in sides.items() if side.text] + said
    asked.results.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(f"{asked.results}.jsonl.gz", "wt") as kept_figures:
        kept_figures.write(json.dumps({"kind": "provenance", **facts}) + "\n")
        for figure in figures:
            kept_figures.write(json.dumps(figure._asdict() | {"what": figure.what._asdict()}) + "\n")
    text = page(facts, figures, list(sides), said)
    Path(f"{asked.results}.md").write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
