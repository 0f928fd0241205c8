"""Reads the file of one process, and leaves out what is not valid in it."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from busbw.traces import format as layout
from busbw.traces.building import TraceBuilder
from busbw.traces.format import Operations
from busbw.traces.read.stale_times import clear_stale_times
from busbw.units import count_text, plain

_MAX_COUNT_BITS = 60
"""A count with more bits is damage."""
_MAX_TIME_NS = 2**62
"""A larger number is a negative difference, stored as an unsigned number."""
_MAX_RANKS = 2**20
"""Ranks are below this number, and sizes of communicators at most this number. Larger values are damage."""
_KNOWN_VALUES = (
    ("function", layout.Function, "functions"),
    ("datatype", range(len(layout.DATATYPE_NAMES)), "element types"),
    ("redop", range(len(layout.REDOP_NAMES)), "operators"),
    ("algorithm", layout.Algorithm, "algorithms"),
    ("protocol", layout.Protocol, "protocols"),
)
"""Fields with their known values and their name in problems. In each field, 255 is unknown."""


@dataclass(frozen=True, kw_only=True)
class CommunicatorEntry:
    """A communicator as one of its ranks declared it."""

    id: int
    """Equal for all ranks of the communicator."""
    rank: int
    size: int
    """-1: unknown."""
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
    first_unmatched: int | None
    """As `RankTrace.first_unmatched`."""
    lost_count: int
    """Operations that were not stored or are not valid."""

    def text(self, field: str) -> str:
        """Returns a text of the header that is safe for a terminal."""
        return plain(bytes(self.header[field]).decode(errors="replace"))


def read_process_file(builder: TraceBuilder, path: Path) -> ProcessFile | None:
    """Reads a file. Adds a problem for each kind of fault. Returns None without a valid header.

    Raises:
        OSError: The file cannot be read.
        MemoryError: The file is too large.
    """
    name = plain(path.name)
    size = path.stat().st_size
    header = _read_header(builder, name, path, size)
    if header is None:
        return None
    reserved = int(header["record_count"])  # records that the process has begun to write
    stored = (size - layout.HEADER_BYTES) // layout.RECORD_BYTES
    records = np.fromfile(path, layout.OPERATION, min(reserved, stored), offset=layout.HEADER_BYTES)
    communicators = _read_communicators(builder, name, records)
    is_valid, invalid_count = _find_valid_operations(builder, name, records, list(communicators))
    operations = records[is_valid]
    _clear_invalid_fields(builder, name, header, operations)
    if header["device_clock"] == layout.DeviceClock.GPU:
        own_rank_by_communicator = {index: entry.rank for index, entry in communicators.items()}
        if stale := clear_stale_times(operations, own_rank_by_communicator):
            builder.add_problem(
                f"{name}: {count_text(stale, 'operation')} without device times, because NCCL may report others"
                " after a rank sent to itself"
            )
    lost = int(header["lost_count"])
    missing = reserved - len(records)  # the file was cut off
    empty = _count_empty(records)
    # Only the first cause is reported: a lost operation can also be a missing or an empty record.
    if lost:
        reason = "because of the size limit, a full disk or a slow one"
        builder.add_problem(f"{name}: {count_text(lost, 'operation')} could not be recorded, {reason}")
    elif missing:
        builder.add_problem(f"{name} is truncated: it has {len(records):,} of {count_text(reserved, 'record')}")
    elif empty:
        builder.add_problem(f"{name}: {count_text(empty, 'record')} without content left out")
    if not header["is_closed"]:
        builder.add_problem(f"{name} was not closed: its process was killed, or still runs")
    return ProcessFile(
        name=name,
        header=header,
        communicators=communicators,
        operations=operations,
        first_unmatched=_find_first_unmatched(records, is_valid, list(communicators)),
        # A lost operation may have a reserved record, so both numbers can count it.
        lost_count=max(lost, missing + empty) + invalid_count,
    )


def _read_header(builder: TraceBuilder, name: str, path: Path, size: int) -> np.void | None:
    """Returns the header. None if it is missing or invalid, which is a problem."""
    if size < layout.HEADER_BYTES:
        builder.add_problem(f"{name} has {count_text(size, 'byte')}, which is less than a header; it is left out")
        return None
    header: np.void = np.fromfile(path, layout.HEADER, 1)[0]
    if header["magic"] != layout.MAGIC or header["header_bytes"] != layout.HEADER_BYTES:
        builder.add_problem(f"{name} has no valid header; it is left out")
        return None
    if header["version"] != layout.VERSION:
        found, own = int(header["version"]), layout.VERSION
        builder.add_problem(
            f"{name} has version {found} of the format, but this busbw reads version {own}; it is left out"
        )
        return None
    if not -1 <= header["rank"] < _MAX_RANKS:
        builder.add_problem(f"{name} has an invalid rank of its process")
        header["rank"] = -1
    return header


def _read_communicators(builder: TraceBuilder, name: str, records: Operations) -> dict[int, CommunicatorEntry]:
    communicators: dict[int, CommunicatorEntry] = {}
    rejected = 0
    for record in records[records["kind"] == layout.Kind.COMMUNICATOR].view(layout.COMMUNICATOR):
        index, rank, size = int(record["communicator"]), int(record["rank"]), int(record["size"])
        max_size = _MAX_RANKS if size == -1 else size  # -1: unknown
        is_valid = 0 <= rank < max_size <= _MAX_RANKS
        if index in communicators or not is_valid or not record["has_id"]:
            rejected += 1
            continue
        communicator_name = plain(bytes(record["name"]).decode(errors="replace"))
        communicators[index] = CommunicatorEntry(
            id=int(record["id"]), rank=rank, size=size, name=communicator_name, members={}
        )
    for record in records[records["kind"] == layout.Kind.MEMBERS].view(layout.MEMBERS):
        entry, first, count = communicators.get(int(record["communicator"])), int(record["first"]), int(record["count"])
        if entry is None or count > len(record["members"]) or first + count > entry.size:
            rejected += 1
            continue
        members = enumerate(record["members"][:count].tolist(), first)
        entry.members.update((own_rank, member) for own_rank, member in members if 0 <= member < _MAX_RANKS)
    if rejected:
        builder.add_problem(f"{name}: {count_text(rejected, 'record')} of communicators are not valid and left out")
    return communicators


def _find_valid_operations(
    builder: TraceBuilder, name: str, records: Operations, declared: list[int]
) -> tuple[NDArray[np.bool_], int]:
    """Returns true for each record that is a valid operation, and the number of records that are left out."""
    is_operation = records["kind"] == layout.Kind.OPERATION
    is_valid = is_operation.copy()
    invalid_count = 0
    for fault, has_fault in (
        ("of unknown kinds", records["kind"] > max(layout.Kind)),
        ("on communicators that were not declared", is_operation & ~np.isin(records["communicator"], declared)),
        (f"with counts over 2^{_MAX_COUNT_BITS}", is_operation & (records["count"] > 2**_MAX_COUNT_BITS)),
    ):
        is_valid &= ~has_fault
        if count := int(np.count_nonzero(has_fault)):
            invalid_count += count
            builder.add_problem(f"{name}: {count_text(count, 'record')} {fault} left out")
    return is_valid, invalid_count


def _find_first_unmatched(records: Operations, is_valid: NDArray[np.bool_], declared: list[int]) -> int | None:
    """Returns the number of valid operations before the first record that is missing or left out.

    Operations on a communicator with an invalid declaration are no gap. All of them are left out, so the operations on
    the other communicators are complete.

    None: no record is missing, or no valid operation follows the missing record.
    """
    kinds = records["kind"]
    is_declaration = np.isin(kinds, (layout.Kind.COMMUNICATOR, layout.Kind.MEMBERS))
    declarations = records[kinds == layout.Kind.COMMUNICATOR].view(layout.COMMUNICATOR)
    rejected = np.setdiff1d(declarations["communicator"], declared)
    is_on_rejected = (kinds == layout.Kind.OPERATION) & np.isin(records["communicator"], rejected)
    missing = np.flatnonzero(~is_valid & ~is_declaration & ~is_on_rejected)
    if not len(missing) or not is_valid[missing[0] :].any():
        return None
    return int(np.count_nonzero(is_valid[: missing[0]]))


def _count_empty(records: Operations) -> int:
    """Returns the number of empty records before other records.

    Empty records at the end do not count, because a killed process leaves such records.
    """
    written = np.flatnonzero(records["kind"] != layout.Kind.NONE)
    if not len(written):
        return 0
    return int(written[-1]) + 1 - len(written)


def _clear_invalid_fields(builder: TraceBuilder, name: str, header: np.void, operations: Operations) -> None:
    """Sets fields with invalid values to unknown, in place."""

    def clear(is_invalid: NDArray[np.bool_], fields: tuple[str, ...], unknown: int, fault: str) -> None:
        if count := int(np.count_nonzero(is_invalid)):
            builder.add_problem(
                f"{name}: {count_text(count, 'operation')} with invalid {fault}, which count as unknown"
            )
            for field in fields:
                operations[field][is_invalid] = unknown

    for field, values, fault in _KNOWN_VALUES:
        is_valid = np.isin(operations[field], [*values, layout.UNKNOWN_BYTE])
        clear(~is_valid, (field,), layout.UNKNOWN_BYTE, fault)
    clear(operations["enqueue_ns"] >= _MAX_TIME_NS, ("enqueue_ns",), 0, "times of the call")
    starts, ends = operations["device_start_ns"], operations["device_end_ns"]
    if header["device_clock"] not in list(layout.DeviceClock):
        builder.add_problem(f"{name} has device times of an unknown clock, which are left out")
        header["device_clock"] = layout.DeviceClock.NONE
    if header["device_clock"] == layout.DeviceClock.NONE:
        starts[:] = ends[:] = 0
    is_too_large = (starts >= _MAX_TIME_NS) | (ends >= _MAX_TIME_NS)
    ends_before_start = (ends != 0) & (ends < starts)
    clear(is_too_large | ends_before_start, ("device_start_ns", "device_end_ns"), 0, "device times")
