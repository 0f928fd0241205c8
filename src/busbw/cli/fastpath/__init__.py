"""`busbw fastpath`: the library that does small collectives itself. One small file a command."""

import click

from busbw.cli.lazy import LazyGroup

COMMANDS = {
    "path": 'Prints the library\'s path: LD_PRELOAD="$(busbw fastpath path)" PROGRAM.',
    "show": "Prints the table in force, and which library it is of.",
    "tune": "Measures which method is best for which size, and writes the table.",
}
"""Every command and its line in the help; `busbw.cli.fastpath.<name>` holds it."""


@click.group(cls=LazyGroup, package=__name__, sections={"Commands": COMMANDS})
def fastpath() -> None:
    """The library that is loaded before NCCL and does small collectives itself (docs/fastpath.md)."""
