"""The option `--system` of the commands that judge a log."""

from collections.abc import Sequence

import click

from busbw.cli.options.completion import complete_names
from busbw.launchers.machine_types.machine_type import find_built_in
from busbw.system import System, find, systems
from busbw.system.detect import detect_machine, system_of_machine

SYSTEM_WORDS = ("auto", "here")
"""Values of `--system` that are neither a name nor a file, if there is a log: its devices, and this machine."""

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
    return named_system(system_name, words=SYSTEM_WORDS)


def named_system(name: str, *, words: Sequence[str]) -> System:
    """Returns the system with a name, that of a machine type such as p5.48xlarge, or that of a file.

    Args:
        name: Name or path.
        words: Values that the option accepts instead of a name, for the remedy of an unknown one.

    Raises:
        UsageError: The name is unknown, or the file is invalid.
    """
    machine_type = None if name in systems() else find_built_in(name)
    if machine_type and machine_type.expectation:
        return find(machine_type.expectation)
    return find(name, other_values=(*words, "a machine type"))
