"""Times after a copy of a rank to itself: NCCL 2.28.9 reported those of the step before, seen on two H100."""

import numpy as np

from busbw.traces.format import OPERATION, Function
from busbw.traces.read.stale_times import clear_stale_times


def operation(function: Function, channels: int, peer: int = -1, start: int = 100, communicator: int = 0) -> np.ndarray:
    record = np.zeros(1, OPERATION)
    record["function"], record["channels"], record["peer"], record["communicator"] = (
        function,
        channels,
        peer,
        communicator,
    )
    record["device_start_ns"], record["device_end_ns"] = start, start + 10 if start else 0
    return record


def test_only_operations_on_the_channels_of_an_earlier_copy_lose_their_times() -> None:
    operations = np.concatenate(
        [
            operation(Function.ALL_REDUCE, 1),  # before the copy
            operation(Function.SEND, 16, peer=1, start=0),  # the copy of rank 1
            operation(Function.SEND, 16, peer=0),
            operation(Function.ALL_GATHER, 24),  # its other channels have right times
            operation(Function.ALL_REDUCE, 1),
            operation(Function.ALL_REDUCE, 255),  # unknown channels
            operation(Function.ALL_REDUCE, 1, communicator=1),
            operation(Function.SEND, 2, peer=0, communicator=1),  # rank 1 of this communicator is another one
        ]
    )
    assert clear_stale_times(operations, {0: 1, 1: 3}) == 3
    assert operations["device_start_ns"].tolist() == [100, 0, 0, 100, 0, 0, 100, 100]
    assert operations["device_end_ns"].tolist() == [110, 0, 0, 110, 0, 0, 110, 110]
