"""The option that gives a system its NICs, in every command that has it."""

import re

import click

from busbw.errors import UsageError
from busbw.expect import with_nics
from busbw.system import Nics, System

nics_option = click.option("--nics", metavar="COUNTxGBIT", help="The NICs of a node, such as 8x400.")


def parse_nics(text: str) -> Nics:
    """The NICs of --nics."""
    found = re.fullmatch(r"(\d+)x(\d+(?:\.\d+)?)", text)
    if not found or not int(found[1]) or not float(found[2]):
        raise UsageError(f'--nics "{text}" is not understood', remedy="give count and Gb/s of each, such as 8x400")
    return Nics(count=int(found[1]), gbit=float(found[2]), source="given with --nics")


def with_parsed_nics(place: System, text: str) -> System:
    """The system with the NICs of --nics."""
    given = parse_nics(text)
    return with_nics(place, given.count, given.gbit, given.source)
