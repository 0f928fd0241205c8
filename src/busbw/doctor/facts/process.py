"""Facts of this process: variables, limits, device nodes, shared memory, and the user's configuration of NCCL."""

import os
import re
import resource
from collections.abc import Callable
from pathlib import Path

from busbw.doctor.model import Unreadable
from busbw.doctor.model.machine import Fact
from busbw.secret_variables import may_be_secret

_CONCERNS_COMMUNICATION = re.compile(
    r"(?:NCCL|RCCL|OFI_NCCL|FI|UCX|CUDA|NVIDIA|TORCH_NCCL|TORCH_DISTRIBUTED|OMPI_MCA|OMPI_COMM_WORLD|RDMAV|MLX5|IBV|SLURM|SRUN|PMI|"
    r"PMIX|KUBERNETES|OMP|GOMP|HSA|HIP|ROCR|BUSBW|ENROOT|MELLANOX|SHARP|HCOLL)_|(?:LD_LIBRARY_PATH|LD_PRELOAD)$"
)
_SOFT, _HARD = 0, 1
_LIMITS = {
    "memlock_bytes": (resource.RLIMIT_MEMLOCK, _SOFT),
    "stack_bytes": (resource.RLIMIT_STACK, _SOFT),
    "max_open_files": (resource.RLIMIT_NOFILE, _HARD),
}
"""Resource and kind of limit for each field of `Limits`."""
_NODE_PATTERNS = ("nvidia*", "infiniband/*")
_SHARED_MEMORY = Path("/dev/shm")
_MAX_CONFIGURATION_BYTES = 1 << 16


class Environment(Fact, kw_only=True, frozen=True):
    """Variables that concern communication, except variables that may be secret."""

    variables: dict[str, str]


def read_environment() -> Environment:
    """Returns the variables of this process."""
    return Environment(
        variables={
            name: value.encode(errors="surrogateescape").decode(errors="replace")
            for name, value in sorted(os.environ.items())
            if _CONCERNS_COMMUNICATION.match(name) and not may_be_secret(name, value)
        }
    )


class Limits(Fact, kw_only=True, frozen=True):
    """Soft limits of the process, and one hard limit. None for a limit that is not set."""

    memlock_bytes: int | None = None
    stack_bytes: int | None = None
    max_open_files: int | None = None
    """Hard limit, to which NCCL and users may raise the soft one."""


def read_limits() -> Limits:
    """Returns the limits of this process."""
    values = {name: resource.getrlimit(limit)[kind] for name, (limit, kind) in _LIMITS.items()}
    return Limits(**{name: None if value == resource.RLIM_INFINITY else value for name, value in values.items()})


class DeviceNodes(Fact, kw_only=True, frozen=True):
    """Names below /dev, such as nvidia0 and infiniband/uverbs0."""

    usable: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    """Names that this process may not open, because of the file mode or the device rules of its cgroup."""


def read_device_nodes() -> DeviceNodes:
    """Returns the device nodes of this process's /dev."""
    paths = [path for pattern in _NODE_PATTERNS for path in sorted(Path("/dev").glob(pattern)) if path.is_char_device()]
    # `access` also follows the device rules of the cgroup. Opening a node instead could wake its device.
    is_usable = {str(path.relative_to("/dev")): os.access(path, os.R_OK | os.W_OK) for path in paths}
    return DeviceNodes(
        usable=tuple(name for name in is_usable if is_usable[name]),
        denied=tuple(name for name in is_usable if not is_usable[name]),
    )


class Filesystems(Fact, kw_only=True, frozen=True):
    """Space in /dev/shm. NCCL's processes of one node exchange data through files in this folder."""

    shm_total_bytes: int
    shm_free_bytes: int


def read_filesystems() -> Filesystems:
    """Returns the space on this machine.

    Raises:
        Unreadable: /dev/shm does not exist, or cannot be read.
    """
    try:
        space = os.statvfs(_SHARED_MEMORY)
    except OSError as error:
        raise Unreadable(f"{_SHARED_MEMORY} cannot be read: {error.strerror}") from error
    return Filesystems(shm_total_bytes=space.f_blocks * space.f_frsize, shm_free_bytes=space.f_bavail * space.f_frsize)


class UserConfiguration(Fact, kw_only=True, frozen=True):
    """File that NCCL_CONF_FILE names, else ~/.nccl.conf."""

    path: str
    lines: tuple[str, ...] | None = None
    """Lines without possible secrets. None if the file does not exist."""


def read_user_configuration() -> UserConfiguration:
    """Returns the file of this process.

    Raises:
        Unreadable: The file exists but cannot be read.
    """
    name = os.environ.get("NCCL_CONF_FILE") or "~/.nccl.conf"
    try:
        path = Path(name)
        if not os.environ.get("NCCL_CONF_FILE"):  # NCCL does not expand "~" in the variable
            path = path.expanduser()
        if not path.exists():
            return UserConfiguration(path=name)
        if not path.is_file():  # A pipe would block, and a device may have no end.
            raise Unreadable(f"{name} is not a regular file")
        with path.open("rb") as file:
            lines = file.read(_MAX_CONFIGURATION_BYTES).decode(errors="replace").splitlines()
    except (OSError, RuntimeError, ValueError) as error:
        raise Unreadable(f"{name} cannot be read: {error}") from error
    return UserConfiguration(path=name, lines=tuple(line for line in lines if not _may_be_secret(line)))


def _may_be_secret(line: str) -> bool:
    variable, _, value = line.partition("=")
    return may_be_secret(variable, value)


READERS: dict[type[Fact], Callable[[], Fact]] = {
    Environment: read_environment,
    Limits: read_limits,
    DeviceNodes: read_device_nodes,
    Filesystems: read_filesystems,
    UserConfiguration: read_user_configuration,
}
"""Functions that read the facts of this module, by type."""
