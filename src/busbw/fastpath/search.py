"""Which shapes are tried for which size, and which of them a table gets. Pure: times come in, choices go out.

First every method is measured at every size in a few shapes, far apart. Then, for each size by itself, those beside
the best. At the end the best of each size are measured together, once more and checked, beside NCCL, whose turn comes
twice: what was chosen because it looked fastest looked so partly by chance, so that last measurement decides. All this
is done in graphs. Launched one by one NCCL may do otherwise (its broadcasts of some MiB take less time then, since it
registers the buffers of graphs only), so both are measured in that way, too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from statistics import fmean
from typing import NamedTuple

from busbw.fastpath.table import EXCHANGE, METHODS, METHODS_IN_WINDOWS, MAX_THREADS, WARP_THREADS, TableRange, merged
from busbw.logs import Placement
from busbw.units import size_text

SIZES = tuple(2**power for power in range(10, 27))
"""1 KiB to 64 MiB. Smaller ones do as 1 KiB does, larger ones are handed over."""
SIZES_IN_WINDOWS = tuple(2**power for power in range(10, 28))
"""1 KiB to 128 MiB: without slots between, links are all that limits large ones."""
COARSE_GRID = ((16, 256), (64, 256), (128, 256))
"""Blocks and threads that are tried everywhere; small sizes take fewer blocks by themselves."""
MAX_TRIED_BLOCKS = 128
"""A table may have more, but kernels of three communicators must find room on a GPU side by side: two wait in all their
blocks, each on half of a multiprocessor, for one block of the third. 257 halves of the 264 that a GPU of 132 has."""
HALF_SM_THREADS = 256
"""Threads, of 128 registers each. Kernels of `exchange` for up to four ranks have 64 (kernel.cuh), so twice as many."""
MAX_NEIGHBOURS = 3
"""How many shapes beside the best one are tried for each size."""
TIE_TOLERANCE = 0.01
"""Of two that differ by less, the one that takes less of the GPU is chosen."""

MAX_LAUNCHED_RATIO = 1.02
"""Of NCCL's time, launched one by one: the project's own limit, and room for two single measurements to differ."""

Times = Mapping[int, Mapping[Placement, float]]
"""By size as it was asked for, and placement: microseconds."""


@dataclass(frozen=True, order=True)
class MethodConfig:
    """A method and the most blocks and threads that it may take."""

    blocks: int
    threads: int
    method: str

    @property
    def text(self) -> str:
        """For names of files and for people: exchange-32x512."""
        return f"{self.method}-{self.blocks}x{self.threads}"


def first_shapes(collective: str, *, in_windows: bool = False) -> list[MethodConfig]:
    """Those that are tried at every size."""
    methods = (METHODS_IN_WINDOWS if in_windows else METHODS)[collective]
    return [MethodConfig(blocks, threads, method) for method in methods for blocks, threads in COARSE_GRID]


def typical_us(times: Mapping[Placement, float]) -> float:
    """One figure for a size: the geometric mean over placements."""
    return exp(fmean(log(time) for time in times.values()))


def best(measured: Mapping[MethodConfig, Times], size: int) -> MethodConfig | None:
    """The fastest at a size, or one nearly as fast that takes less of the GPU; None where nothing was measured."""
    found = {shape: typical_us(times[size]) for shape, times in measured.items() if times.get(size)}
    if not found:
        return None
    min_us = min(found.values())
    return min(shape for shape, time in found.items() if time <= min_us * (1 + TIE_TOLERANCE))


def fits_side_by_side(shape: MethodConfig, ranks: int) -> bool:
    """Whether kernels of that shape find room side by side with those of two other communicators."""
    takes_few_registers = shape.method == EXCHANGE and ranks <= 4
    max_threads = HALF_SM_THREADS * (2 if takes_few_registers else 1)
    return shape.blocks <= MAX_TRIED_BLOCKS and shape.threads <= max_threads


def neighbours(shape: MethodConfig, tried: Sequence[MethodConfig], ranks: int) -> list[MethodConfig]:
    """Shapes with half or twice the blocks or threads that were not tried yet and have room, at most `BESIDE`."""
    near = [
        (shape.blocks * 2, shape.threads),
        (shape.blocks, shape.threads * 2),
        (shape.blocks // 2, shape.threads),
        (shape.blocks, shape.threads // 2),
    ]
    made = [
        MethodConfig(blocks, threads, shape.method)
        for blocks, threads in near
        if blocks >= 1 and WARP_THREADS <= threads <= MAX_THREADS
    ]
    return [each for each in made if each not in tried and fits_side_by_side(each, ranks)][:MAX_NEIGHBOURS]


def next_round(
    measured: Mapping[MethodConfig, Times], sizes: Sequence[int], number: int, ranks: int
) -> dict[int, MethodConfig]:
    """For each size what is tried in a round of the second part, which begins when all of `measured` is known.

    Args:
        measured: The first part.
        sizes: All of them.
        number: Of the round, from 0.
        ranks: For which room is needed.
    """
    chosen = {}
    for size in sizes:
        middle = best(measured, size)
        near = neighbours(middle, list(measured), ranks) if middle else []
        if number < len(near):
            chosen[size] = near[number]
    return chosen


class TimePair(NamedTuple):
    """A size's times over placements, in microseconds."""

    fast_us: float
    nccl_us: float

    @property
    def text(self) -> str:
        """For a comment in a table."""
        return f"{self.fast_us:.2f} us, NCCL {self.nccl_us:.2f} us"


@dataclass(frozen=True)
class FinalComparison:
    """The last measurements in one way of launching: of the best of every size together, and of NCCL."""

    fast: Times
    nccl: Sequence[Times]

    def of_nccl(self, size: int) -> dict[Placement, float]:
        """NCCL's mean, in each placement that all measurements have."""
        return {
            placement: fmean(times[size][placement] for times in self.nccl)
            for placement in self.fast.get(size, {})
            if self.nccl and all(placement in times.get(size, {}) for times in self.nccl)
        }

    def pair(self, size: int) -> TimePair | None:
        """Both, over placements; None where one of them was not measured."""
        nccl = self.of_nccl(size)
        return TimePair(typical_us({each: self.fast[size][each] for each in nccl}), typical_us(nccl)) if nccl else None

    def is_at_most(self, size: int, share: float) -> bool:
        """Whether the fast path takes at most that share of NCCL's time, in each placement."""
        nccl = self.of_nccl(size)
        return bool(nccl) and all(self.fast[size][each] <= time_us * share for each, time_us in nccl.items())


@dataclass(frozen=True)
class Decision:
    """What becomes of a size."""

    size_bytes: int
    shape: MethodConfig | None
    """None: it is handed over."""
    in_graphs: TimePair | None
    """Of the best shape, whether it was taken or not."""
    launched: TimePair | None
    """The same, launched one by one."""

    @property
    def note(self) -> str:
        """What a table says of it."""
        if self.in_graphs is None:
            return ""
        return self.in_graphs.text + (f"; launched one by one {self.launched.text}" if self.launched else "")


def decide(size: int, tried: MethodConfig | None, in_graphs: FinalComparison, launched: FinalComparison) -> Decision:
    """The fast path is taken where it is as fast as NCCL in graphs, or faster, and no slower launched one by one.

    Args:
        size: In bytes.
        tried: What was measured of the fast path, if anything.
        in_graphs: As all that the search is made of.
        launched: The same shapes.
    """
    if tried is None:
        return Decision(size, None, None, None)
    is_taken = in_graphs.is_at_most(size, 1.0) and launched.is_at_most(size, MAX_LAUNCHED_RATIO)
    return Decision(size, tried if is_taken else None, in_graphs.pair(size), launched.pair(size))


def ranges(
    collective: str,
    ranks: int,
    chosen: Mapping[int, MethodConfig | None],
    notes: Mapping[int, str],
    *,
    in_windows: bool = False,
) -> list[TableRange]:
    """The lines of a table. What lies between two sizes does as the larger one does."""
    made = []
    for size in sorted(chosen):
        shape = chosen[size]
        doing = TableRange(collective, ranks, ranks, size, note=notes.get(size, ""), in_windows=in_windows)
        if shape is not None:
            doing = replace(doing, method=shape.method, blocks=shape.blocks, threads=shape.threads)
        made.append(doing)
    return merged(made)


def summary(what: str, decisions: Sequence[Decision]) -> str:
    """What was found for a collective and number of ranks, in a sentence."""
    taken = [each for each in decisions if each.shape]
    if not taken:
        return f"{what}: NCCL at every size"
    gains = [each.in_graphs.nccl_us / each.in_graphs.fast_us for each in taken if each.in_graphs]
    sizes = f"{len(taken)} of {len(decisions)} sizes, up to {size_text(taken[-1].size_bytes)}"
    return f"{what}: faster at {sizes} ({min(gains):.2f}x to {max(gains):.2f}x)"
