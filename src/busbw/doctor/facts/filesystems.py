"""Space in the file system of shared memory."""

import os
from pathlib import Path

from busbw.doctor.model import Unreadable
from busbw.doctor.model.machine import Fact

_SHARED_MEMORY = Path("/dev/shm")


class Filesystems(Fact, kw_only=True, frozen=True):
    """Space in /dev/shm. NCCL's processes of one node exchange data through files in it."""

    shm_total_bytes: int
    shm_free_bytes: int


def read_filesystems() -> Filesystems:
    """Returns the space on this machine.

    Raises:
        Unreadable: There is no /dev/shm, or it cannot be read.
    """
    try:
        space = os.statvfs(_SHARED_MEMORY)
    except OSError as error:
        raise Unreadable(f"{_SHARED_MEMORY} cannot be read: {error.strerror}") from error
    return Filesystems(shm_total_bytes=space.f_blocks * space.f_frsize, shm_free_bytes=space.f_bavail * space.f_frsize)
