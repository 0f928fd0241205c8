"""The user's configuration file of NCCL."""

import os
from pathlib import Path

from busbw.doctor.model import Unreadable
from busbw.doctor.model.machine import Fact
from busbw.secret_variables import may_be_secret

_MAX_BYTES = 1 << 16


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
        path = Path(name) if os.environ.get("NCCL_CONF_FILE") else Path(name).expanduser()
        if not path.exists():
            return UserConfiguration(path=name)
        if not path.is_file():  # A pipe would block, and a device may have no end.
            raise Unreadable(f"{name} is not a regular file")
        with path.open("rb") as file:
            lines = file.read(_MAX_BYTES).decode(errors="replace").splitlines()
    except (OSError, RuntimeError, ValueError) as error:
        raise Unreadable(f"{name} cannot be read: {error}") from error
    return UserConfiguration(
        path=name, lines=tuple(line for line in lines if not may_be_secret(*line.partition("=")[::2]))
    )
