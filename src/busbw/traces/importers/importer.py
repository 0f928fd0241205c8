"""An importer of one format, with the steps that all importers share."""

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from busbw.support.files import path_text
from busbw.traces.building import NO_SEQUENCE, Numbers, RankBuilder, TraceBuilder
from busbw.traces.model import Trace
from busbw.units import count_text, names_text

_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class Importer:
    """An importer of one format."""

    name: str
    """Name for messages, such as "PyTorch profiler"."""
    source_format: str
    """Short name, which the trace states as its producer: "import kineto"."""
    recognizes: Callable[[bytes, Path], bool]
    """True for a file with this beginning, decompressed, and this path.

    The first importer that recognizes a file reads it.
    """
    fill_trace: Callable[[TraceBuilder, Sequence[Path]], Sequence[str]]
    """Adds the recordings of one job to a trace. Returns sentences on the facts that their format lacks."""
    has_ranks_in_names: bool = False
    """True if the name of a file states its rank. Files of equal content can then be of different ranks."""

    def read(self, paths: Sequence[Path]) -> Trace:
        """Returns the trace of all files together. It has the name of the only file, or of the directory.

        Raises:
            UsageError: The trace has no operation, or a file cannot be read.
        """
        name = path_text(paths[0].name if len(paths) == 1 else paths[0].absolute().parent.name)
        builder = TraceBuilder(name, f"import {self.source_format}")
        distinct_paths = paths if self.has_ranks_in_names else _leave_out_copies(builder, paths)
        limitations = self.fill_trace(builder, distinct_paths)
        _cut_to_common_sequences(builder)
        _clear_single_groups(builder)
        trace = builder.build()
        return replace(trace, problems=(*trace.problems, *limitations), files=tuple(map(path_text, paths)))


def _leave_out_copies(builder: TraceBuilder, paths: Sequence[Path]) -> Sequence[Path]:
    """Returns the files without those that have the same content as an earlier file."""
    sizes = Counter(path.stat().st_size for path in paths if path.is_file())
    contents: set[bytes] = set()
    distinct, copies = [], []
    for path in paths:
        if path.is_file() and sizes[path.stat().st_size] > 1:
            digest = hashlib.blake2b()
            with path.open("rb") as file:
                while block := file.read(_BLOCK_BYTES):
                    digest.update(block)
            content = digest.digest()
            if content in contents:
                copies.append(path_text(path.name))
                continue
            contents.add(content)
        distinct.append(path)
    if copies:
        builder.add_problem(f"{count_text(len(copies), 'file')} left out as copies of others: {names_text(copies)}")
    return distinct


def _clear_single_groups(builder: TraceBuilder) -> None:
    """Sets the group of an operation to 0 (in no group) if the group has no other operation."""
    for rank in builder.ranks:
        groups = rank.operations["group"]
        _, distinct_numbers, counts = np.unique(groups, return_inverse=True, return_counts=True)
        groups[counts[distinct_numbers] == 1] = 0


def _cut_to_common_sequences(builder: TraceBuilder) -> None:
    """Removes operations that another rank dropped, so that the n-th operations of all ranks belong together.

    A rank dropped an operation if its sequence number is missing before the last sequence number of the rank.
    Operations after the last operation of a rank remain, because this rank may have stopped there.
    """
    users: dict[int, list[tuple[RankBuilder, Numbers]]] = {}  # ranks and their operations, by communicator and function
    for rank in builder.ranks:
        operations = rank.operations
        keys = operations["communicator"].astype(np.int64) << 8 | operations["function"]
        keys[rank.sequences == NO_SEQUENCE] = -1
        for key in np.unique(keys[keys >= 0]).tolist():
            users.setdefault(key, []).append((rank, np.flatnonzero(keys == key)))
    removed: dict[RankBuilder, list[Numbers]] = {}
    for ranks_with_own in users.values():
        # Sequence numbers that any rank has, and then without those that a rank dropped.
        kept = np.unique(np.concatenate([rank.sequences[own] for rank, own in ranks_with_own]))
        for rank, own in ranks_with_own:
            sequences = rank.sequences[own]
            dropped = np.setdiff1d(kept[kept < sequences.max()], sequences)
            kept = np.setdiff1d(kept, dropped)
        for rank, own in ranks_with_own:
            removed.setdefault(rank, []).append(own[~np.isin(rank.sequences[own], kept)])
    for rank, parts in removed.items():
        left_out = np.concatenate(parts)
        if len(left_out):
            builder.add_problem("{count} operations are left out because another rank dropped them", len(left_out))
            rank.select(np.setdiff1d(np.arange(len(rank.operations)), left_out))
