"""Search for the best method config of each size. Pure functions from times to configs; tuning.py measures the times.

A method config is a method of the fast path with the blocks, and the threads per block, of its kernel. The smaller of
two configs has fewer blocks, or equally many blocks and fewer threads. The method `exchange` copies through slots,
which are buffers of limited size. The method `direct` accesses the buffers of the peers, which must be windows that the
program has registered with NCCL.

The search has three stages, all measured in CUDA graphs:

1. Every method runs at every size with the blocks and threads of COARSE_GRID.
2. For each size, the neighbors of the best config run: half or twice as many blocks or threads.
3. The best configs of all sizes run once more together, with data checks. NCCL runs before stage 1 and in stage 3.

The best config of a size is the fastest one, or a smaller one that is hardly slower (TIE_TOLERANCE).

Only the times of stage 3 decide between the best config and NCCL, because the winner of many measurements looks fast
partly by chance. NCCL's times may differ if calls are launched one by one: its broadcasts of some MiB are then faster,
because NCCL registers buffers only in graphs. So stage 3 also measures NCCL and the best configs launched one by one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from statistics import fmean
from typing import NamedTuple

from busbw.fastpath.table import EXCHANGE, MAX_THREADS, METHODS, METHODS_IN_WINDOWS, WARP_THREADS, TableRange, merged
from busbw.logs.log import Placement
from busbw.units import size_text

SIZES = tuple(2**power for power in range(10, 27))
"""1 KiB to 64 MiB. Smaller sizes use the config of 1 KiB. Larger sizes are delegated to NCCL."""
SIZES_IN_WINDOWS = tuple(2**power for power in range(10, 28))
"""1 KiB to 128 MiB: `direct` uses no slots, so large sizes are limited only by the links."""
COARSE_GRID = ((16, 256), (64, 256), (128, 256))
"""Maximum blocks and threads per block that are tried at every size. For small sizes the kernel starts fewer blocks."""
MAX_TRIED_BLOCKS = 128
"""Maximum blocks of a tried config, so that kernels of three communicators fit on a GPU at the same time.

In the worst case, all blocks of two kernels wait for one block of the third kernel. Each block takes half of a
multiprocessor. So the 2 x 128 + 1 = 257 blocks need 257 halves, and a GPU with 132 multiprocessors has 264 halves.
"""
HALF_SM_THREADS = 256
"""Maximum threads of a block that uses half of a multiprocessor, which has 65,536 registers.

Half of the registers are 32,768, and each thread uses 128 of them. Kernels of `exchange` for up to four ranks use only
64 registers per thread (kernel.cuh), so twice as many threads fit.
"""
MAX_NEIGHBORS = 3
"""Maximum number of neighbors of the best config that are tried for each size, one in each round of stage 2."""
TIE_TOLERANCE = 0.01
"""Maximum relative difference at which two times count as equal, so that the smaller config is chosen."""

MAX_ONE_BY_ONE_RATIO = 1.02
"""Maximum ratio of the fast path's time to NCCL's time, if both are launched one by one.

The ratio is above 1, because the time of a single measurement varies.
"""

Times = Mapping[int, Mapping[Placement, float]]
"""Times in microseconds by requested size in bytes, then by placement."""


@dataclass(frozen=True, order=True)
class MethodConfig:
    """A method with its maximum number of blocks and of threads per block. The order puts smaller configs first."""

    blocks: int
    threads: int
    method: str

    @property
    def text(self) -> str:
        """Text for file names and messages: exchange-32x512."""
        return f"{self.method}-{self.blocks}x{self.threads}"


def first_configs(collective: str, *, in_windows: bool = False) -> list[MethodConfig]:
    """Returns the configs that are tried at every size."""
    methods = (METHODS_IN_WINDOWS if in_windows else METHODS)[collective]
    return [MethodConfig(blocks, threads, method) for method in methods for blocks, threads in COARSE_GRID]


def geometric_mean_us(times: Mapping[Placement, float]) -> float:
    """Geometric mean of the times of all placements."""
    return exp(fmean(log(time) for time in times.values()))


def find_best_config(measured: Mapping[MethodConfig, Times], size: int) -> MethodConfig | None:
    """Returns the smallest config with a time up to TIE_TOLERANCE above the minimum. None if nothing was measured."""
    times_us = {config: geometric_mean_us(times[size]) for config, times in measured.items() if times.get(size)}
    if not times_us:
        return None
    max_us = min(times_us.values()) * (1 + TIE_TOLERANCE)
    return min(config for config, time_us in times_us.items() if time_us <= max_us)


def fits_side_by_side(config: MethodConfig, ranks: int) -> bool:
    """True if a kernel with this config fits on a GPU together with kernels of two other communicators."""
    needs_few_registers = config.method == EXCHANGE and ranks <= 4
    max_threads = 2 * HALF_SM_THREADS if needs_few_registers else HALF_SM_THREADS
    return config.blocks <= MAX_TRIED_BLOCKS and config.threads <= max_threads


def neighbors(config: MethodConfig, tried: Sequence[MethodConfig], ranks: int) -> list[MethodConfig]:
    """Returns untried configs with half or twice the blocks or threads, at most MAX_NEIGHBORS."""
    candidate_grids = [
        (config.blocks * 2, config.threads),
        (config.blocks, config.threads * 2),
        (config.blocks // 2, config.threads),
        (config.blocks, config.threads // 2),
    ]
    candidates = [
        MethodConfig(blocks, threads, config.method)
        for blocks, threads in candidate_grids
        if blocks >= 1 and WARP_THREADS <= threads <= MAX_THREADS
    ]
    untried = [candidate for candidate in candidates if candidate not in tried]
    return [candidate for candidate in untried if fits_side_by_side(candidate, ranks)][:MAX_NEIGHBORS]


def next_round(
    measured_in_stage_1: Mapping[MethodConfig, Times], sizes: Sequence[int], round_number: int, ranks: int
) -> dict[int, MethodConfig]:
    """Returns the config to measure at each size in one round of stage 2. Sizes without such a config are missing.

    Each size has a list of untried neighbors. `round_number`, from 0, is the index in this list. Only the times of
    stage 1 count, because the times of earlier rounds would change the list.
    """
    configs = {}
    for size in sizes:
        best = find_best_config(measured_in_stage_1, size)
        candidates = neighbors(best, list(measured_in_stage_1), ranks) if best else []
        if round_number < len(candidates):
            configs[size] = candidates[round_number]
    return configs


class TimePair(NamedTuple):
    """Final times of the fast path and of NCCL for one size, in graphs or launched one by one."""

    fast_us: float
    """Geometric mean over the placements, as `nccl_us`."""
    nccl_us: float
    max_ratio: float
    """The fast path's time divided by NCCL's time: maximum over the placements."""

    @property
    def text(self) -> str:
        """Text for a comment in a table."""
        return f"{self.fast_us:.2f} us, NCCL {self.nccl_us:.2f} us"


def pair_times(size: int, fast: Times, nccl: Sequence[Times]) -> TimePair | None:
    """Returns the times of the fast path, and the mean times of several measurements of NCCL, for a size in bytes.

    Only placements with all these times count. None if there is no such placement.
    """
    all_fast_us = fast.get(size, {})
    all_nccl_us = [times.get(size, {}) for times in nccl]
    fast_us = {
        placement: time
        for placement, time in all_fast_us.items()
        if all(placement in measurement for measurement in all_nccl_us)
    }
    if not fast_us:
        return None
    nccl_us = {placement: fmean(measurement[placement] for measurement in all_nccl_us) for placement in fast_us}
    max_ratio = max(fast_us[placement] / nccl_us[placement] for placement in fast_us)
    return TimePair(geometric_mean_us(fast_us), geometric_mean_us(nccl_us), max_ratio)


@dataclass(frozen=True)
class Decision:
    """Result of the search for one size."""

    size_bytes: int
    config: MethodConfig | None
    """None: the size is delegated to NCCL."""
    in_graphs: TimePair | None
    """Times of the best config in graphs, also if the size is delegated. None if nothing was measured."""
    one_by_one: TimePair | None
    """Times of the best config launched one by one. None if nothing was measured."""

    @property
    def note(self) -> str:
        """Comment for the line of a table. Empty if nothing was measured."""
        if self.in_graphs is None:
            return ""
        one_by_one_text = f"; launched one by one {self.one_by_one.text}" if self.one_by_one else ""
        return self.in_graphs.text + one_by_one_text


def decide_size(
    size: int, best: MethodConfig | None, in_graphs: TimePair | None, one_by_one: TimePair | None
) -> Decision:
    """Takes the best config if its time is at most NCCL's in graphs, and within MAX_ONE_BY_ONE_RATIO one by one.

    `size` is in bytes. None as a config or as times: nothing was measured.
    """
    if best is None:
        return Decision(size, config=None, in_graphs=None, one_by_one=None)
    is_fast_in_graphs = in_graphs is not None and in_graphs.max_ratio <= 1
    is_fast_one_by_one = one_by_one is not None and one_by_one.max_ratio <= MAX_ONE_BY_ONE_RATIO
    return Decision(size, best if is_fast_in_graphs and is_fast_one_by_one else None, in_graphs, one_by_one)


def ranges(
    collective: str,
    ranks: int,
    configs: Mapping[int, MethodConfig | None],
    notes: Mapping[int, str],
    *,
    in_windows: bool = False,
) -> list[TableRange]:
    """Returns the lines of a table from the config of each size. None as a config delegates the size to NCCL.

    A size between two measured sizes uses the config of the larger size. `notes` are comments by size.
    """
    lines = []
    for size in sorted(configs):
        config = configs[size]
        line = TableRange(collective, ranks, ranks, size, note=notes.get(size, ""), in_windows=in_windows)
        if config is not None:
            line = replace(line, method=config.method, blocks=config.blocks, threads=config.threads)
        lines.append(line)
    return merged(lines)


def summary(title: str, decisions: Sequence[Decision]) -> str:
    """One sentence about the decisions for one collective and number of ranks, named by `title`.

    The numbers in parentheses are NCCL's time over the fast path's time, in graphs.
    """
    taken = [decision for decision in decisions if decision.config]
    if not taken:
        return f"{title}: NCCL at every size"
    speedups = [decision.in_graphs.nccl_us / decision.in_graphs.fast_us for decision in taken if decision.in_graphs]
    sizes = f"{len(taken)} of {len(decisions)} sizes, up to {size_text(taken[-1].size_bytes)}"
    return f"{title}: fast path at {sizes} ({min(speedups):.2f}x to {max(speedups):.2f}x NCCL's speed)"
