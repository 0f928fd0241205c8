"""Device times that belong to another operation, because NCCL counts a copy of a rank to itself only on the device.

Seen with NCCL 2.28.9: after such a copy, the channels of the copy report the times of earlier operations.
"""

from collections.abc import Mapping

import numpy as np

from busbw.traces.format import TRANSFERS, UNKNOWN_BYTE, Operations


def clear_stale_times(operations: Operations, own_rank_by_communicator: Mapping[int, int]) -> int:
    """Makes device times unknown, in place, that may belong to another operation. Returns the number of operations.

    An operation on more channels than the copies keeps its times: the recorder stores the latest times of all channels.

    Args:
        operations: Operations of one process, in the order of the calls.
        own_rank_by_communicator: Rank of the process in each communicator, by the index that the operations use.
    """
    is_transfer = np.isin(operations["function"], TRANSFERS)
    cleared = 0
    for communicator in np.unique(operations["communicator"][is_transfer]).tolist():
        indices = np.flatnonzero(operations["communicator"] == communicator)
        part = operations[indices]
        is_copy = is_transfer[indices] & (part["peer"] == own_rank_by_communicator[communicator])
        if not is_copy.any():
            continue
        width = part["channels"][is_copy].max()
        is_later = np.arange(len(part)) > np.argmax(is_copy)
        is_narrow = (part["channels"] <= width) | (part["channels"] == UNKNOWN_BYTE)
        stale = indices[is_later & is_narrow & (part["device_start_ns"] != 0)]
        operations["device_start_ns"][stale] = operations["device_end_ns"][stale] = 0
        cleared += len(stale)
    return cleared
