"""Reads the file of one process, and leaves out what is not valid in it."""

from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from busbw.traces import format as layout
from busbw.traces.model import Operations
from busbw.units import count_text, plain

_MAX_COUNT = 2**60
_MAX_TIME_NS = 2**62
"""A larger number is a negative difference."""
_MAX_COMMUNICATOR_SIZE = 2**20


@dataclass(frozen=True, kw_only=True)
class CommunicatorEntry:
    """A communicator as one of its ranks declared it."""

    id: int | None
    """None: the recorder had none that other ranks share."""
    rank: int
    size: int
    name: str
    members: dict[int, int]
    """Recorded ranks of the job by rank of the communicator."""


@dataclass(frozen=True, kw_only=True)
class ProcessFile:
    """The valid content of a file."""

    name: str
    header: np.void
    """A scalar of dtype `format.HEADER`."""
    communicators: dict[int, CommunicatorEntry]
    """By the index that operations use."""
    operations: Operations
    """`communicator` is an index of `communicators`."""
    lost_count: int
    """Operations that were not stored or are not valid."""

    def text(self, field: str) -> str:
        """Returns a text of the header that is safe for a terminal."""
        return plain(bytes(self.header[field]).decode(errors="replace"))


def read_process_file(path: Path, problems: list[str]) -> ProcessFile | None:
    """Reads a file. It appends a sentence to `problems` for each kind of fault, and returns None without a header.

    Raises:
        OSError: The file cannot be read.
        MemoryError: The file is too large.
    """
    name = plain(path.name)
    size = path.stat().st_size
    if size < layout.HEADER_BYTES:
        problems.append(f"{name} has {count_text(size, 'byte')}, which is less than a header; it is left out")
        return None
    header = np.fromfile(path, layout.HEADER, 1)[0]
    if header["magic"] != layout.MAGIC or header["header_bytes"] != layout.HEADER_BYTES:
        problems.append(f"{name} has no valid header; it is left out")
        return None
    if header["version"] != layout.VERSION:
        found, own = int(header["version"]), layout.VERSION
        problems.append(f"{name} has version {found} of the format, but this busbw reads version {own}; it is left out")
        return None
    reserved = int(header["record_count"])
    stored = (size - layout.HEADER_BYTES) // layout.RECORD_BYTES
    records = np.fromfile(path, layout.OPERATION, min(reserved, stored), offset=layout.HEADER_BYTES)
    missing = reserved - len(records)
    if missing:
        problems.append(f"{name} is truncated: it has {len(records):,} of {count_text(reserved, 'record')}")
    communicators = _read_communicators(name, records, problems)
    operations, invalid = _valid_operations(name, records, set(communicators), problems)
    if header["device_clock"] not in list(layout.DeviceClock):
        problems.append(f"{name} has device times of an unknown clock, which are left out")
        header["device_clock"] = layout.DeviceClock.NONE
    if header["device_clock"] == layout.DeviceClock.NONE:
        operations["device_start_ns"] = operations["device_end_ns"] = 0
    stored_loss = int(header["lost_count"])
    if stored_loss:
        limit = "because of the size limit, a full disk or a slow one"
        problems.append(f"{name}: {count_text(stored_loss, 'operation')} could not be recorded, {limit}")
    if not header["is_closed"]:
        problems.append(f"{name} was not closed: its process was killed, or still runs")
    return ProcessFile(
        name=name,
        header=header,
        communicators=communicators,
        operations=operations,
        lost_count=stored_loss + missing + invalid,
    )


def _read_communicators(name: str, records: Operations, problems: list[str]) -> dict[int, CommunicatorEntry]:
    communicators: dict[int, CommunicatorEntry] = {}
    rejected = 0
    for record in records[records["kind"] == layout.Kind.COMMUNICATOR].view(layout.COMMUNICATOR):
        index, rank, size = int(record["communicator"]), int(record["rank"]), int(record["size"])
        if index in communicators or not 0 <= rank < size <= _MAX_COMMUNICATOR_SIZE:
            rejected += 1
            continue
        communicators[index] = CommunicatorEntry(
            id=int(record["id"]) if record["is_id_unique"] else None,
            rank=rank,
            size=size,
            name=plain(bytes(record["name"]).decode(errors="replace")),
            members={},
        )
    for record in records[records["kind"] == layout.Kind.MEMBERS].view(layout.MEMBERS):
        entry, first, count = communicators.get(int(record["communicator"])), int(record["first"]), int(record["count"])
        if entry is None or count > len(record["members"]) or first + count > entry.size:
            rejected += 1
            continue
        members = record["members"][:count].tolist()
        entry.members.update((first + place, one) for place, one in enumerate(members) if 0 <= one < 2**24)
    if rejected:
        problems.append(f"{name}: {count_text(rejected, 'record')} of communicators are not valid and left out")
    return communicators


def _valid_operations(
    name: str, records: Operations, declared: set[int], problems: list[str]
) -> tuple[Operations, int]:
    """Returns a copy of the valid operations, with invalid fields unknown, and the number of the others."""
    kinds = records["kind"]
    is_operation = kinds == layout.Kind.OPERATION
    used = np.zeros(2**16, bool)
    used[list(declared)] = True
    faults = {
        "of unknown kinds": kinds > layout.Kind.MEMBERS,
        "on communicators that were not declared": is_operation & ~used[records["communicator"]],
        f"with counts over 2^{_MAX_COUNT.bit_length() - 1}": is_operation & (records["count"] > _MAX_COUNT),
    }
    is_valid = is_operation.copy()
    for fault, mask in faults.items():
        is_valid &= ~mask
        if count := int(np.count_nonzero(mask)):
            problems.append(f"{name}: {count_text(count, 'record')} {fault} left out")
    # Reserved records at the end are the last operations of a killed process. One before them is a gap.
    last = int(np.flatnonzero(is_valid)[-1]) if is_valid.any() else 0
    incomplete = int(np.count_nonzero(kinds[:last] == layout.Kind.NONE))
    if incomplete:
        problems.append(f"{name}: {count_text(incomplete, 'record')} without content left out")
    invalid = incomplete + sum(int(np.count_nonzero(mask)) for mask in faults.values())
    operations = records[is_valid]
    _clear_invalid_fields(name, operations, problems)
    return operations, invalid


def _clear_invalid_fields(name: str, operations: Operations, problems: list[str]) -> None:
    """Makes fields unknown that have no meaning, in place."""
    starts, ends = operations["device_start_ns"], operations["device_end_ns"]
    is_unordered = (starts != 0) & (ends != 0) & (ends < starts)
    unknown = layout.UNKNOWN_BYTE
    for fields, mask, value, fault in (
        (("function",), _is_outside(operations["function"], layout.Function), layout.Function.OTHER, "functions"),
        (("datatype",), operations["datatype"] >= len(layout.DATATYPE_NAMES), unknown, "element types"),
        (("redop",), operations["redop"] >= len(layout.REDOP_NAMES), unknown, "operators"),
        (("algorithm",), _is_outside(operations["algorithm"], layout.Algorithm), unknown, "algorithms"),
        (("protocol",), _is_outside(operations["protocol"], layout.Protocol), unknown, "protocols"),
        (("enqueue_ns",), operations["enqueue_ns"] >= _MAX_TIME_NS, 0, "times of the call"),
        (
            ("device_start_ns", "device_end_ns"),
            is_unordered | (starts >= _MAX_TIME_NS) | (ends >= _MAX_TIME_NS),
            0,
            "device times",
        ),
    ):
        is_invalid = mask & (operations[fields[0]] != value) if value == unknown else mask
        if count := int(np.count_nonzero(is_invalid)):
            problems.append(f"{name}: {count_text(count, 'operation')} with invalid {fault}, which count as unknown")
            for field in fields:
                operations[field][is_invalid] = value


def _is_outside(values: NDArray[np.uint8], numbers: type[IntEnum]) -> NDArray[np.bool_]:
    is_known = np.zeros(256, bool)
    is_known[list(numbers)] = True
    return ~is_known[values]
