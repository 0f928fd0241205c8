"""Keeps everything that checks read. A capture then has all values, and no value is read twice."""

from collections.abc import Callable, Container
from threading import Lock
from typing import TypeAlias, TypeVar

from busbw.doctor.model import Unreadable
from busbw.doctor.model.tree import Tree

T = TypeVar("T")
Outcome: TypeAlias = T | Unreadable
"""A value, or the reason for its absence."""


class Recording:
    """Tree that asks another tree once for each value. Checks may read from several threads."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._lock = Lock()
        self._key_locks: dict[tuple[str, str], Lock] = {}
        self.files: dict[str, Outcome[bytes]] = {}
        self.folders: dict[str, Outcome[tuple[str, ...]]] = {}
        self.targets: dict[str, Outcome[str]] = {}

    def unfinished(self) -> tuple[str, ...]:
        """Returns the keys that a thread still reads, such as keys of a device that hangs."""
        outcomes: dict[str, Container[str]] = {"file": self.files, "folder": self.folders, "target": self.targets}
        return tuple(key for kind, key in tuple(self._key_locks) if key not in outcomes[kind])

    def read(self, key: str) -> bytes:
        """Returns the content of a file, the output of a command, or a fact."""
        return self._recorded("file", key, self.files, self._tree.read)

    def names(self, key: str) -> tuple[str, ...]:
        """Returns the names in a folder."""
        return self._recorded("folder", key, self.folders, self._tree.names)

    def target(self, key: str) -> str:
        """Returns the key of a file or folder without symbolic links in it."""
        return self._recorded("target", key, self.targets, self._tree.target)

    def _recorded(self, kind: str, key: str, outcomes: dict[str, Outcome[T]], get: Callable[[str], T]) -> T:
        with self._lock:
            key_lock = self._key_locks.setdefault((kind, key), Lock())
        with key_lock:
            if key not in outcomes:
                try:
                    outcomes[key] = get(key)
                except Unreadable as error:
                    outcomes[key] = error
        outcome = outcomes[key]
        if isinstance(outcome, Unreadable):
            # A new exception, because several threads may raise it at once.
            raise type(outcome)(*outcome.args)
        return outcome
