"""The option `--system` of the commands that judge a log."""

import click

from busbw.cli.options.completion import complete_names
from busbw.system import System, find, systems
from busbw.system.detect import detect_machine, system_of_machine

system_option = click.option(
    "--system",
    "system_name",
    metavar="NAME|FILE|auto|here",
    shell_complete=complete_names(lambda: ("auto", "here", *systems()), or_files=True),
    default="auto",
    show_default=True,
    help="System of the run; auto: from the devices in the log; here: this machine.",
)


def find_system(system_name: str) -> System | None:
    """Returns the system of `--system`. None for auto: the devices in the log decide."""
    if system_name == "auto":
        return None
    if system_name == "here":
        local_system, _description = system_of_machine(detect_machine())
        return local_system
    return find(system_name)
