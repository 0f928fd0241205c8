"""How the engine of a container image is started: the words before the program's own."""

import os
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from busbw.errors import BusbwError

VARIABLE = "BUSBW_CONTAINER"
"""The words that run a container, in place of those found here: `podman --runtime=runc run --rm --network=host`."""

_RUNTIMES = {"podman": ("--device", "nvidia.com/gpu=all"), "docker": ("--gpus", "all")}
"""Each with what gives it the GPUs."""


def runner(*, has_gpus: bool) -> list[str]:
    """The words that run a container on this machine as a process of it would run: its network, its shared memory.

    Raises:
        BusbwError: There is nothing that could.
    """
    if named := os.environ.get(VARIABLE):
        return shlex.split(named)
    for name, gpus in _RUNTIMES.items():
        if shutil.which(name):
            return [name, "run", "--rm", "--network=host", "--ipc=host", *(gpus if has_gpus else ())]
    raise BusbwError(
        f"--image needs one of {', '.join(_RUNTIMES)}, and none is here",
        remedy=f"install one, or set {VARIABLE} to the words that run a container",
    )


def command(
    runs: Sequence[str], image: str, program: str, folder: Path, environment: Sequence[tuple[str, str]]
) -> list[str]:
    """The words up to the program's name in the image; `folder` has the same path inside, for the records."""
    place = folder.absolute()
    variables = [word for name, value in environment for word in ("-e", f"{name}={value}")]
    return [*runs, "-v", f"{place}:{place}", *variables, image, program]
