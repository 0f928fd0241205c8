"""Layout of a trace file, as in common/trace/format.hpp. schema/trace.md describes the fields."""

from enum import IntEnum, IntFlag

import numpy as np
from numpy.typing import NDArray

MAGIC = b"busbwtrc"
VERSION = 1
HEADER_BYTES = 4096
RECORD_BYTES = 64
UNKNOWN_BYTE = 0xFF
"""Unknown value of a field with one byte."""
UNKNOWN_INDEX = 0xFFFF
"""Unknown value of `stream`."""
UNKNOWN_COUNT = 0xFFFFFFFF
"""Unknown value of `network_steps`."""


class Kind(IntEnum):
    """Kind of a record, in its first byte."""

    NONE = 0
    OPERATION = 1
    COMMUNICATOR = 2
    MEMBERS = 3


class Function(IntEnum):
    """Called function. The names of collectives are those of collectives.toml, in upper case."""

    ALL_REDUCE = 0
    ALL_GATHER = 1
    REDUCE_SCATTER = 2
    BROADCAST = 3
    REDUCE = 4
    GATHER = 5
    SCATTER = 6
    ALLTOALL = 7
    SEND = 8
    RECV = 9
    PUT_SIGNAL = 10
    SIGNAL = 11
    WAIT_SIGNAL = 12
    OTHER = 255

    @classmethod
    def of_nccl(cls, name: str) -> "Function":
        """Returns the function of a name such as "AllReduce". `OTHER` for any other text."""
        return _FUNCTIONS.get(name.upper(), cls.OTHER)


TRANSFERS = (Function.SEND, Function.RECV)
ROOTED = (Function.BROADCAST, Function.REDUCE, Function.GATHER, Function.SCATTER)
REDUCING = (Function.ALL_REDUCE, Function.REDUCE_SCATTER, Function.REDUCE)
SYNCHRONIZING = (Function.ALL_REDUCE, Function.ALL_GATHER, Function.REDUCE_SCATTER, Function.ALLTOALL)
"""Functions that no rank ends before all ranks have started."""


class Algorithm(IntEnum):
    """Algorithm of NCCL, or a kind of kernel that is not in NCCL's list of algorithms."""

    TREE = 0
    RING = 1
    COLLNET_DIRECT = 2
    COLLNET_CHAIN = 3
    NVLS = 4
    NVLS_TREE = 5
    PAT = 6
    SYMMETRIC = 7
    COPY_ENGINE = 8
    UNKNOWN = 255

    @classmethod
    def of_nccl(cls, name: str) -> "Algorithm":
        """Returns the algorithm of a name such as "COLLNET_DIRECT", or of a number. `UNKNOWN` for any other text."""
        return _ALGORITHMS.get(name.upper().replace("_", ""), cls.UNKNOWN)


class Protocol(IntEnum):
    """Protocol of NCCL."""

    LL = 0
    LL128 = 1
    SIMPLE = 2
    UNKNOWN = 255

    @classmethod
    def of_nccl(cls, name: str) -> "Protocol":
        """Returns the protocol of a name such as "SIMPLE", or of a number. `UNKNOWN` for any other text."""
        return _PROTOCOLS.get(name.upper(), cls.UNKNOWN)


_FUNCTIONS = {function.name.replace("_", ""): function for function in Function}
_ALGORITHMS = {
    key: algorithm for algorithm in Algorithm for key in (algorithm.name.replace("_", ""), str(int(algorithm)))
}
_PROTOCOLS = {key: protocol for protocol in Protocol for key in (protocol.name, str(int(protocol)))}


class Flag(IntFlag):
    """Bits of the field `flags` of an operation."""

    CAPTURED = 1
    """Called while a CUDA graph was captured. The operation did not run then."""
    GRAPH_REPLAY = 2
    """Issued by the launch of a graph."""
    IN_PLACE = 4
    IS_IN_PLACE_KNOWN = 8
    """IN_PLACE is valid."""
    COUNT_IS_IN_BYTES = 16
    """The source does not report the datatype: `count` is in bytes, and `datatype` is int8."""
    GAP_OVERLAPPED = 32
    """The computation before this operation runs during the previous operation. Only traces of models set this flag."""


class DeviceClock(IntEnum):
    """Clock of the device times."""

    NONE = 0
    """No device times."""
    HOST = 1
    """The clock of `enqueue_ns`."""
    GPU = 2
    """Global timer of the GPU, with an unknown offset to other clocks."""
    DURATION = 3
    """No clock: only durations are known. The start is 1, because 0 means unknown."""


OPERATION = np.dtype(
    [
        ("kind", "u1"),
        ("function", "u1"),
        ("datatype", "u1"),
        ("redop", "u1"),
        ("communicator", "<u2"),
        ("stream", "<u2"),
        ("peer", "<i4"),
        ("group", "<u4"),
        ("count", "<u8"),
        ("enqueue_ns", "<u8"),
        ("device_start_ns", "<u8"),
        ("device_end_ns", "<u8"),
        ("algorithm", "u1"),
        ("protocol", "u1"),
        ("channels", "u1"),
        ("flags", "u1"),
        ("network_steps", "<u4"),
        ("thread", "<u4"),
        ("reserved", "<u4"),
    ]
)
Operations = NDArray[np.void]
"""Structured array of dtype `OPERATION`."""
COMMUNICATOR = np.dtype(
    [
        ("kind", "u1"),
        ("has_id", "u1"),
        ("communicator", "<u2"),
        ("rank", "<i4"),
        ("size", "<i4"),
        ("nodes", "<i4"),
        ("id", "<u8"),
        ("name", "S40"),
    ]
)
MEMBERS = np.dtype(
    [("kind", "u1"), ("count", "u1"), ("communicator", "<u2"), ("first", "<u4"), ("members", "<i4", (14,))]
)
HEADER = np.dtype(
    [
        ("magic", "S8"),
        ("version", "<u4"),
        ("header_bytes", "<u4"),
        ("record_count", "<u8"),
        ("lost_count", "<u8"),
        ("max_bytes", "<u8"),
        ("start_realtime_ns", "<u8"),
        ("start_monotonic_ns", "<u8"),
        ("pid", "<i4"),
        ("rank", "<i4"),
        ("size", "<i4"),
        ("nccl_version", "<u4"),
        ("device_clock", "u1"),
        ("is_closed", "u1"),
        ("plugin_interface", "u1"),
        ("reserved", "u1", (5,)),
        ("host", "S256"),
        ("program", "S256"),
        ("producer", "S128"),
    ]
)
DATATYPE_NAMES = (
    "int8",
    "uint8",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "half",
    "float",
    "double",
    "bfloat16",
    "f8e4m3",
    "f8e5m2",
)
DATATYPE_BYTES = np.array([1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1])
REDOP_NAMES = ("sum", "prod", "max", "min", "avg")


def channels_field(count: int) -> int:
    """Returns the value of the field `channels` for a count. UNKNOWN_BYTE if the count is 0 or does not fit."""
    return count if 0 < count < UNKNOWN_BYTE else UNKNOWN_BYTE
