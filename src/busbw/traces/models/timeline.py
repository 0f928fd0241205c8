"""Sequence of operations of one rank, as its program calls them."""

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
from busbw.traces.models.shapes import COMPUTE_FLOPS


class Timeline:
    """Operations of one rank. Its clock counts computation only: communication takes no time."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, ...]] = []
        self._clock_ns = 1.0
        self._groups = 0

    def compute(self, flops: float) -> None:
        """Advances the clock by the time of this computation."""
        self._clock_ns += flops / COMPUTE_FLOPS * 1e9

    def call(
        self,
        function: Function,
        communicator: int,
        count: int,
        datatype: str = "bfloat16",
        redop: str = "",
        *,
        overlapped: bool = False,
        peer: int = -1,
        group: int = 0,
    ) -> None:
        """Appends an operation.

        Args:
            function: Called function.
            communicator: Index in `Trace.communicators`.
            count: Elements, as in the call of NCCL.
            datatype: Name of the element type.
            redop: Operator; empty if the function does not reduce.
            overlapped: True if the computation since the last operation of the communicator did not wait for it.
            peer: Root, or peer of a send or receive, in the communicator.
            group: Number of the group; 0 outside of groups.
        """
        self._rows.append(
            (
                Kind.OPERATION,
                function,
                DATATYPE_NAMES.index(datatype),
                REDOP_NAMES.index(redop) if redop else UNKNOWN_BYTE,
                communicator,
                communicator,  # a communicator has its own stream
                peer,
                group,
                count,
                round(self._clock_ns),
                0,
                0,
                UNKNOWN_BYTE,
                UNKNOWN_BYTE,
                UNKNOWN_BYTE,
                Flag.OVERLAPPED if overlapped else 0,
                UNKNOWN_COUNT,
                0,
                UNKNOWN_COUNT,
            )
        )

    def exchange(
        self,
        communicator: int,
        sent: NDArray[np.int64],
        received: NDArray[np.int64],
        own: int,
        datatype: str = "bfloat16",
    ) -> None:
        """Appends an alltoallv as one group of sends and receives, without empty messages and the rank's own.

        Args:
            communicator: Index in `Trace.communicators`.
            sent: Elements for each rank of the communicator.
            received: Elements from each rank of the communicator.
            own: Rank in the communicator.
            datatype: Name of the element type.
        """
        self._groups += 1
        for peer in range(len(sent)):
            for function, counts in ((Function.SEND, sent), (Function.RECV, received)):
                if peer != own and counts[peer]:
                    self.call(function, communicator, int(counts[peer]), datatype, peer=peer, group=self._groups)

    def operations(self) -> Operations:
        """Returns the operations in the order of the calls."""
        return np.array(self._rows, dtype=OPERATION)
