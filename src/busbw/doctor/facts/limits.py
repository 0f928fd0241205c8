"""Resource limits of the process."""

import resource

from busbw.doctor.model.machine import Fact

_NAMES = {
    "memlock_bytes": resource.RLIMIT_MEMLOCK,
    "open_files": resource.RLIMIT_NOFILE,
    "stack_bytes": resource.RLIMIT_STACK,
}


class Limits(Fact, kw_only=True, frozen=True):
    """Soft limits of the process, except one. None for a limit that is not set."""

    memlock_bytes: int | None = None
    open_files: int | None = None
    stack_bytes: int | None = None
    max_open_files: int | None = None
    """Hard limit, to which NCCL and users may raise the soft one."""


def read_limits() -> Limits:
    """Returns the limits of this process."""
    values = {name: resource.getrlimit(limit)[0] for name, limit in _NAMES.items()}
    values["max_open_files"] = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return Limits(**{name: None if value == resource.RLIM_INFINITY else value for name, value in values.items()})
