"""Writes a trace as files of the own format, one per rank."""

import hashlib
import re
from pathlib import Path

import numpy as np

from busbw.errors import BusbwError, UsageError
from busbw.support.files import path_text
from busbw.traces import format as layout
from busbw.traces.model import Communicator, RankTrace, Trace

_MEMBERS_PER_RECORD = layout.MEMBERS["members"].shape[0]


def write_trace(trace: Trace, directory: Path) -> None:
    """Creates the directory and writes one file per rank. `read_trace` returns the same operations.

    Raises:
        UsageError: The directory has files.
        BusbwError: A file cannot be written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise UsageError(f"{path_text(directory)} is not empty", remedy="pass a new directory")
        for rank_trace in trace.ranks:
            with (directory / f"rank-{rank_trace.rank:05}.trace").open("xb") as file:
                records = _declarations(trace, rank_trace) + _operations_with_gap(rank_trace).tobytes()
                file.write(_header(trace, rank_trace, len(records) // layout.RECORD_BYTES))
                file.write(records)
    except OSError as error:
        problem = f"cannot write {path_text(directory)}: {error.strerror}"
        raise BusbwError(problem, remedy="pass a writable directory") from error


def _operations_with_gap(rank_trace: RankTrace) -> layout.Operations:
    """Returns the operations. If operations are missing, an empty record takes the place of the first missing one.

    The empty record tells `read_trace` that the operations after it have no match (`RankTrace.first_unmatched`).
    """
    if rank_trace.first_unmatched is None:
        return rank_trace.operations
    empty_record = np.zeros((), layout.OPERATION)
    return np.insert(rank_trace.operations, rank_trace.first_unmatched, empty_record)


def _record(dtype: np.dtype[np.void], **fields: object) -> bytes:
    """Returns a record of this type with these fields. All further fields of the type are 0."""
    record = np.zeros((), dtype)
    for name, value in fields.items():
        record[name] = value
    return record.tobytes()


def _header(trace: Trace, rank_trace: RankTrace, record_count: int) -> bytes:
    nccl_version = 0  # unknown
    if match := re.fullmatch(r"(\d+)\.(\d+)\.(\d+)", rank_trace.nccl_version):
        nccl_version = int(match[1]) * 10000 + int(match[2]) * 100 + int(match[3])
    header = _record(
        layout.HEADER,
        magic=layout.MAGIC,
        version=layout.VERSION,
        header_bytes=layout.HEADER_BYTES,
        record_count=record_count,
        lost_count=rank_trace.lost_count,
        start_realtime_ns=rank_trace.start_ns,
        pid=rank_trace.pid or 0,  # 0: unknown
        rank=rank_trace.rank,
        size=trace.size,
        nccl_version=nccl_version,
        device_clock=rank_trace.device_clock,
        is_closed=1,
        host=rank_trace.host.encode(),
        producer=rank_trace.producer.encode(),
    )
    return header.ljust(layout.HEADER_BYTES, b"\0")


def _declarations(trace: Trace, rank_trace: RankTrace) -> bytes:
    """Returns the records that declare the communicators of a rank and their members."""
    records = []
    for index, own_rank in rank_trace.own_rank_by_communicator.items():
        communicator = trace.communicators[index]
        records.append(
            _record(
                layout.COMMUNICATOR,
                kind=layout.Kind.COMMUNICATOR,
                has_id=1,
                communicator=index,
                rank=own_rank,
                size=communicator.size,
                nodes=-1,  # unknown
                id=_communicator_id(communicator),
                name=communicator.name.encode(),
            )
        )
        members = [-1 if member is None else member for member in communicator.members]  # -1: unknown
        for first in range(0, len(members), _MEMBERS_PER_RECORD):
            chunk = members[first : first + _MEMBERS_PER_RECORD]
            padded = [*chunk, *[0] * (_MEMBERS_PER_RECORD - len(chunk))]
            records.append(
                _record(
                    layout.MEMBERS,
                    kind=layout.Kind.MEMBERS,
                    count=len(chunk),
                    communicator=index,
                    first=first,
                    members=padded,
                )
            )
    return b"".join(records)


def _communicator_id(communicator: Communicator) -> int:
    """Returns the id of a communicator: its identity if this is a hexadecimal number, otherwise a hash of it."""
    if re.fullmatch("[0-9a-f]{16}", communicator.identity):
        return int(communicator.identity, 16)
    return int.from_bytes(hashlib.blake2b(communicator.identity.encode(), digest_size=8).digest(), "little")
