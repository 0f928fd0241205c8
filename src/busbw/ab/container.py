"""Command that starts the engine in a container, for a side with `--image`."""

import os
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from busbw.errors import BusbwError
from busbw.support.secret_variables import may_be_secret

CONTAINER_VARIABLE = "BUSBW_CONTAINER"
"""Variable with the command that runs a container, such as `podman --runtime=runc run --rm --network=host`."""

_RUNTIMES = {"podman": ("--device", "nvidia.com/gpu=all"), "docker": ("--gpus", "all")}
"""Container programs with their arguments for GPU access."""


def runner(*, has_gpus: bool) -> list[str]:
    """Returns the user's command (CONTAINER_VARIABLE), or a command that gives the container network, IPC and GPUs.

    Raises:
        BusbwError: No container program is installed.
    """
    if user_command := os.environ.get(CONTAINER_VARIABLE):
        return shlex.split(user_command)
    for name, gpu_arguments in _RUNTIMES.items():
        if shutil.which(name):
            return [name, "run", "--rm", "--network=host", "--ipc=host", *(gpu_arguments if has_gpus else ())]
    raise BusbwError(
        f"--image needs one of {', '.join(_RUNTIMES)}, and none is installed",
        remedy=f"install one, or set {CONTAINER_VARIABLE} to a command that runs containers",
    )


def inherited_variables(environment: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Returns the variables that the container inherits from its runner: secrets, which no command line may show.

    The runner does not get the other variables: LD_PRELOAD, for example, would change the runner itself.
    """
    return tuple((name, value) for name, value in environment if may_be_secret(name, value))


def command(
    runner_command: Sequence[str], image: str, program: str, folder: Path, environment: Sequence[tuple[str, str]]
) -> list[str]:
    """Returns the command up to the program's name; its flags follow.

    `folder`, which receives the records, is mounted in the container at the same path. The command names the
    `inherited_variables` without their values.
    """
    path = folder.absolute()
    inherited_names = dict(inherited_variables(environment))
    variables = []
    for name, value in environment:
        variables += ["-e", name if name in inherited_names else f"{name}={value}"]
    return [*runner_command, "-v", f"{path}:{path}", *variables, image, program]
