"""Operations of one rank of a model, in the order of the calls of its program."""

import numpy as np
from numpy.typing import NDArray

from busbw.traces.building import Call, RankBuilder
from busbw.traces.format import DATATYPE_NAMES, REDOP_NAMES, UNKNOWN_BYTE, Flag, Function

COMPUTE_FLOPS = 400e12
"""Assumed rate of a GPU: Llama 3 405B trained at 380 to 430 TFLOP/s per H100, including its waits for communication.

Source: arXiv 2407.21783, table 4.
"""


class Timeline:
    """Operations of one rank. Its clock counts computation only: communication takes no time."""

    def __init__(self, builder: RankBuilder, rank: int, ranks: int, group_size: int) -> None:
        """Begins without operations. `builder` receives them."""
        self.rank = rank
        """Rank of the job."""
        self.ranks = ranks
        """Number of ranks of the job."""
        self.group_size = group_size
        """Number of ranks of each tensor-parallel or expert-parallel group."""
        self.communicators: dict[int, int] = {}
        """Index in the trace of each communicator, by the constant of the model's module, such as `WORLD`."""
        self._builder = builder
        self._clock_ns = 1.0  # not 0, because a time of 0 is unknown
        self._call_group_count = 0

    def compute(self, flops: float) -> None:
        """Advances the clock by the time that this number of floating-point operations takes."""
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
        call_group: int = 0,
    ) -> None:
        """Appends an operation. Each communicator has its own stream.

        `communicator` is the constant of the model's module. `call_group` is the number of a group of calls, and 0
        outside a group. The other arguments are fields of `format.OPERATION`.
        """
        self._builder.add(
            Call(
                function=function,
                communicator=self.communicators[communicator],
                elements=count,
                datatype=DATATYPE_NAMES.index(datatype),
                redop=REDOP_NAMES.index(redop) if redop else UNKNOWN_BYTE,
                stream=communicator,
                peer=peer,
                group=call_group,
                flags=flags | Flag.IS_IN_PLACE_KNOWN,
                enqueue_ns=round(self._clock_ns),
            )
        )

    def all_reduce(self, communicator: int, count: int, redop: str = "sum") -> None:
        """Appends an all-reduce of floats, in place."""
        self.call(Function.ALL_REDUCE, communicator, count, "float", redop, flags=Flag.IN_PLACE)

    def exchange(
        self, communicator: int, counts: NDArray[np.int64], group_rank: int, datatype: str = "bfloat16"
    ) -> None:
        """Appends an alltoallv as a group of calls: sends and receives, without empty messages.

        The message of this rank to itself is left out. `counts[i, j]`: number of elements from rank i to rank j of the
        communicator. `group_rank`: rank of this timeline in it.
        """
        self._call_group_count += 1
        for peer in range(len(counts)):
            for function, count in (
                (Function.SEND, counts[group_rank, peer]),
                (Function.RECV, counts[peer, group_rank]),
            ):
                if peer != group_rank and count:
                    self.call(
                        function, communicator, int(count), datatype, peer=peer, call_group=self._call_group_count
                    )
