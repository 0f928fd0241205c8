"""Writes a trace as files of the own format, one per rank."""

import hashlib
import re
from pathlib import Path

import numpy as np

from busbw.errors import BusbwError, UsageError
from busbw.files import path_text
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
        for rank in trace.ranks:
            with (directory / f"rank-{rank.rank:05}.trace").open("xb") as file:
                operations = rank.operations
                if rank.first_unmatched is not None:
                    # A record without content marks the place of the missing operation for readers.
                    operations = np.insert(operations, rank.first_unmatched, np.zeros((), layout.OPERATION))
                records = _declarations(trace, rank) + operations.tobytes()
                file.write(_header(trace, rank, len(records) // layout.RECORD_BYTES))
                file.write(records)
    except OSError as error:
        problem = f"cannot write {path_text(directory)}: {error.strerror}"
        raise BusbwError(problem, remedy="pass a writable directory") from error


def _record(dtype: np.dtype[np.void], **fields: object) -> bytes:
    """Returns a record of this type with these fields. The other fields are 0."""
    record = np.zeros((), dtype)
    for name, value in fields.items():
        record[name] = value
    return record.tobytes()


def _header(trace: Trace, rank: RankTrace, record_count: int) -> bytes:
    nccl_version = 0  # unknown
    if match := re.fullmatch(r"(\d+)\.(\d+)\.(\d+)", rank.nccl_version):
        nccl_version = int(match[1]) * 10000 + int(match[2]) * 100 + int(match[3])
    header = _record(
        layout.HEADER,
        magic=layout.MAGIC,
        version=layout.VERSION,
        header_bytes=layout.HEADER_BYTES,
        record_count=record_count,
        lost_count=rank.lost_count,
        start_realtime_ns=rank.start_ns,
        pid=rank.pid or 0,
        rank=rank.rank,
        size=trace.size,
        nccl_version=nccl_version,
        device_clock=rank.device_clock,
        is_closed=1,
        host=rank.host.encode(),
        producer=rank.producer.encode(),
    )
    return header.ljust(layout.HEADER_BYTES, b"\0")


def _declarations(trace: Trace, rank: RankTrace) -> bytes:
    """Returns the records of the communicators of a rank."""
    parts = []
    for index, own_rank in rank.own_rank_by_communicator.items():
        communicator = trace.communicators[index]
        parts.append(
            _record(
                layout.COMMUNICATOR,
                kind=layout.Kind.COMMUNICATOR,
                has_id=1,
                communicator=index,
                rank=own_rank,
                size=communicator.size,
                nodes=-1,
                id=_communicator_id(communicator),
                name=communicator.name.encode(),
            )
        )
        members = [-1 if member is None else member for member in communicator.members]
        for first in range(0, len(members), _MEMBERS_PER_RECORD):
            chunk = members[first : first + _MEMBERS_PER_RECORD]
            padded = [*chunk, *[0] * (_MEMBERS_PER_RECORD - len(chunk))]
            parts.append(
                _record(
                    layout.MEMBERS,
                    kind=layout.Kind.MEMBERS,
                    count=len(chunk),
                    communicator=index,
                    first=first,
                    members=padded,
                )
            )
    return b"".join(parts)


def _communicator_id(communicator: Communicator) -> int:
    """Returns the id of a communicator. If the identity is other text, its hash is the id."""
    if re.fullmatch("[0-9a-f]{16}", communicator.identity):
        return int(communicator.identity, 16)
    return int.from_bytes(hashlib.blake2b(communicator.identity.encode(), digest_size=8).digest(), "little")
