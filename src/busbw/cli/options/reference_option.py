"""What --reference names, in every command that has it."""

from pathlib import Path

from busbw import readers, reference
from busbw.errors import UsageError
from busbw.judge import Against
from busbw.store import find


def against_of(name: str | None) -> Against | None:
    """What --reference names: nothing, auto, published figures, or a log or a run of the store."""
    if name is None:
        return None
    if name == "auto":
        return Against(name="auto", nearest=True)
    if name in reference.references() or name.endswith(".toml"):
        return Against(name=name, reference=reference.find(name))
    return Against(name=name, log=readers.read(_log(name)))


def _log(name: str) -> Path:
    try:
        return find(name)
    except UsageError:
        reference.find(name)  # says what is allowed
        raise
