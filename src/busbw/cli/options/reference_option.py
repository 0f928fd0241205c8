"""The option `--reference` of the commands that judge or predict."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from busbw import readers, reference
from busbw.cli.options.completion import complete_reference
from busbw.errors import UsageError
from busbw.judge import ReferenceSelection
from busbw.store import find


def reference_option(help_text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Returns a decorator that adds `--reference` to a command, as `reference_name` for `select_reference`."""
    return click.option(
        "--reference",
        "reference_name",
        metavar="NAME|FILE|auto",
        shell_complete=complete_reference,
        help=help_text,
    )


def select_reference(name: str | None) -> ReferenceSelection | None:
    """Returns the figures to judge by: nearest published ones (auto), named ones, a log or a run. None if not set."""
    if name is None:
        return None
    if name == "auto":
        return ReferenceSelection(name="auto", nearest=True)
    if name in reference.references() or name.endswith(".toml"):
        return ReferenceSelection(name=name, reference=reference.find(name))
    return ReferenceSelection(name=name, log=readers.read(_find_log(name)))


def _find_log(name: str) -> Path:
    try:
        return find(name)
    except UsageError:
        reference.find(name)  # always raises an error, which lists the allowed names
        raise
