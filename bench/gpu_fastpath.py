"""Compares the fast path with NCCL and other peers on one machine: same programs, sizes and rounds, in one run.

    python bench/gpu_fastpath.py --results build/bench-results/h200-x4-fastpath --ranks '--processes 4' \
        --peer 'MSCCL++@all_reduce,all_gather=--library libmscclpp_nccl.so MSCCLPP_NCCL_LIB_PATH=libnccl.so.2'

A peer is a name, its collectives (without @: all) and a side as in `busbw ab`. Plain NCCL and the fast path are always
measured, and both also with registered buffers (-R 2) unless --buffers excludes it. Each round starts every variant
once for each configuration, in random order. Figures are medians over rounds. Ratios compare figures of the same round,
and come with their minimum and maximum.

The most important configurations come first: all rounds of small sizes in graphs with the first type. One round of
large sizes, of the other types and of single launches follows, then their further rounds. If a start takes seconds and
time is short, --bands whole measures all sizes in one start with fewer iterations. The program ends when everything is
measured or --budget-s is used up, and writes its results. --add continues from the results of another call.
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

from gpu_fastpath_page import NCCL, NCCL_REGISTERED, OURS, OURS_REGISTERED, Configuration, Figure, read, write
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
"""Minimum share of a rank in nccl-tests and busbw. Calls with smaller sizes move no data."""
BANDS = {
    "small": (("8", "16M"), ("-w", "20", "-n", "200"), "2"),
    "large": (("32M", "1G"), ("-w", "2", "-n", "20"), "1"),
    "whole": (("8", "1G"), ("-w", "5", "-n", "50"), "2"),
}
"""First and last size, flags, and launches of the graph of the iterations (-G). `whole` replaces both others if a start
takes longer than its measurement."""
TRIAL = (("8", "4K"), ("-w", "1", "-n", "4"), "0")


class Variant(NamedTuple):
    """One measured variant, such as NCCL or the fast path."""

    side: SideSpec
    collectives: frozenset[str]


class Start(NamedTuple):
    """One start of a program."""

    round: int
    configuration: Configuration
    band: str
    way: str


def configurations(collectives: Sequence[str], dtypes: Sequence[str], launches: Sequence[str]) -> list[Configuration]:
    """Returns all configurations. Collectives that only move data get only the first type."""
    return [
        Configuration(collective, dtype, launch)
        for launch in launches
        for collective in collectives
        for dtype in (dtypes if collective in REDUCING else dtypes[:1])
    ]


def stages(wanted: Sequence[Configuration], bands: Sequence[str]) -> list[list[tuple[Configuration, str]]]:
    """Groups the configurations into stages, most important first."""
    each = [(configuration, band) for configuration in wanted for band in bands]
    first = wanted[0].dtype

    def stage_key(configuration: Configuration, band: str) -> tuple[bool, bool, bool]:
        return configuration.launch != "graph", configuration.dtype != first, band == "large"

    stages = sorted({stage_key(configuration, band) for configuration, band in each})
    return [
        [(configuration, band) for configuration, band in each if stage_key(configuration, band) == stage]
        for stage in stages
    ]


def plan(found: Sequence[list[tuple[Configuration, str]]], ways: dict[str, Variant], rounds: int) -> Iterator[Start]:
    """Yields all rounds of the first stage, then the other stages round by round."""
    for several, numbers in ((found[:1], range(1, rounds + 1)), (found[1:], range(1, rounds + 1))):
        for number in numbers:
            for configuration, band in (each for stage in several for each in stage):
                present = [name for name, way in ways.items() if configuration.collective in way.collectives]
                for name in random.sample(present, len(present)):
                    yield Start(number, configuration, band, name)


def min_size(collective: str, arguments: str, ranks: Sequence[str]) -> str:
    """Returns the first size at which every rank has data to send."""
    count = prod(int(word) for word in ranks if word.isdigit())
    if collective not in EVERY_RANK_A_SHARE or not arguments.isdigit():
        return arguments
    minimum = int(arguments)
    while minimum < SHARE_BYTES * count:
        minimum *= 2
    return str(minimum)


def flags(configuration: Configuration, band: str, ranks: Sequence[str], *, trial: bool) -> tuple[str, ...]:
    """Returns the engine flags for one start."""
    (minimum, maximum), iterations, graphs = TRIAL if trial else BANDS[band]
    sweep = ("-b", min_size(configuration.collective, minimum, ranks), "-e", maximum, "-f", "2", *iterations)
    recorded = ("-G", graphs) if configuration.launch == "graph" and not trial else ()
    return (*ranks, "-d", configuration.dtype, *sweep, *recorded, "-T", "60")


def measure_start(
    start: Start, side: SideSpec, words: tuple[str, ...], folder: Path, *, first: int
) -> Iterator[Figure]:
    """Runs one start and yields its figures. Only the round `first` checks the data."""
    name = f"{start.round}-{len(list(folder.iterdir()))}"
    block = Measurement(engine.program(f"{start.configuration.collective}_perf"), words, folder).block(
        side, name, "-c", "1" if start.round == first else "0"
    )
    for point, figure in block.items():
        yield Figure(
            start.configuration,
            start.way,
            start.round,
            point.size_bytes,
            point.placement,
            figure.time_us,
            figure.device_time_us,
            figure.wrong_elements,
        )


def ways_of(arguments: argparse.Namespace) -> dict[str, Variant]:
    """Returns all variants by name."""
    every = frozenset(arguments.collectives.split(","))
    buffers = arguments.buffers.split(",")
    found: dict[str, Variant] = {}
    if "plain" in buffers:
        found[NCCL] = Variant(parse_side("--peer", "BUSBW_FASTPATH=off"), every)
    if "registered" in buffers:
        found[NCCL_REGISTERED] = Variant(parse_side("--peer", REGISTERED), every)
    for text in arguments.peer:
        name, _, side = text.partition("=")
        name, at, collectives = name.partition("@")
        found[name] = Variant(parse_side("--peer", side), frozenset(collectives.split(",")) if at else every)
    if "plain" in buffers:
        found[OURS] = Variant(parse_side("--ours", arguments.ours), every)
    if "registered" in buffers:
        found[OURS_REGISTERED] = Variant(parse_side("--ours", f"{arguments.ours} {REGISTERED}"), every)
    return found


def nvls_text() -> str:
    """Describes the setting of NVLink multicast for the page."""
    value = os.environ.get("NCCL_NVLS_ENABLE")
    return f"All with `NCCL_NVLS_ENABLE={value}`" if value is not None else "`NCCL_NVLS_ENABLE` is not set"


def variant_text(name: str, way: Variant, every: Sequence[str]) -> str:
    """Describes a variant in one sentence, for the page."""
    only = [collective for collective in every if collective in way.collectives]
    return f"{name}: `{without_paths(way.side.text)}`" + (
        f", {' and '.join(only)} only" if len(only) < len(every) else ""
    )


class Results:
    """Figures, facts and notes collected so far."""

    def __init__(self) -> None:
        self.figures: list[Figure] = []
        self.facts: dict[str, Any] = {}
        self.said: list[str] = []
        self.said_before: list[str] = []

    def add(self, path: Path) -> None:
        """Adds the results of another call as earlier rounds."""
        self.facts, figures = read(path)
        self.figures += figures
        self.said_before += self.facts.get("said", [])

    @property
    def rounds(self) -> int:
        """Number of the last round."""
        return max((figure.round for figure in self.figures), default=0)

    def learn(self, records: Sequence[Path]) -> None:
        """Takes the facts from a record of plain NCCL; a peer may use another NCCL version."""
        if not records:
            return
        header = json.loads(records[0].read_text().splitlines()[0])
        self.facts = {
            "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
            "machine": f"{len(header['ranks'])} x {header['ranks'][0]['device_name']}",
            "busbw": version_text(header),
            "facts": without_paths(header["machine"]),
        }

    def write(self, results: Path, ways: dict[str, Variant]) -> str:
        """Writes figures and page, with the variants of this call first and those of earlier calls after them."""
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


def measure(arguments: argparse.Namespace, ways: dict[str, Variant], results: Results, folder: Path) -> int:
    """Runs all starts that fit into the budget. Returns 0, or the exit code of an interrupt."""
    ranks = arguments.ranks.split() or ["-t", str(engine.default_ranks())]
    results.said.append(f"Ranks: `{' '.join(ranks)}`")
    wanted = configurations(
        arguments.collectives.split(","), arguments.dtypes.split(","), arguments.launches.split(",")
    )
    starts = list(plan(stages(wanted, arguments.bands.split(",")), ways, arguments.rounds))
    before = results.rounds
    begun, slowest_s = time.monotonic(), 0.0
    for done, start in enumerate(starts):
        from_s = time.monotonic()
        if from_s - begun + slowest_s > arguments.budget_s:
            results.said.append(
                f"The time of --budget-s was over: {len(starts) - done} of {len(starts)} starts were left out."
            )
            break
        words = flags(start.configuration, start.band, ranks, trial=arguments.trial)
        numbered = start._replace(round=before + start.round)
        try:
            results.figures += measure_start(numbered, ways[start.way].side, words, folder, first=before + 1)
        except BlockEndedError as error:
            if error.was_interrupted:
                results.said.append("Interrupted.")
                return error.exit_code
            where = f"{start.configuration.collective} {start.configuration.dtype}, band {start.band}"
            sentence = f"{start.way} failed at {where}, with exit code {error.exit_code}"
            results.said += [] if sentence in results.said else [sentence]
        records = [path for path in folder.glob("*.jsonl") if path.stat().st_size]
        if start.way in (NCCL, NCCL_REGISTERED) and not results.facts:
            results.learn(records)
        for old in records:
            old.write_text("")  # keeps the count of names, but not the samples, which would fill the disk
        took_s = time.monotonic() - from_s
        slowest_s = max(slowest_s, took_s)
        print(
            f"{done + 1} of {len(starts)}: {start.way}, {' '.join(start.configuration)}, {start.band}, {took_s:.1f} s",
            file=sys.stderr,
        )
    return ExitCode.GOOD


def argument_error(arguments: argparse.Namespace) -> str:
    """Returns an error message for the first invalid argument. Empty if all are valid."""
    peers = [text.partition("=") for text in arguments.peer]
    lists = {
        "--buffers": (arguments.buffers, ("plain", "registered")),
        "--collectives": (arguments.collectives, COLLECTIVES),
        "--dtypes": (arguments.dtypes, DTYPES),
        "--launches": (arguments.launches, LAUNCHES),
        "--bands": (arguments.bands, tuple(BANDS)),
    }
    for flag, (words, allowed) in lists.items():
        for word in words.split(","):
            if word not in allowed:
                return f'{flag} "{words}": "{word}" is unknown; allowed are {", ".join(allowed)}'
    if "whole" in (words := arguments.bands.split(",")) and len(words) > 1:
        return f'--bands "{arguments.bands}": "whole" includes the others; give only "whole"'
    if not arguments.budget_s > 0:
        return f"--budget-s {arguments.budget_s}: not a number of seconds above 0"
    names = [NCCL, NCCL_REGISTERED, OURS, OURS_REGISTERED]
    for text, (left, equals, _) in zip(arguments.peer, peers, strict=True):
        name, at, collectives = left.partition("@")
        if not equals or not name:
            return f'--peer "{text}" is not NAME=SIDE or NAME@COLLECTIVE,...=SIDE'
        if name in names:
            return f'--peer "{text}": the name "{name}" is used twice; give each peer its own name'
        names.append(name)
        for word in collectives.split(",") if at else []:
            if word not in COLLECTIVES:
                return f'--peer "{text}": "{word}" is unknown; allowed are {", ".join(COLLECTIVES)}'
    return ""


def main() -> int:
    """Measures, and writes page and figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, required=True, help="output path without suffix, for .md and .jsonl.gz")
    parser.add_argument(
        "--add", type=Path, action="append", default=[], help=".jsonl.gz of an earlier call to continue; repeatable"
    )
    parser.add_argument("--peer", action="append", default=[], metavar="NAME[@COLLECTIVE,...]=SIDE", help="repeatable")
    parser.add_argument("--ours", default="--preload libbusbw_nccl.so", metavar="SIDE", help="side of the fast path")
    parser.add_argument("--buffers", default="plain,registered", help="buffers of NCCL and the fast path")
    parser.add_argument("--collectives", default=",".join(COLLECTIVES))
    parser.add_argument(
        "--dtypes", default="half,bfloat16,float", help="types of reductions; other collectives use the first"
    )
    parser.add_argument("--launches", default="graph", help="graph, stream, or both with a comma")
    parser.add_argument(
        "--bands", default="small,large", help="small: 8 B to 16 MiB, large: 32 MiB to 1 GiB, whole: all in one start"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--ranks", default="", metavar="FLAGS", help="flags such as '--processes 4' (default: -t with all GPUs)"
    )
    parser.add_argument("--budget-s", type=float, default=1e9, help="seconds; no start that would end later")
    parser.add_argument("--note", action="append", default=[], help="sentence for the page; repeatable")
    parser.add_argument(
        "--trial", action="store_true", help="test this program on the host: small sizes, few iterations"
    )
    arguments = parser.parse_args()
    if sentence := argument_error(arguments):
        parser.error(sentence)
    try:
        ways = ways_of(arguments)
    except UsageError as error:
        parser.error(str(error))
    results = Results()
    for path in arguments.add:
        results.add(path)
    with tempfile.TemporaryDirectory() as scratch:
        try:
            code = measure(arguments, ways, results, Path(scratch))
        except KeyboardInterrupt:
            results.said.append("Interrupted.")
            code = ExitCode.INTERRUPTED
    if not results.facts:
        print("NCCL was not measured, so nothing was written", file=sys.stderr)
        return code or ExitCode.ENVIRONMENT
    every = arguments.collectives.split(",")
    results.said[:0] = [
        nvls_text(),
        *(variant_text(name, way, every) for name, way in ways.items() if way.side.text),
        *arguments.note,
    ]
    print(results.write(arguments.results, ways))
    return code


if __name__ == "__main__":
    sys.exit(main())
