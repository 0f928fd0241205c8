"""Imports traces of PyTorch's profiler (Kineto, Chrome trace format): one file per rank."""

from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from busbw.support.files import path_text
from busbw.traces import format as layout
from busbw.traces.building import Call, TraceBuilder
from busbw.traces.format import DeviceClock, Function
from busbw.traces.importers.json_stream import stream_json
from busbw.traces.importers.torch_operations import (
    MAX_RANKS,
    TorchOperation,
    find_rank_in_name,
    group_index,
    is_operation,
    list_calls,
    parse_numbers,
    read_groups,
)

_NO_ID = -1
_MAX_ID, _MAX_TIME_NS = 1 << 62, 1 << 61
"""Bounds of an "External id" and of a time. Larger values are damage."""


def recognizes(beginning: bytes, path: Path) -> bool:
    """True for a Chrome trace, or a trace with the schema version of Kineto. `path` is not used."""
    return beginning.lstrip().startswith(b"{") and (b'"traceEvents"' in beginning or b'"schemaVersion"' in beginning)


def read(builder: TraceBuilder, paths: Sequence[Path]) -> Sequence[str]:
    """Reads the traces of one job."""
    for path in paths:
        _RankReader(builder, path).read()
    return ["PyTorch's profiler does not tell the reduction operator and the algorithm of operations"]


class _RankReader:
    """Reads the trace of one rank.

    An operation has an event on the host, which describes its call, and an event for each kernel. The event of its
    first kernel may describe the call too. The "External id" joins the kernels with the call.
    """

    def __init__(self, builder: TraceBuilder, path: Path) -> None:
        self._builder = builder
        self._path = path
        self._rank = builder.find_or_add_rank(path, path_text(path))
        self._rank.rank = find_rank_in_name(path)
        self._job_groups: dict[str, list[int]] = {}
        """Ranks of process groups by name, as the job describes them."""
        self._communicators: dict[tuple[str, int, str], tuple[int | None, list[int]]] = {}
        """(index of the communicator, its ranks), by (name, size, text of the ranks)."""
        self._base_ns = 0
        """Unix time of the time 0 in the file."""
        self._call_group_count = 0
        """Number of operations so far. All calls of an operation have the same `Call.group`."""
        self._ids = array("q")
        """"External id" of each operation, or `_NO_ID`."""
        self._is_call = array("b")
        """True if the event of the call describes the operation, false if the event of a kernel does."""
        self._kernels = [array("q") for _ in range(5)]
        """"External id", start, end, stream and channels of each kernel."""
        self._last_kernel_id = _NO_ID
        self._call_ids: set[int] = set()
        """"External id" of the operations that an event of a call has described so far."""

    def read(self) -> None:
        """Reads the file."""
        for key, value in stream_json(self._builder, self._path, "traceEvents"):
            if key == "traceEvents" and isinstance(value, dict):
                try:
                    self._read_event(value)
                except (KeyError, TypeError, ValueError, OverflowError):
                    self._builder.add_problem("{count} events with values of another form are left out")
            elif key == "distributedInfo" and isinstance(value, dict):
                self._read_job(value)
            elif key == "baseTimeNanoseconds" and isinstance(value, int):
                self._base_ns = value
        self._join_kernels()
        self._rank.start_at_first_time(self._base_ns)

    def _read_job(self, job: dict[str, Any]) -> None:
        if isinstance(number := job.get("rank"), int) and 0 <= number < MAX_RANKS:
            self._rank.rank = number
        version = job.get("nccl_version")
        self._rank.nccl_version = version if isinstance(version, str) and version != "unknown" else ""
        self._job_groups |= read_groups(job.get("pg_config"))

    def _read_event(self, event: dict[str, Any]) -> None:
        """Reads the event of a call on the host, or of a kernel of NCCL. Other events are ignored."""
        arguments, category = event.get("args"), event.get("cat")
        if not isinstance(arguments, dict):
            return
        is_described = "Collective name" in arguments
        identity = int(arguments.get("External id", _NO_ID))
        if not 0 <= identity < _MAX_ID:
            identity = _NO_ID
        if category == "cpu_op" and is_described:
            times = {"enqueue_ns": _nanoseconds(event["ts"]), "thread": self._rank.number_thread(event.get("tid"))}
            self._add(arguments, identity, times, is_call=True)
        elif category in ("kernel", "Kernel") and (is_described or "nccl" in str(event.get("name")).lower()):
            self._read_kernel(event, arguments, identity, is_described=is_described)

    def _read_kernel(
        self, event: dict[str, Any], arguments: dict[str, Any], identity: int, *, is_described: bool
    ) -> None:
        start_ns = _nanoseconds(event["ts"])
        end_ns = start_ns + _nanoseconds(event["dur"])
        # NCCL starts one block per channel. Channels of 0 or `UNKNOWN_BYTE` are unknown.
        grid = arguments.get("grid")
        channels = min(max(0, int(grid[0])), layout.UNKNOWN_BYTE) if isinstance(grid, list) and grid else 0
        stream = self._rank.number_stream(str(arguments.get("stream", event.get("tid"))))
        # Only the first kernel of an operation may add it. Further kernels have the "External id" of the kernel before.
        is_continued = identity != _NO_ID and identity == self._last_kernel_id
        self._last_kernel_id = identity
        for column, value in zip(self._kernels, (identity, start_ns, end_ns, stream, channels), strict=True):
            column.append(value)
        if is_described and not is_continued:
            times = {"device_start_ns": start_ns, "device_end_ns": end_ns}
            self._add(arguments, identity, times, is_call=False)

    def _add(self, arguments: dict[str, Any], identity: int, fields: dict[str, int], *, is_call: bool) -> None:
        """Adds the operation of an event, with these fields of its `Call`. `identity`: the "External id"."""
        size = int(arguments["Group size"])
        name, ranks_text = str(arguments.get("Process Group Name", "")), str(arguments.get("Process Group Ranks"))
        if not is_operation(str(arguments["Collective name"])):
            return
        if is_call:
            self._call_ids.add(identity)
        elif identity != _NO_ID and identity in self._call_ids:
            return  # the operation is known, and its problems are counted
        key = (name, size, ranks_text)
        if key not in self._communicators:
            members = self._members(arguments, name, size)
            self._communicators[key] = (group_index(self._builder, name, size, members), members)
        index, members = self._communicators[key]
        input_splits, has_inputs = parse_numbers(arguments.get("In split size", "[]"))
        output_splits, has_outputs = parse_numbers(arguments.get("Out split size", "[]"))
        are_splits_known = has_inputs and has_outputs
        operation = TorchOperation(
            name=str(arguments["Collective name"]),
            inputs=int(arguments["In msg nelems"]),
            outputs=int(arguments["Out msg nelems"]),
            datatype=str(arguments.get("dtype")),
            size=size,
            peer=_find_peer(arguments, members),
            input_splits=input_splits if are_splits_known else (),
            output_splits=output_splits if are_splits_known else (),
            are_splits_known=are_splits_known,
        )
        if index is not None:
            self._call_group_count += 1
            # `list_calls` replaces the function and the number of elements.
            template = Call(
                function=Function.OTHER, communicator=index, elements=0, group=self._call_group_count, **fields
            )
            for call in list_calls(self._builder, operation, template):
                if self._rank.add(call) >= 0:  # negative: the call has an impossible value and was not added
                    self._ids.append(identity)
                    self._is_call.append(is_call)

    def _members(self, arguments: dict[str, Any], name: str, size: int) -> list[int]:
        """Returns the ranks of a process group. Empty if unknown: the profiler cuts a list after 30 ranks."""
        listed, is_complete = parse_numbers(arguments.get("Process Group Ranks"))
        start, stride = arguments.get("Global rank start"), arguments.get("Global rank stride")
        progression: list[int] = []
        if isinstance(start, int) and isinstance(stride, int) and stride > 0 and 0 < size <= MAX_RANKS:
            progression = list(range(start, start + stride * size, stride))
        candidates = (listed if is_complete else [], self._job_groups.get(name, []), progression)
        return next((members for members in candidates if len(members) == size), [])

    def _join_kernels(self) -> None:
        """Gives the operations the times of their kernels, and sorts the operations by the times of their calls."""
        ids, is_call = np.frombuffer(self._ids, np.int64), np.frombuffer(self._is_call, np.int8) > 0
        operations = self._rank.operations
        kernel_ids, starts, ends, streams, channels = (np.frombuffer(column, np.int64) for column in self._kernels)
        order = np.argsort(kernel_ids, kind="stable")
        distinct_ids, firsts = np.unique(kernel_ids[order], return_index=True)
        if len(distinct_ids):
            # `reduceat` combines the kernels of each id: from the first start to the last end, with the most channels.
            max_channels = np.maximum.reduceat(channels[order], firsts)
            are_channels_known = (max_channels > 0) & (max_channels < layout.UNKNOWN_BYTE)
            # Position in `distinct_ids` of each operation's id. It is valid only if the operation has a kernel.
            positions = np.minimum(np.searchsorted(distinct_ids, ids), len(distinct_ids) - 1)
            has_kernel = (distinct_ids[positions] == ids) & (ids != _NO_ID)
            self._rank.device_clock = DeviceClock.HOST
            for field, value_by_position in (
                ("device_start_ns", np.minimum.reduceat(starts[order], firsts)),
                ("device_end_ns", np.maximum.reduceat(ends[order], firsts)),
                ("stream", streams[order][firsts]),
                ("channels", np.where(are_channels_known, max_channels, layout.UNKNOWN_BYTE)),
            ):
                operations[field][has_kernel] = value_by_position[positions[has_kernel]]
            count = int(np.count_nonzero(~np.isin(kernel_ids, ids)))
            self._builder.add_problem("{count} kernels of NCCL have no call (coalesced calls or CUDA graphs)", count)
        # An operation that a kernel describes is used only if no event of the call describes the same operation.
        has_call_event = np.isin(ids, ids[is_call])
        selected = np.flatnonzero(is_call | ~has_call_event)
        times = np.where(operations["enqueue_ns"] > 0, operations["enqueue_ns"], operations["device_start_ns"])
        self._rank.select(selected[np.argsort(times[selected], kind="stable")])


def _find_peer(arguments: dict[str, Any], members: Sequence[int]) -> int:
    """Returns the root or peer of an operation as rank of its process group. Negative if unknown.

    Args:
        arguments: Arguments of the event. "Rank" counts within the group, "Dst Rank" and "Src Rank" within the job.
        members: Ranks of the group, counted within the job.
    """
    group_rank = int(arguments.get("Rank", -1))
    if group_rank >= 0:
        return group_rank
    job_rank = arguments.get("Dst Rank", arguments.get("Src Rank"))
    return members.index(job_rank) if job_rank in members else group_rank


def _nanoseconds(microseconds: object) -> int:
    """Returns a time of an event in ns.

    Raises:
        TypeError: The value is no number.
        ValueError: The time is not possible.
    """
    if not isinstance(microseconds, int | float):
        raise TypeError
    nanoseconds = round(microseconds * 1000)
    if not 0 <= nanoseconds < _MAX_TIME_NS:
        raise ValueError
    return nanoseconds
