"""`busbw launch`: one job of many processes through a launcher, on several machines or on this one.

Each launcher has one module with its options. The module renders a launch plan by `busbw.launchers.<name>` and calls
`execute.execute_plan`, which prints or submits the plan and handles output, record and exit code.
"""

import click

from busbw.cli.lazy import LazyGroup
from busbw.errors import EXIT_CODES_TEXT
from busbw.launchers import LAUNCHERS

OTHER_COMMANDS = {
    "attach": "Follows a submitted Slurm batch job again.",
    "machine-types": "Lists the machine types for --machine-type; shows one.",
}
"""Line in the help of each command that starts no job."""


@click.group(
    cls=LazyGroup,
    package=__name__,
    sections={"Launchers": LAUNCHERS, "Other commands": OTHER_COMMANDS},
    new_names_by_old={"systems": "machine-types"},
    subcommand_metavar="LAUNCHER [OPTIONS] -- COLLECTIVE [ENGINE OPTIONS]...",
    epilog=f"busbw launch LAUNCHER --help lists the options of a launcher.\n\n{EXIT_CODES_TEXT}",
)
def launch() -> None:
    """Starts COLLECTIVE as one job of many processes, shows its table as it grows, and keeps its record.

    Ctrl-C cancels the job and keeps the records received so far. --dry-run prints the commands and starts nothing.
    """
