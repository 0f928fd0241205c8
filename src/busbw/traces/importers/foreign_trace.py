"""Begins and finishes the trace of a foreign recording."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from busbw.files import path_text
from busbw.traces.building import NO_SEQUENCE, Numbers, RankBuilder, TraceBuilder
from busbw.traces.model import Trace


def begin_trace(paths: Sequence[Path], source_format: str) -> TraceBuilder:
    """Returns the builder of a trace with the name of the only file, or of the directory."""
    name = path_text(paths[0].name if len(paths) == 1 else paths[0].absolute().parent.name)
    return TraceBuilder(name, f"import {source_format}")


def finish_trace(builder: TraceBuilder, *limitations: str) -> Trace:
    """Returns the trace. `limitations` are sentences on what its source does not tell.

    Raises:
        UsageError: There is no operation.
    """
    _cut_to_common_sequences(builder)
    for rank in builder.ranks:
        groups = rank.operations["group"]
        _, places, counts = np.unique(groups, return_inverse=True, return_counts=True)
        groups[counts[places] == 1] = 0
    trace = builder.build()
    return replace(trace, problems=(*trace.problems, *limitations))


def _cut_to_common_sequences(builder: TraceBuilder) -> None:
    """Removes operations that another rank dropped, so that the n-th operations of all ranks belong together.

    Operations after the last one of a rank remain: it may have stopped there.
    """
    numbers: dict[int, list[tuple[RankBuilder, Numbers]]] = {}
    for rank in builder.ranks:
        operations = rank.operations
        keys = operations["communicator"].astype(np.int64) << 8 | operations["function"]
        keys[rank.sequences == NO_SEQUENCE] = -1
        for key in np.unique(keys[keys >= 0]).tolist():
            numbers.setdefault(key, []).append((rank, np.flatnonzero(keys == key)))
    removed: dict[RankBuilder, list[Numbers]] = {}
    for members in numbers.values():
        common = np.unique(np.concatenate([rank.sequences[own] for rank, own in members]))
        for rank, own in members:
            sequences = rank.sequences[own]
            common = np.setdiff1d(common, np.setdiff1d(common[common < sequences.max()], sequences))
        for rank, own in members:
            removed.setdefault(rank, []).append(own[~np.isin(rank.sequences[own], common)])
    for rank, parts in removed.items():
        dropped = np.concatenate(parts)
        builder.add_problem("{count} operations are left out because another rank dropped them", len(dropped))
        if len(dropped):
            rank.select(np.setdiff1d(np.arange(len(rank.operations)), dropped))
