"""Clears device times that belong to another operation.

NCCL counts the operations of a channel twice: on the host and on the device. The host reads the time with the number
that it counted. If a rank copies to itself, only the device counts the copy. After such a copy the numbers differ, so
the channels of the copy report the times of earlier operations. Seen with NCCL 2.28.9.
"""

from collections.abc import Mapping

import numpy as np

from busbw.traces.format import TRANSFERS, UNKNOWN_BYTE, Operations


def clear_stale_times(operations: Operations, own_rank_by_communicator: Mapping[int, int]) -> int:
    """Sets device times that may belong to another operation to 0 (unknown). Returns how many operations lost them.

    An operation on more channels than the copies keeps its times. The recorder stores the latest times of all channels,
    so one channel without stale times is enough.

    Args:
        operations: Operations of one process, in the order of the calls. They are changed in place.
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
        # The maximum applies from the first copy on, although the widest copy may be later. So no stale time remains.
        max_copy_channels = part["channels"][is_copy].max()
        is_after_first_copy = np.arange(len(part)) > np.argmax(is_copy)
        has_only_copy_channels = (part["channels"] <= max_copy_channels) | (part["channels"] == UNKNOWN_BYTE)
        stale = indices[is_after_first_copy & has_only_copy_channels & (part["device_start_ns"] != 0)]
        operations["device_start_ns"][stale] = operations["device_end_ns"][stale] = 0
        cleared += len(stale)
    return cleared
