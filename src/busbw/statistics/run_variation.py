"""How far two starts of the same thing lie apart by chance, by the way in which operations are launched.

An interval or a spread within one run says nothing of that. Two runs of which one is known each are held against this
table; where a run was repeated, its own figures say more.
"""

from typing import Literal

from msgspec import Struct

from busbw.logs import Table
from busbw.units import size_text

LaunchMode = Literal["host", "one thread", "one each", "graph"]
"""Ranks on processors; GPUs of which a thread launches several in turn (-g); GPUs with a thread or process each; GPUs
whose operations are in a CUDA graph (-G), so that launching does not show."""


class RunVariation(Struct, kw_only=True, frozen=True):
    """What the times of two starts may differ by, as a factor."""

    factor: float
    up_to_bytes: int | None
    """Larger messages hide what launching costs; None: any size."""
    words: str
    source: str


SCATTER: dict[LaunchMode, RunVariation] = {
    "host": RunVariation(
        factor=2.25,
        up_to_bytes=None,
        words="ranks on processors",
        source="2 ranks on a shared machine with two processors, all_reduce of 1 MiB: 44, 75 and 96 us were the usual "
        "times, by whether the ranks shared a processor (docs/comparison.md)",
    ),
    "one thread": RunVariation(
        factor=1.8,
        up_to_bytes=8 << 20,
        words="one thread that launches several GPUs",
        source="ten starts of each program on 2 and on 4 H200: up to 1.77 times apart at 1 KiB, 32 KiB and 1 MiB, and "
        "rounds at 95 % of the sizes and collectives up to 1.77 (bench/results/h200-x*-parity*.json, -g)",
    ),
    "one each": RunVariation(
        factor=1.8,
        up_to_bytes=1 << 20,
        words="GPUs launched by a thread or process each",
        source="three to eight rounds of each program on 2 and on 4 H200: up to 1.61 times apart at 19 of 20 sizes, "
        "beyond 1.8 at 1 of 600 (bench/results/h200-x*-parity*.json, processes)",
    ),
    "graph": RunVariation(
        factor=1.0, up_to_bytes=0, words="operations in a CUDA graph", source="launching does not show"
    ),
}


def launch_mode_of(table: Table) -> LaunchMode:
    """How the operations of a log were launched; one at a time by each rank where it does not say."""
    if table.settings.get("backend") == "host" or any(rank.bus_id == "cpu" for rank in table.rank_list):
        return "host"
    if table.is_in_graph:
        return "graph"
    return "one thread" if (table.gpus_per_thread or 1) > 1 else "one each"


def variation_factor(way: LaunchMode, size_bytes: int) -> float:
    """What the times of two starts may differ by at this size because of launching; 1 where it does not show."""
    known = SCATTER[way]
    return known.factor if known.up_to_bytes is None or size_bytes <= known.up_to_bytes else 1.0


def variation_text(way: LaunchMode) -> str | None:
    """One clause, or None where launching does not show: "up to 1.8 times apart up to 8 MiB (...)"."""
    known = SCATTER[way]
    if known.factor <= 1:
        return None
    sizes = f" up to {size_text(known.up_to_bytes)}" if known.up_to_bytes else ""
    return f"up to {known.factor:g} times apart{sizes} ({known.words})"
