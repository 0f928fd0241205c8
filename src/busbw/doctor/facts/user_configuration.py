"""The user's configuration file of NCCL."""

import os
from pathlib import Path

from busbw.doctor.model.check import Unreadable
from busbw.doctor.model.machine import Fact
from busbw.secret_variables import may_be_secret

_MAX_BYTES = 1 << 16


class UserConfiguration(Fact, kw_only=True, frozen=True):
    """File that NCCL_CONF_FILE names, else ~/.nccl.conf."""

    path: str
    lines: tuple[str, ...] | None = None
    """Lines without comments and possible secrets. None if the file does not exist."""


def read_user_configuration() -> UserConfiguration:
    """Returns the file of this process.

    Raises:
        Unreadable: The file exists but cannot be read.
    """
    shown = os.environ.get("NCCL_CONF_FILE") or "~/.nccl.conf"
    try:
        # A pipe would block, and a device may have no end.
        path = Path(shown).expanduser() if shown.startswith("~/") else Path(shown)
        if path.exists() and not path.is_file():
            raise Unreadable(f"{shown} is not a regular file")
        with path.open("rb") as file:
            lines = file.read(_MAX_BYTES).decode(errors="replace").splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return UserConfiguration(path=shown, lines=None)
    except (OSError, RuntimeError, ValueError) as error:
        raise Unreadable(f"{shown} cannot be read: {error}") from error
    settings = [line for line in lines if line.strip() and not line.startswith("#")]
    return UserConfiguration(
        path=shown, lines=tuple(line for line in settings if not may_be_secret(*line.partition("=")[::2]))
    )
