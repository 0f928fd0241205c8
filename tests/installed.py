"""The programs of the engine as a user has them, and the environment that tests start them in."""

import os
import sys
from pathlib import Path


def installed_in() -> Path:
    """Returns the programs' folder: BUSBW_PROGRAMS if set, else that of this Python, where `pip install` puts them."""
    folder = os.environ.get("BUSBW_PROGRAMS")
    return Path(folder).resolve() if folder else Path(sys.executable).parent


def plain_environment() -> dict[str, str]:
    """Returns the environment without variables that the programs react to, and without GPUs."""
    reacts_to = ("NCCL_", "BUSBW_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(reacts_to)}
    return kept | {"CUDA_VISIBLE_DEVICES": ""}  # these tests are about the host, also where there are GPUs


def share_folder() -> Path:
    """Returns the folder of man pages and completion scripts: in a build folder, else in the environment."""
    folder = installed_in()
    return folder / "share" if (folder / "share").exists() else folder.parent / "share"
