"""Reads the value of `--reference`, for every command that has this option."""

from pathlib import Path

from busbw import readers, reference
from busbw.errors import UsageError
from busbw.judge import ReferenceSelection
from busbw.store import find


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
