"""`busbw fastpath path`: where the library is."""

from pathlib import Path

import click

from busbw import engine
from busbw.errors import BusbwError, ExitCode


@click.command()
def path() -> int:
    """Prints the library's path, for LD_PRELOAD."""
    click.echo(str(library_here()))
    return ExitCode.GOOD


def library_here() -> Path:
    """The library that came with the engine.

    Raises:
        BusbwError: None did.
    """
    if found := engine.library(engine.FASTPATH_LIBRARY):
        return found
    raise BusbwError(
        f"{engine.FASTPATH_LIBRARY} did not come with this busbw, which was built without CUDA",
        remedy="install the wheel that `make wheel` builds, or set -DBUSBW_CUDA=ON where you build it",
    )
