"""Run-to-run variation: random difference between two starts of the same command, by launch mode.

The samples of one run do not show this variation, but repeated runs do. So a comparison of two single runs allows for
the variation in VARIATIONS.
"""

import math
from typing import Literal

from msgspec import Struct

from busbw.logs.log import Table
from busbw.units import size_text

LaunchMode = Literal["host", "one thread", "one each", "graph"]
"""host: ranks on processors. one thread: one thread launches several GPUs in turn (-g). one each: each GPU has its own
thread or process. graph: operations are in a CUDA graph (-G), so that launching adds no variation."""


class RunVariation(Struct, kw_only=True, frozen=True):
    """Ratio between the times of two starts that a comparison allows for."""

    factor: float
    """Longer time over shorter time."""
    up_to_bytes: float
    """Largest affected size; larger messages hide the launch time. Infinite: all sizes are affected. 0: none is."""
    description: str
    source: str
    """Measurement that the factor is based on."""


VARIATIONS: dict[LaunchMode, RunVariation] = {
    "host": RunVariation(
        factor=2.25,
        up_to_bytes=math.inf,
        description="ranks on processors",
        source="2 ranks on a shared machine with two processors, all_reduce of 1 MiB: typical times were 44, 75 and 96 "
        "us, depending on whether the ranks shared a processor (docs/explanation/comparison.md)",
    ),
    "one thread": RunVariation(
        factor=1.8,
        up_to_bytes=8 << 20,
        description="one thread that launches several GPUs",
        source="Ten starts of each program on 2 and on 4 H200, at 1 KiB, 32 KiB and 1 MiB: ratios up to 1.77. "
        "Other rounds of one program at one size, longest over shortest: on 4 H200 up to 8 MiB, 4 of 468 ratios above "
        "1.8, at most 2.52; on 2 H200 below 1 MiB, 18 of 108 above 1.8, at most 1.89 "
        "(bench/results/h200-x*-parity*.md, -g).",
    ),
    "one each": RunVariation(
        factor=1.8,
        up_to_bytes=1 << 20,
        description="GPUs launched by a thread or process each",
        source="longest over shortest of the rounds of one program at one size, on 2 and on 4 H200: 95 % of 600 ratios "
        "up to 1.61, 1 above 1.8, at most 2.20 (bench/results/h200-x*-parity*.md, processes)",
    ),
    "graph": RunVariation(
        factor=1.0, up_to_bytes=0, description="operations in a CUDA graph", source="launching adds no variation"
    ),
}


def launch_mode_of(table: Table) -> LaunchMode:
    """Returns the launch mode of a log; "one each" if the log does not state it."""
    if table.settings.get("backend") == "host" or any(rank.bus_id == "cpu" for rank in table.rank_list):
        return "host"
    if table.is_in_graph:
        return "graph"
    has_several_gpus = table.gpus_per_thread is not None and table.gpus_per_thread > 1
    return "one thread" if has_several_gpus else "one each"


def variation_factor(launch_mode: LaunchMode, size_bytes: int) -> float:
    """Returns the factor of the run-to-run variation at this size; 1 if launching adds no variation."""
    variation = VARIATIONS[launch_mode]
    return variation.factor if size_bytes <= variation.up_to_bytes else 1.0


def variation_text(launch_mode: LaunchMode) -> str | None:
    """Returns a clause such as "up to 1.8 times apart up to 8 MiB (...)"; None if launching adds no variation."""
    variation = VARIATIONS[launch_mode]
    if variation.factor <= 1:
        return None
    sizes = f" up to {size_text(int(variation.up_to_bytes))}" if variation.up_to_bytes < math.inf else ""
    return f"up to {variation.factor:g} times apart{sizes} ({variation.description})"
