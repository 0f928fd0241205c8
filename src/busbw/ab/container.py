"""Command that starts the engine in a container."""

import os
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from busbw.errors import BusbwError

VARIABLE = "BUSBW_CONTAINER"
"""Command that runs a container, instead of the default: `podman --runtime=runc run --rm --network=host`."""

_RUNTIMES = {"podman": ("--device", "nvidia.com/gpu=all"), "docker": ("--gpus", "all")}
"""Container programs with their arguments for GPU access."""


def runner(*, has_gpus: bool) -> list[str]:
    """Returns the command that runs a container with this machine's network, shared memory and GPUs.

    Raises:
        BusbwError: No container program is installed.
    """
    if named := os.environ.get(VARIABLE):
        return shlex.split(named)
    for name, gpus in _RUNTIMES.items():
        if shutil.which(name):
            return [name, "run", "--rm", "--network=host", "--ipc=host", *(gpus if has_gpus else ())]
    raise BusbwError(
        f"--image needs one of {', '.join(_RUNTIMES)}, and none is installed",
        remedy=f"install one, or set {VARIABLE} to a command that runs containers",
    )


def command(
    runs: Sequence[str], image: str, program: str, folder: Path, environment: Sequence[tuple[str, str]]
) -> list[str]:
    """Returns the command up to the program's name. `folder` has the same path in the container, for the records."""
    path = folder.absolute()
    variables = [word for name, value in environment for word in ("-e", f"{name}={value}")]
    return [*runs, "-v", f"{path}:{path}", *variables, image, program]
