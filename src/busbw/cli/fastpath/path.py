"""`busbw fastpath path`: prints the path of the fast-path library, for LD_PRELOAD."""

from pathlib import Path

import click

from busbw import engine
from busbw.errors import BusbwError, ExitCode


@click.command()
def path() -> int:
    """Prints the library's path, for LD_PRELOAD."""
    click.echo(str(installed_library()))
    return ExitCode.GOOD


def installed_library() -> Path:
    """Returns the fast-path library that is installed with the engine.

    Raises:
        BusbwError: The engine was installed without the library.
    """
    if library := engine.library(engine.FASTPATH_LIBRARY):
        return library
    raise BusbwError(
        f"{engine.FASTPATH_LIBRARY} is missing, because this busbw was built without CUDA",
        remedy="install the wheel that `make wheel` builds, or build with -DBUSBW_CUDA=ON",
    )
