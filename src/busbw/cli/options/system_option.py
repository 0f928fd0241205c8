"""The option `--system` of the commands that judge a log."""

import click

from busbw.cli.options.completion import complete_names
from busbw.launchers.machine_types.named_system import named_system
from busbw.system import System, systems
from busbw.system.detect import detect_machine, system_of_machine

SYSTEM_WORDS = ("auto", "here")
"""Further values of `--system` besides names and files. auto: the devices in the log decide. here: this machine."""

system_option = click.option(
    "--system",
    "system_name",
    metavar="NAME|FILE|auto|here",
    shell_complete=complete_names(lambda: (*SYSTEM_WORDS, *systems()), or_files=True),
    default="auto",
    show_default=True,
    help="System or machine type of the run; auto: from the log; here: this machine.",
)


def find_system(system_name: str) -> System | None:
    """Returns the system of `--system`. None for auto: the devices in the log decide.

    Raises:
        UsageError: The name is unknown, or the file is invalid.
    """
    if system_name == "auto":
        return None
    if system_name == "here":
        local_system, _description = system_of_machine(detect_machine())
        return local_system
    return named_system(system_name, other_values=SYSTEM_WORDS)
