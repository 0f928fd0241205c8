"""Files, command outputs and facts of this machine, by key. Reading them changes nothing.

A read from a device that hangs may never return.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from busbw.doctor.model import Absent, Unreadable, key_text
from busbw.doctor.model.tree import COMMANDS, FACTS, LATER, command_words
from busbw.doctor.sources.commands import Commands
from busbw.support.files import read_user_file
from busbw.units import plain

GROWTH_PERIOD_S = 1.0
"""Minimum time between the two readings of a counter."""


class ThisMachine:
    """Tree of this machine: its files, outputs of commands, and facts. model/tree.py describes the keys.

    Args:
        facts: Function that reads each fact, by key.
        root: Root of the files, other than / in tests.
        commands: Runner that the facts use too, so that its `close` kills all commands. None: a separate one.
    """

    def __init__(
        self, facts: Mapping[str, Callable[[], bytes]], root: Path = Path("/"), commands: Commands | None = None
    ) -> None:
        self._facts = facts
        self._root = root
        self._commands = commands or Commands()
        self._read_at: dict[str, float] = {}
        """Time of the latest reading without LATER, by key."""

    def read(self, key: str) -> bytes:
        """Returns the content of a file, the output of a command, or a fact.

        If the key begins with LATER, waits until `GROWTH_PERIOD_S` has passed since the latest reading without LATER,
        and reads again.
        """
        if key.startswith(LATER):
            first_key = key.removeprefix(LATER)
            time.sleep(max(0.0, self._read_at.get(first_key, 0.0) + GROWTH_PERIOD_S - time.monotonic()))
            return self._read_now(first_key)
        content = self._read_now(key)
        self._read_at[key] = time.monotonic()
        return content

    def _read_now(self, key: str) -> bytes:
        if key.startswith(COMMANDS):
            return self._commands.output(command_words(key))
        return self._read_fact(key) if key.startswith(FACTS) else self._read_file(key)

    def _read_fact(self, key: str) -> bytes:
        if key not in self._facts:
            raise Absent(f"{key} is no fact of this version")
        try:
            return self._facts[key]()
        except Unreadable:
            raise
        except Exception as error:  # a driver's library may raise anything
            raise Unreadable(f"{key_text(key)}: {type(error).__name__}: {plain(str(error))[:80]}") from error

    def names(self, key: str) -> tuple[str, ...]:
        """Returns the names in a folder."""
        try:
            return tuple(_utf_8(path.name) for path in (self._root / key).iterdir())
        except (OSError, ValueError) as error:
            raise _unreadable(key, error) from error

    def target(self, key: str) -> str:
        """Returns the key of a file or folder without symbolic links in it."""
        try:
            target = (self._root / key).resolve(strict=True)
        except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: a loop of links
            raise _unreadable(key, error) from error
        root = self._root.resolve()
        return _utf_8(str(target.relative_to(root))) if target.is_relative_to(root) else key

    def _read_file(self, key: str) -> bytes:
        try:
            return read_user_file(self._root / key)
        except (OSError, ValueError) as error:
            raise _unreadable(key, error) from error


def _utf_8(name: str) -> str:
    """Returns a name without the surrogates that stand for bytes of other encodings."""
    return name.encode(errors="surrogateescape").decode(errors="replace")


def _unreadable(key: str, error: Exception) -> Unreadable:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return Absent(f"{key_text(key)} does not exist")
    if isinstance(error, PermissionError):
        # This noun phrase names what is missing. Users see it after "could not check" and the name of the check.
        return Unreadable(f"permission to read {key_text(key)}")
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return Unreadable(f"{key_text(key)} cannot be read: {reason}")
