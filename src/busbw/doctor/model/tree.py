"""Tree of all that checks read on a machine: files, outputs of commands, and facts of the process.

Each value has a key in the form of a relative path:

    sys/class/infiniband/mlx5_0/ports/1/rate      a file of the machine
    later/sys/class/.../symbol_error              the same file, at least a second after its first reading
    commands/ethtool -S eth0                      output of a command; slashes in its words: "%2F"
    later/commands/ethtool -S eth0                output of the same command, at least a second after its first run
    facts/limits.json                             a fact (facts/), as JSON
"""

import shlex
from typing import Protocol
from urllib.parse import quote, unquote

COMMANDS, FACTS, LATER = "commands/", "facts/", "later/"
"""First parts of keys that are not files of the machine."""


class Tree(Protocol):
    """Source of values. All methods raise Absent if there is no such value, and Unreadable if it cannot be read."""

    def read(self, key: str) -> bytes:
        """Returns the content of a file, the output of a command, or a fact."""
        ...

    def names(self, key: str) -> tuple[str, ...]:
        """Returns the names in a folder, in any order."""
        ...

    def target(self, key: str) -> str:
        """Returns the key of a file or folder without symbolic links in it."""
        ...


def command_key(words: tuple[str, ...]) -> str:
    """Returns the key of a command's output."""
    return COMMANDS + quote(shlex.join(words), safe=" -=,._:+'")


def command_words(key: str) -> list[str]:
    """Returns the words of a command from its key."""
    return shlex.split(unquote(key.removeprefix(COMMANDS)))
