"""`busbw fastpath path`: prints the path of the fast-path library, for LD_PRELOAD."""

from pathlib import Path

import click

from busbw import engine
from busbw.cli.options.json_option import json_option
from busbw.errors import BusbwError, ExitCode
from busbw.support.json_output import json_object


@click.command()
@json_option
def path(as_json: bool) -> int:
    """Prints the library's path, for LD_PRELOAD."""
    library = str(installed_library())
    click.echo(json_object({"library": library}) if as_json else library)
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
