"""The fast path beside NCCL and its other peers on one machine: the same programs, sizes and rounds, in one run.

    python bench/gpu_fastpath.py --results build/bench-results/h200-x4-fastpath --ranks '--processes 4' \
        --peer 'MSCCL++@all_reduce,all_gather=--library libmscclpp_nccl.so MSCCLPP_NCCL_LIB_PATH=libnccl.so.2'

A peer is a name, the collectives it is measured at (without @: all) and a side as `busbw ab` takes it. Plain NCCL and
the fast path are always measured, and both with registered buffers (-R 2) unless --buffers says otherwise. Each round
starts every way once for each configuration, in an order of its own; figures are medians over rounds, ratios are of
figures of the same round, with their least and greatest.

What is worth most comes first: all rounds of small sizes in graphs, of the first type; then a round of large sizes, of
the other types, and of single launches; then their further rounds. Where a start takes seconds and time is short,
--bands whole measures all sizes in one start, with fewer iterations. It ends when all is done or --budget-s is used
up, writes what it has, and --add goes on with what another call has written.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from gpu_fastpath_page import NCCL, NCCL_REGISTERED, OURS, OURS_REGISTERED, Figure, What, read, write
from gpu_programs import version_text, without_paths

from busbw import engine
from busbw.ab import BlockEndedError, Measurement, SideSpec, parse_side
from busbw.errors import ExitCode, UsageError

REDUCING = ("all_reduce", "reduce_scatter")
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "alltoall")
EVERY_RANK_A_SHARE = ("all_gather", "reduce_scatter", "alltoall")
DTYPES = ("half", "bfloat16", "float")
LAUNCHES = ("graph", "stream")
REGISTERED = "-R 2"
SHARE_BYTES = 16
"""The least that programs give a rank as its share, as nccl-tests' do; below, calls are of nothing."""
BANDS = {
    "small": (("8", "16M"), ("-w", "20", "-n", "200"), "2"),
    "large": (("32M", "1G"), ("-w", "2", "-n", "20"), "1"),
    "whole": (("8", "1G"), ("-w", "5", "-n", "50"), "2"),
}
"""First and last size, flags, and how often a graph of the iterations is launched (-G). `whole` takes the place of both
others where a start takes longer than its measurement."""
TRIAL = (("8", "4K"), ("-w", "1", "-n", "4"), "0")


class Way(NamedTuple):
    """One of those that are measured."""

    side: SideSpec
    collectives: frozenset[str]


class Start(NamedTuple):
    """One start of a program."""

    round: int
    what: What
    band: str
    way: str


def configurations(collectives: Sequence[str], dtypes: Sequence[str], launches: Sequence[str]) -> list[What]:
    """All that is measured; types make no difference where data are only moved."""
    return [
        What(collective, dtype, launch)
        for launch in launches
        for collective in collectives
        for dtype in (dtypes if collective in REDUCING else dtypes[:1])
    ]


def stages(wanted: Sequence[What], bands: Sequence[str]) -> list[list[tuple[What, str]]]:
    """What is measured together, from what is worth most."""
    each = [(what, band) for what in wanted for band in bands]
    first = wanted[0].dtype

    def later(what: What, band: str) -> tuple[bool, bool, bool]:
        return what.launch != "graph", what.dtype != first, band == "large"

    stages = sorted({later(what, band) for what, band in each})
    return [[(what, band) for what, band in each if later(what, band) == stage] for stage in stages]


def plan(found: Sequence[list[tuple[What, str]]], ways: dict[str, Way], rounds: int) -> Iterator[Start]:
    """All rounds of the first stage, then the others' round by round."""
    for several, numbers in ((found[:1], range(1, rounds + 1)), (found[1:], range(1, rounds + 1))):
        for number in numbers:
            for what, band in (each for stage in several for each in stage):
                there = [name for name, way in ways.items() if what.collective in way.collectives]
                for name in random.sample(there, len(there)):
                    yield Start(number, what, band, name)


def min_size(collective: str, asked: str, ranks: Sequence[str]) -> str:
    """The first size at which every rank has something to send."""
    count = prod(int(word) for word in ranks if word.isdigit())
    if collective not in EVERY_RANK_A_SHARE or not asked.isdigit():
        return asked
    least = int(asked)
    while least < SHARE_BYTES * count:
        least *= 2
    return str(least)


def flags(what: What, band: str, ranks: Sequence[str], *, trial: bool) -> tuple[str, ...]:
    """The engine's, for one start."""
    (least, most), iterations, graphs = TRIAL if trial else BANDS[band]
    sweep = ("-b", min_size(what.collective, least, ranks), "-e", most, "-f", "2", *iterations)
    recorded = ("-G", graphs) if what.launch == "graph" and not trial else ()
    return (*ranks, "-d", what.dtype, *sweep, *recorded, "-T", "60")


def measured(start: Start, side: SideSpec, words: tuple[str, ...], folder: Path, *, first: int) -> Iterator[Figure]:
    """One start. Those of the round `first` are checked."""
    name = f"{start.round}-{len(list(folder.iterdir()))}"
    block = Measurement(engine.program(f"{start.what.collective}_perf"), words, folder).block(
        side, name, "-c", "1" if start.round == first else "0"
    )
    for point, figure in block.items():
        yield Figure(
            start.what,
            start.way,
            start.round,
            point.size_bytes,
            point.placement,
            figure.time_us,
            figure.device_time_us,
            figure.wrong_elements,
        )


def ways_of(asked: argparse.Namespace) -> dict[str, Way]:
    """All that are measured, by name."""
    every = frozenset(asked.collectives.split(","))
    buffers = asked.buffers.split(",")
    found: dict[str, Way] = {}
    if "plain" in buffers:
        found[NCCL] = Way(parse_side("--peer", "BUSBW_FASTPATH=off"), every)
    if "registered" in buffers:
        found[NCCL_REGISTERED] = Way(parse_side("--peer", REGISTERED), every)
    for text in asked.peer:
        name, _, side = text.partition("=")
        name, at, collectives = name.partition("@")
        found[name] = Way(parse_side("--peer", side), frozenset(collectives.split(",")) if at else every)
    if "plain" in buffers:
        found[OURS] = Way(parse_side("--ours", asked.ours), every)
    if "registered" in buffers:
        found[OURS_REGISTERED] = Way(parse_side("--ours", f"{asked.ours} {REGISTERED}"), every)
    return found


def nvls_words() -> str:
    """Whether NCCL and its peers may use NVLink multicast."""
    value = os.environ.get("NCCL_NVLS_ENABLE")
    return f"All with `NCCL_NVLS_ENABLE={value}`" if value is not None else "`NCCL_NVLS_ENABLE` is not set"


def words_of(name: str, way: Way, every: Sequence[str]) -> str:
    """One sentence on a way, for the page."""
    only = [collective for collective in every if collective in way.collectives]
    return f"{name}: `{without_paths(way.side.text)}`" + (
        f", {' and '.join(only)} only" if len(only) < len(every) else ""
    )


class Kept:
    """What was measured by now."""

    def __init__(self) -> None:
        self.figures: list[Figure] = []
        self.facts: dict[str, Any] = {}
        self.said: list[str] = []
        self.said_before: list[str] = []

    def add(self, path: Path) -> None:
        """What another call has written, before the rounds to come."""
        self.facts, figures = read(path)
        self.figures += figures
        self.said_before += self.facts.get("said", [])

    @property
    def rounds(self) -> int:
        """The last one's number."""
        return max((figure.round for figure in self.figures), default=0)

    def learn(self, records: Sequence[Path]) -> None:
        """Facts of a run of NCCL itself, if it left a record; a peer may be another NCCL."""
        if not records:
            return
        header = json.loads(records[0].read_text().splitlines()[0])
        self.facts = {
            "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
            "machine": f"{len(header['ranks'])} x {header['ranks'][0]['device_name']}",
            "busbw": version_text(header),
            "facts": without_paths(header["machine"]),
        }

    def write(self, results: Path, ways: dict[str, Way]) -> str:
        """Figures and page, with columns for this call's ways and then for others of the calls before."""
        sides = {name: without_paths(way.side.text) for name, way in ways.items()}
        earlier = {name: side for name, side in self.facts.get("ways", {}).items() if name not in sides}
        before = [sentence.removeprefix("Before: ") for sentence in self.said_before]
        before = [f"Before: {sentence}" for sentence in before if sentence not in self.said]
        self.facts |= {"ways": sides | earlier, "said": [*self.said, *before]}
        results.parent.mkdir(parents=True, exist_ok=True)
        with gzip.open(f"{results}.jsonl.gz", "wt") as file:
            file.write(json.dumps({"kind": "provenance", **self.facts}) + "\n")
            for figure in self.figures:
                file.write(json.dumps(figure._asdict() | {"what": figure.what._asdict()}) + "\n")
        return write(results, self.facts, self.figures)


def measure(asked: argparse.Namespace, ways: dict[str, Way], kept: Kept, folder: Path) -> int:
    """All starts for which there is time; returns the exit code, that of a stop where somebody stopped it."""
    ranks = asked.ranks.split() or ["-t", str(engine.default_ranks())]
    kept.said.append(f"Ranks: `{' '.join(ranks)}`")
    wanted = configurations(asked.collectives.split(","), asked.dtypes.split(","), asked.launches.split(","))
    starts = list(plan(stages(wanted, asked.bands.split(",")), ways, asked.rounds))
    before = kept.rounds
    begun, slowest_s = time.monotonic(), 0.0
    for done, start in enumerate(starts):
        from_s = time.monotonic()
        if from_s - begun + slowest_s > asked.budget_s:
            kept.said.append(
                f"The time of --budget-s was over: {len(starts) - done} of {len(starts)} starts were left out."
            )
            break
        words = flags(start.what, start.band, ranks, trial=asked.trial)
        numbered = start._replace(round=before + start.round)
        try:
            kept.figures += measured(numbered, ways[start.way].side, words, folder, first=before + 1)
        except BlockEndedError as error:
            if error.was_interrupted:
                kept.said.append("Interrupted.")
                return error.exit_code
            where = f"{start.what.collective} {start.what.dtype}, band {start.band}"
            sentence = f"{start.way} failed at {where}, with exit code {error.exit_code}"
            kept.said += [] if sentence in kept.said else [sentence]
        records = [path for path in folder.glob("*.jsonl") if path.stat().st_size]
        if start.way in (NCCL, NCCL_REGISTERED) and not kept.facts:
            kept.learn(records)
        for old in records:
            old.write_text("")  # names go on being counted; samples of all rounds would fill a disk
        took_s = time.monotonic() - from_s
        slowest_s = max(slowest_s, took_s)
        print(
            f"{done + 1} of {len(starts)}: {start.way}, {' '.join(start.what)}, {start.band}, {took_s:.1f} s",
            file=sys.stderr,
        )
    return ExitCode.GOOD


def doubt(asked: argparse.Namespace) -> str:
    """The first word that nothing is measured for: one sentence; empty where there is none."""
    peers = [text.partition("=") for text in asked.peer]
    lists = {
        "--buffers": (asked.buffers, ("plain", "registered")),
        "--collectives": (asked.collectives, COLLECTIVES),
        "--dtypes": (asked.dtypes, DTYPES),
        "--launches": (asked.launches, LAUNCHES),
        "--bands": (asked.bands, tuple(BANDS)),
    }
    for flag, (words, allowed) in lists.items():
        for word in words.split(","):
            if word not in allowed:
                return f'{flag} "{words}": "{word}" is unknown; allowed are {", ".join(allowed)}'
    if "whole" in (words := asked.bands.split(",")) and len(words) > 1:
        return f'--bands "{asked.bands}": "whole" has the sizes of the others; give it alone'
    if not asked.budget_s > 0:
        return f"--budget-s {asked.budget_s}: no number of seconds above 0"
    names = [NCCL, NCCL_REGISTERED, OURS, OURS_REGISTERED]
    for text, (left, equals, _) in zip(asked.peer, peers, strict=True):
        name, at, collectives = left.partition("@")
        if not equals or not name:
            return f'--peer "{text}" is not NAME=SIDE or NAME@COLLECTIVE,...=SIDE'
        if name in names:
            return f'--peer "{text}": the name "{name}" is taken; give each peer one of its own'
        names.append(name)
        for word in collectives.split(",") if at else []:
            if word not in COLLECTIVES:
                return f'--peer "{text}": "{word}" is unknown; allowed are {", ".join(COLLECTIVES)}'
    return ""


def main() -> int:
    """Measures and writes page and figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, required=True, help="without suffix; .md and .jsonl.gz are written")
    parser.add_argument("--add", type=Path, action="append", default=[], help="a .jsonl.gz to go on with; repeatable")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME[@COLLECTIVE,...]=SIDE", help="repeatable")
    parser.add_argument("--ours", default="--preload libbusbw_nccl.so", metavar="SIDE", help="the fast path's side")
    parser.add_argument("--buffers", default="plain,registered", help="how NCCL and the fast path are measured")
    parser.add_argument("--collectives", default=",".join(COLLECTIVES))
    parser.add_argument("--dtypes", default="half,bfloat16,float", help="of what is reduced; others take the first")
    parser.add_argument("--launches", default="graph", help="graph, stream, or both with a comma")
    parser.add_argument(
        "--bands", default="small,large", help="8 B to 16 MiB, 32 MiB to 1 GiB, or whole: all of it in one start"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--ranks", default="", metavar="FLAGS", help="such as '--processes 4'; default: -t and every GPU"
    )
    parser.add_argument("--budget-s", type=float, default=1e9, help="start nothing that would end later")
    parser.add_argument("--note", action="append", default=[], help="a sentence for the page; repeatable")
    parser.add_argument("--trial", action="store_true", help="small sizes, few iterations, on the host: try this out")
    asked = parser.parse_args()
    if sentence := doubt(asked):
        parser.error(sentence)
    try:
        ways = ways_of(asked)
    except UsageError as error:
        parser.error(str(error))
    kept = Kept()
    for path in asked.add:
        kept.add(path)
    with tempfile.TemporaryDirectory() as scratch:
        try:
            code = measure(asked, ways, kept, Path(scratch))
        except KeyboardInterrupt:
            kept.said.append("Interrupted.")
            code = ExitCode.INTERRUPTED
    if not kept.facts:
        print("nothing was measured of NCCL", file=sys.stderr)
        return code or ExitCode.ENVIRONMENT
    every = asked.collectives.split(",")
    kept.said[:0] = [
        nvls_words(),
        *(words_of(name, way, every) for name, way in ways.items() if way.side.text),
        *asked.note,
    ]
    print(kept.write(asked.results, ways))
    return code


if __name__ == "__main__":
    sys.exit(main())
