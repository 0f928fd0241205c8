"""Compares the fast path with NCCL and other peers on one machine: same programs, sizes and rounds, in one run.

    python bench/gpu_fastpath.py --results build/bench-results/h200-x4-fastpath --ranks '--processes 4' \
        --peer 'MSCCL++@all_reduce,all_gather=--library libmscclpp_nccl.so MSCCLPP_NCCL_LIB_PATH=libnccl.so.2'

A variant is NCCL, the fast path or a peer, with its settings. NCCL and the fast path are measured with plain and with
registered buffers (-R 2); --buffers selects one of the two. A peer is another library: a name, its collectives (without
@: all) and a side, which is flags and variables as in `busbw ab`. A configuration is a collective, a type and a launch
mode: in CUDA graphs, or one by one (stream). A start is one run of a program.

Each round starts every variant once for each configuration and band of sizes, in random order. Figures are medians over
rounds. Ratios compare figures of the same round, and come with their minimum and maximum.

If a start takes seconds and time is short, --bands whole measures all sizes in one start with fewer iterations.
Ctrl-C, or `timeout --signal INT` in front, ends the measurement. The finished starts are then written.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from pathlib import Path
from typing import NamedTuple

from gpu_fastpath_page import (
    NCCL,
    NCCL_REGISTERED,
    OURS,
    OURS_REGISTERED,
    Configuration,
    Figure,
    write_results,
)
from gpu_programs import BusbwPrograms, environment, provenance, without_paths

from busbw import engine
from busbw.ab import BlockEndedError, Measurement, SideSpec, parse_side
from busbw.collectives import collectives
from busbw.errors import ExitCode, UsageError
from busbw.fastpath.table import METHODS

REDUCING = ("all_reduce", "reduce_scatter")
COLLECTIVES = tuple(METHODS)
"""Collectives of the fast path."""
DTYPES = ("half", "bfloat16", "float")
LAUNCHES = ("graph", "stream")
REGISTERED = "-R 2"
"""Flag for registered buffers: NCCL's symmetric windows."""
SHARE_BYTES = 16
"""Minimum share of a rank in nccl-tests and busbw. Calls with smaller shares move no data."""


class Band(NamedTuple):
    """Band of sizes with its flags."""

    first_size: str
    last_size: str
    iteration_flags: tuple[str, ...]
    graph_launches: str  # of each captured graph (-G)


BANDS = {
    "small": Band("8", "16M", ("-w", "20", "-n", "200"), "2"),
    "large": Band("32M", "1G", ("-w", "2", "-n", "20"), "1"),
    "whole": Band("8", "1G", ("-w", "5", "-n", "50"), "2"),
}
"""`whole` replaces both others if a start takes longer than its measurement."""


class Variant(NamedTuple):
    """One variant, such as NCCL or the fast path, and the collectives to measure with it."""

    side: SideSpec
    collectives: frozenset[str]


class Start(NamedTuple):
    """One start of a program."""

    round: int
    configuration: Configuration
    band: str
    variant: str


def configurations(collectives: Sequence[str], dtypes: Sequence[str], launches: Sequence[str]) -> list[Configuration]:
    """Returns all configurations. Collectives that only move data get only the first type."""
    return [
        Configuration(collective, dtype, launch)
        for launch in launches
        for collective in collectives
        for dtype in (dtypes if collective in REDUCING else dtypes[:1])
    ]


def plan_starts(
    wanted: Sequence[Configuration], bands: Sequence[str], variants: dict[str, Variant], rounds: int
) -> Iterator[Start]:
    """Yields the starts round by round. The variants of a configuration and band are in random order."""
    for number, band, configuration in product(range(1, rounds + 1), bands, wanted):
        names = [name for name, variant in variants.items() if configuration.collective in variant.collectives]
        for name in random.sample(names, len(names)):
            yield Start(number, configuration, band, name)


def rank_count(rank_flags: Sequence[str]) -> int:
    """Returns the number of ranks that flags such as --processes 2 -g 4 start."""
    return prod(int(word) for word in rank_flags if word.isdigit())


def min_size(collective: str, first_size: str, rank_flags: Sequence[str]) -> str:
    """Returns the first size of the sweep at which every rank has data to send, not below `first_size`."""
    if collectives()[collective].size == "whole" or not first_size.isdigit():
        return first_size
    size_bytes = int(first_size)
    while size_bytes < SHARE_BYTES * rank_count(rank_flags):
        size_bytes *= 2
    return str(size_bytes)


def engine_flags(configuration: Configuration, band: str, rank_flags: Sequence[str]) -> tuple[str, ...]:
    """Returns the engine flags for one start."""
    sizes = BANDS[band]
    first_size = min_size(configuration.collective, sizes.first_size, rank_flags)
    sweep = ("-b", first_size, "-e", sizes.last_size, "-f", "2", *sizes.iteration_flags)
    graph_flags = ("-G", sizes.graph_launches) if configuration.launch == "graph" else ()
    return (*rank_flags, "-d", configuration.dtype, *sweep, *graph_flags, "-T", "60")


def measure_start(start: Start, side: SideSpec, flags: tuple[str, ...], folder: Path) -> Iterator[Figure]:
    """Runs one start and yields its figures. Only the first round checks the data."""
    for record in folder.iterdir():
        record.unlink()  # the samples of all starts would fill the disk
    block = Measurement(engine.program(f"{start.configuration.collective}_perf"), flags, folder).block(
        side, "start", "-c", "1" if start.round == 1 else "0"
    )
    for point, figure in block.items():
        yield Figure(
            start.configuration,
            start.variant,
            start.round,
            point.size_bytes,
            point.placement,
            figure.time_us,
            figure.device_time_us,
            figure.wrong_elements,
        )


def parse_variants(arguments: argparse.Namespace) -> dict[str, Variant]:
    """Returns all variants by name. Raises UsageError for an invalid side."""
    all_collectives = frozenset(arguments.collectives.split(","))
    buffers = arguments.buffers.split(",")
    variants: dict[str, Variant] = {}
    if "plain" in buffers:
        variants[NCCL] = Variant(parse_side("--peer", "BUSBW_FASTPATH=off"), all_collectives)
    if "registered" in buffers:
        variants[NCCL_REGISTERED] = Variant(parse_side("--peer", REGISTERED), all_collectives)
    for text in arguments.peer:
        name, _, side = text.partition("=")
        name, separator, collectives = name.partition("@")
        peer_collectives = frozenset(collectives.split(",")) if separator else all_collectives
        variants[name] = Variant(parse_side("--peer", side), peer_collectives)
    if "plain" in buffers:
        variants[OURS] = Variant(parse_side("--ours", arguments.ours), all_collectives)
    if "registered" in buffers:
        variants[OURS_REGISTERED] = Variant(parse_side("--ours", f"{arguments.ours} {REGISTERED}"), all_collectives)
    return variants


def variant_text(name: str, variant: Variant, all_collectives: Sequence[str]) -> str:
    """Describes a variant in one sentence, for the page."""
    measured = [collective for collective in all_collectives if collective in variant.collectives]
    limitation = f", {' and '.join(measured)} only" if len(measured) < len(all_collectives) else ""
    return f"{name}: `{without_paths(variant.side.text)}`{limitation}"


def measure(
    arguments: argparse.Namespace,
    rank_flags: Sequence[str],
    variants: dict[str, Variant],
    figures: list[Figure],
    notes: list[str],
) -> int:
    """Runs all starts, and adds to figures and notes. Returns 0, or the exit code of an interrupt."""
    wanted = configurations(
        arguments.collectives.split(","), arguments.dtypes.split(","), arguments.launches.split(",")
    )
    starts = list(plan_starts(wanted, arguments.bands.split(","), variants, arguments.rounds))
    with tempfile.TemporaryDirectory() as folder:
        for index, start in enumerate(starts):
            start_s = time.monotonic()
            flags = engine_flags(start.configuration, start.band, rank_flags)
            try:
                figures += measure_start(start, variants[start.variant].side, flags, Path(folder))
            except BlockEndedError as error:
                if error.was_interrupted:
                    notes.append("Interrupted.")
                    return error.exit_code
                case = f"{start.configuration.collective} {start.configuration.dtype}, band {start.band}"
                note = f"{start.variant} failed at {case}, with exit code {error.exit_code}"
                if note not in notes:
                    notes.append(note)
            print(
                f"{index + 1} of {len(starts)}: {start.variant}, {' '.join(start.configuration)}, {start.band}, "
                f"{time.monotonic() - start_s:.1f} s",
                file=sys.stderr,
            )
    return ExitCode.GOOD


def argument_error(arguments: argparse.Namespace) -> str:
    """Returns an error message for the first invalid argument. Empty if all are valid."""
    lists = {
        "--buffers": (arguments.buffers, ("plain", "registered")),
        "--collectives": (arguments.collectives, COLLECTIVES),
        "--dtypes": (arguments.dtypes, DTYPES),
        "--launches": (arguments.launches, LAUNCHES),
        "--bands": (arguments.bands, tuple(BANDS)),
    }
    for flag, (value, allowed) in lists.items():
        for word in value.split(","):
            if word not in allowed:
                return f'{flag} "{value}": "{word}" is unknown; allowed are {", ".join(allowed)}'
    bands = arguments.bands.split(",")
    if "whole" in bands and len(bands) > 1:
        return f'--bands "{arguments.bands}": "whole" includes the others; give only "whole"'
    return peer_error(arguments.peer)


def peer_error(peers: Sequence[str]) -> str:
    """Returns an error message for the first invalid --peer. Empty if all are valid."""
    names = [NCCL, NCCL_REGISTERED, OURS, OURS_REGISTERED]
    for text in peers:
        name_and_collectives, equals, _ = text.partition("=")
        name, separator, collectives = name_and_collectives.partition("@")
        if not equals or not name:
            return f'--peer "{text}" is not NAME=SIDE or NAME@COLLECTIVE,...=SIDE'
        if name in names:
            return f'--peer "{text}": the name "{name}" is used twice; give each peer its own name'
        names.append(name)
        for word in collectives.split(",") if separator else []:
            if word not in COLLECTIVES:
                return f'--peer "{text}": "{word}" is unknown; allowed are {", ".join(COLLECTIVES)}'
    return ""


def main() -> int:
    """Measures, and writes page and figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, required=True, help="output path without suffix, for .md and .jsonl.gz")
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
    parser.add_argument("--note", action="append", default=[], help="sentence for the page; repeatable")
    arguments = parser.parse_args()
    if message := argument_error(arguments):
        parser.error(message)
    try:
        variants = parse_variants(arguments)
    except UsageError as error:
        parser.error(str(error))
    os.environ.update(environment())  # the measured programs inherit it
    rank_flags = arguments.ranks.split() or ["-t", str(engine.default_ranks())]
    facts = provenance(BusbwPrograms(engine.program("all_reduce_perf").parent, "auto"), rank_count(rank_flags))
    all_collectives = arguments.collectives.split(",")
    notes = [
        *(variant_text(name, variant, all_collectives) for name, variant in variants.items() if variant.side.text),
        *arguments.note,
        f"Ranks: `{' '.join(rank_flags)}`",
    ]
    figures: list[Figure] = []
    try:
        code = measure(arguments, rank_flags, variants, figures, notes)
    except KeyboardInterrupt:
        notes.append("Interrupted.")
        code = ExitCode.INTERRUPTED
    if not figures:
        print("nothing was measured, so nothing was written", file=sys.stderr)
        return code or ExitCode.ENVIRONMENT
    facts |= {"ways": {name: without_paths(variant.side.text) for name, variant in variants.items()}, "said": notes}
    print(write_results(arguments.results, facts, figures))
    return code


if __name__ == "__main__":
    sys.exit(main())
