"""Keeps everything that checks read. A capture then has all values, and no value is read twice."""

from collections.abc import Callable
from threading import Lock
from typing import TypeAlias, TypeVar

from busbw.doctor.model import Unreadable, key_text
from busbw.doctor.model.tree import Tree

T = TypeVar("T")
Outcome: TypeAlias = T | Unreadable
"""A value, or the reason for its absence."""


class Recording:
    """Tree that asks another tree once for each value. Checks may read from several threads."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._lock = Lock()
        self._key_locks: dict[str, Lock] = {}
        self.files: dict[str, Outcome[bytes]] = {}
        self.folders: dict[str, Outcome[tuple[str, ...]]] = {}
        self.targets: dict[str, Outcome[str]] = {}

    def read(self, key: str) -> bytes:
        """Returns the content of a file, the output of a command, or a fact."""
        return self._recorded(key, self.files, self._tree.read)

    def names(self, key: str) -> tuple[str, ...]:
        """Returns the names in a folder."""
        return self._recorded(key, self.folders, self._tree.names)

    def target(self, key: str) -> str:
        """Returns the key of a file or folder without symbolic links in it."""
        return self._recorded(key, self.targets, self._tree.target)

    def _recorded(self, key: str, outcomes: dict[str, Outcome[T]], get: Callable[[str], T]) -> T:
        with self._lock:
            key_lock = self._key_locks.setdefault(key, Lock())
        with key_lock:
            if key not in outcomes:
                # A capture has this outcome if the reading never ends, as of a device that hangs.
                outcomes[key] = Unreadable(f"an answer for {key_text(key)} in time")
                try:
                    outcomes[key] = get(key)
                except Unreadable as error:
                    outcomes[key] = error
        outcome = outcomes[key]
        if isinstance(outcome, Unreadable):
            # A new exception, because several threads may raise it at once.
            raise type(outcome)(*outcome.args)
        return outcome
