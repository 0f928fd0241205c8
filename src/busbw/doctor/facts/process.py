"""Facts of this process: variables, limits, device nodes, shared memory, and the user's configuration of NCCL."""

import os
import re
import resource
from pathlib import Path

from busbw.doctor.model import Unreadable
from busbw.doctor.model.machine import Fact
from busbw.support.files import read_user_file
from busbw.support.secret_variables import may_be_secret

_CONCERNS_COMMUNICATION = re.compile(
    r"(?:NCCL|RCCL|OFI_NCCL|FI|UCX|CUDA|NVIDIA|TORCH_NCCL|TORCH_DISTRIBUTED|OMPI_MCA|OMPI_COMM_WORLD|RDMAV|MLX5|IBV|SLURM|SRUN|PMI|"
    r"PMIX|KUBERNETES|OMP|GOMP|HSA|HIP|ROCR|BUSBW|ENROOT|MELLANOX|SHARP|HCOLL)_|(?:LD_LIBRARY_PATH|LD_PRELOAD)$"
)
_NODE_PATTERNS = ("nvidia*", "infiniband/*")
_SHARED_MEMORY = Path("/dev/shm")


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
    soft, hard = 0, 1

    def limit(resource_number: int, kind: int) -> int | None:
        value = resource.getrlimit(resource_number)[kind]
        return None if value == resource.RLIM_INFINITY else value

    return Limits(
        memlock_bytes=limit(resource.RLIMIT_MEMLOCK, soft),
        stack_bytes=limit(resource.RLIMIT_STACK, soft),
        max_open_files=limit(resource.RLIMIT_NOFILE, hard),
    )


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
    named = os.environ.get("NCCL_CONF_FILE")
    name = named or "~/.nccl.conf"
    try:
        path = Path(named) if named else Path(name).expanduser()  # NCCL does not expand "~" in the variable
        lines = read_user_file(path).decode(errors="replace").splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return UserConfiguration(path=name)
    except (OSError, RuntimeError, ValueError) as error:
        raise Unreadable(f"{name} cannot be read: {error}") from error
    return UserConfiguration(
        path=name, lines=tuple(line for line in lines if not may_be_secret(*line.partition("=")[::2]))
    )
