"""`busbw fastpath`: commands for the fast-path library. Each command has its own module."""

import click

from busbw.cli.lazy import LazyGroup

COMMANDS = {
    "path": 'Prints the library\'s path: LD_PRELOAD="$(busbw fastpath path)" PROGRAM.',
    "show": "Prints the library and its active table.",
    "tune": "Measures the best method for each size and writes the table.",
}
"""Help line of each command. The module `busbw.cli.fastpath.<name>` implements it."""


@click.group(cls=LazyGroup, package=__name__, sections={"Commands": COMMANDS})
def fastpath() -> None:
    """The fast-path library, which is loaded before NCCL and runs small collectives itself."""
