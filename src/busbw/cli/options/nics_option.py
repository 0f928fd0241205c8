"""The options `--nics` and `--sharp`, which state the network of a system (hardware description) for a prediction."""

import re

import click

from busbw.errors import UsageError
from busbw.expect import with_nics
from busbw.system import Nics, System

nics_option = click.option("--nics", metavar="COUNTxGBIT", help="NICs per node and Gb/s of each: 8x400.")

sharp_option = click.option("--sharp", is_flag=True, help="The network's switches reduce (InfiniBand SHARP).")


def parse_nics(text: str) -> Nics:
    """Parses the value of `--nics`.

    Raises:
        UsageError: The text has another format, or the count or rate is 0.
    """
    match = re.fullmatch(r"(\d+)x(\d+(?:\.\d+)?)", text)
    count, gbit = (int(match[1]), float(match[2])) if match else (0, 0.0)
    if count == 0 or gbit == 0:
        raise UsageError(f'--nics "{text}" is not COUNTxGBIT', remedy="give count and Gb/s of each, such as 8x400")
    return Nics(count=count, gbit=gbit, source="given with --nics")


def with_parsed_nics(system: System, text: str) -> System:
    """Returns the system with the NICs of `--nics`."""
    return with_nics(system, parse_nics(text))
