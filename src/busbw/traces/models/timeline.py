"""Operations of one rank, as its program calls them."""

import numpy as np
from numpy.typing import NDArray

from busbw.traces.format import (
    DATATYPE_NAMES,
    OPERATION,
    REDOP_NAMES,
    UNKNOWN_BYTE,
    UNKNOWN_COUNT,
    Flag,
    Function,
    Kind,
)
from busbw.traces.model import Operations

COMPUTE_FLOPS = 400e12
"""Assumed rate of a GPU. Llama 3 trained at 380 to 430 TFLOP/s per H100 in bfloat16: arXiv 2407.21783, table 4."""


class Timeline:
    """Operations of one rank. Its clock counts computation only: communication takes no time."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, ...]] = []
        self._clock_ns = 1.0
        self._groups = 0

    def compute(self, flops: float) -> None:
        """Advances the clock by the time of a computation."""
        self._clock_ns += flops / COMPUTE_FLOPS * 1e9

    def call(
        self,
        function: Function,
        communicator: int,
        count: int,
        datatype: str = "bfloat16",
        redop: str = "",
        *,
        flags: int = 0,
        peer: int = -1,
        group: int = 0,
    ) -> None:
        """Appends an operation with these fields of `format.OPERATION`."""
        types = DATATYPE_NAMES.index(datatype), REDOP_NAMES.index(redop) if redop else UNKNOWN_BYTE
        fields = (communicator, communicator, peer, group, count, round(self._clock_ns), flags | Flag.IS_IN_PLACE_KNOWN)
        self._rows.append((function, *types, *fields))

    def all_reduce(self, communicator: int, count: int, redop: str = "sum") -> None:
        """Appends an all-reduce of floats, in place."""
        self.call(Function.ALL_REDUCE, communicator, count, "float", redop, flags=Flag.IN_PLACE)

    def exchange(self, communicator: int, counts: NDArray[np.int64], own: int, datatype: str = "bfloat16") -> None:
        """Appends an alltoallv of the rank `own` as a group of sends and receives, without empty messages and its own.

        `counts` are the elements from each rank of the communicator to each: [ranks, ranks].
        """
        self._groups += 1
        for peer in range(len(counts)):
            for function, count in ((Function.SEND, counts[own, peer]), (Function.RECV, counts[peer, own])):
                if peer != own and count:
                    self.call(function, communicator, int(count), datatype, peer=peer, group=self._groups)

    def operations(self) -> Operations:
        """Returns the operations in the order of the calls. Each communicator has its own stream."""
        operations = np.zeros(len(self._rows), OPERATION)
        operations["kind"] = Kind.OPERATION
        for name in ("algorithm", "protocol", "channels"):
            operations[name] = UNKNOWN_BYTE
        operations["network_steps"] = operations["host_ns"] = UNKNOWN_COUNT
        names = [
            "function",
            "datatype",
            "redop",
            "communicator",
            "stream",
            "peer",
            "group",
            "count",
            "enqueue_ns",
            "flags",
        ]
        for name, column in zip(names, zip(*self._rows, strict=True), strict=True):
            operations[name] = column
        return operations
