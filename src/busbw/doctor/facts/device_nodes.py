"""Device nodes of GPUs and RDMA devices, and whether this process may open them."""

import os
from pathlib import Path

from busbw.doctor.model.machine import Fact

_PATTERNS = ("nvidia*", "infiniband/*")


class DeviceNodes(Fact, kw_only=True, frozen=True):
    """Names below /dev, such as nvidia0 and infiniband/uverbs0."""

    usable: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    """Those that this process may not open: by file mode, or by the device rules of its cgroup."""


def read_device_nodes() -> DeviceNodes:
    """Returns the device nodes of this process's /dev."""
    paths = [path for pattern in _PATTERNS for path in sorted(Path("/dev").glob(pattern)) if path.is_char_device()]
    # The kernel applies the rules of the cgroup here as well. Opening a node could wake its device.
    usable = {str(path.relative_to("/dev")): os.access(path, os.R_OK | os.W_OK) for path in paths}
    return DeviceNodes(
        usable=tuple(name for name in usable if usable[name]),
        denied=tuple(name for name in usable if not usable[name]),
    )
