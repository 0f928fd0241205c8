"""The options `--system`, `--nics` and `--sharp`, which state the hardware of a run."""

import re

import click

from busbw.cli.options.completion import complete_names
from busbw.errors import UsageError
from busbw.launchers.machine_types.named_system import named_system
from busbw.system import Nics, System, systems
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


def _parse_nics(_context: click.Context, _option: click.Parameter, text: str | None) -> Nics | None:
    if text is None:
        return None
    match = re.fullmatch(r"(\d+)x(\d+(?:\.\d+)?)", text)
    count, gbit = (int(match[1]), float(match[2])) if match else (0, 0.0)
    if count == 0 or gbit == 0:
        raise UsageError(f'--nics "{text}" is not COUNTxGBIT', remedy="give count and Gb/s of each, such as 8x400")
    return Nics(count=count, gbit=gbit, source="given with --nics")


nics_option = click.option(
    "--nics", metavar="COUNTxGBIT", callback=_parse_nics, help="NICs per node and Gb/s of each: 8x400."
)
"""Its value is of type `Nics`, or None."""

sharp_option = click.option("--sharp", is_flag=True, help="The network's switches reduce (InfiniBand SHARP).")
