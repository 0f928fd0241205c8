"""Reads values of a machine for checks, from a tree: the machine itself, or a capture of it."""

import re
from contextlib import suppress
from typing import TypeVar
from urllib.parse import unquote

import msgspec
from msgspec import Struct

from busbw.doctor.model.check import Evidence, Unreadable
from busbw.doctor.model.tree import COMMANDS, FACTS, LATER, Tree, command_key
from busbw.units import plain

_NUMBERS = re.compile(r"([0-9]+)")


class Absent(Unreadable):
    """The file, folder, command or fact does not exist."""


class Fact(Struct, kw_only=True, frozen=True):
    """Base of the facts: values that are in no file, such as limits of the process. `facts` reads them."""


FactType = TypeVar("FactType", bound=Fact)


class Machine:
    """Values of one machine. Paths are relative to its root, such as "sys/class/net".

    Methods raise Absent if there is no such value, and Unreadable if it cannot be read, unless they state otherwise.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def text(self, path: str) -> str:
        """Returns the content of a file, without surrounding blanks and characters that control terminals.

        Lines stay separate; invalid UTF-8 is replaced.
        """
        content = self._tree.read(path).decode(errors="replace")
        return "\n".join(plain(line.expandtabs()) for line in content.strip().splitlines())

    def text_or_none(self, path: str) -> str | None:
        """Returns the content of a file. None if the file does not exist or is empty."""
        try:
            return self.text(path) or None
        except Absent:
            return None

    def word(self, path: str) -> str:
        """Returns the content of a file with one value. Raises Unreadable also if the file is empty."""
        text = self.text(path)
        if not text:
            raise Unreadable(f"{key_text(path)} is empty")
        return text

    def number(self, path: str) -> int:
        """Returns the whole number with which a file begins. Raises Unreadable also if it holds no number."""
        word = self.word(path)
        match = re.match(r"-?[0-9]{1,20}(?![\w.])", word)
        if match is None:
            raise Unreadable(f'{key_text(path)} holds no number but "{word[:40]}"')
        return int(match[0])

    def names(self, folder: str) -> tuple[str, ...]:
        """Returns the names in a folder, with numbers in numerical order: mlx5_2 before mlx5_10."""
        return tuple(sorted(map(plain, self._tree.names(folder)), key=_sort_key))

    def names_or_empty(self, folder: str) -> tuple[str, ...]:
        """Returns the names in a folder. Empty if the folder does not exist."""
        try:
            return self.names(folder)
        except Absent:
            return ()

    def has(self, path: str) -> bool:
        """True if the file or folder exists. Raises Unreadable if this is unknown."""
        with suppress(Absent):
            self._tree.target(path)
            return True
        return False

    def target(self, path: str) -> str:
        """Returns the path of a file or folder without symbolic links in it."""
        return plain(self._tree.target(path))

    def output(self, *words: str) -> str:
        """Returns the output of a command. Raises Unreadable if it failed or did not end in time."""
        return self.text(command_key(words))

    def fact(self, fact_type: type[FactType]) -> FactType:
        """Returns a fact of this type."""
        content = self._tree.read(fact_key(fact_type))
        try:
            return msgspec.json.decode(content, type=fact_type)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Unreadable(f"{key_text(fact_key(fact_type))} is not valid: {plain(str(error))[:80]}") from error

    def evidence(self, path: str) -> Evidence:
        """Returns the content of a file as evidence."""
        return Evidence(key_text(path), self.text(path))


def fact_key(fact_type: type[Fact]) -> str:
    """Returns the key of a fact in the tree."""
    return f"{FACTS}{fact_type.__name__.lower()}.json"


def key_text(key: str) -> str:
    """Returns the name of a value for users: a path with a slash in front, a command, or the source of a fact."""
    path = key.removeprefix(LATER)
    if path.startswith(COMMANDS):
        return f"the output of {unquote(path.removeprefix(COMMANDS))}"
    if path.startswith(FACTS):
        name = path.removeprefix(FACTS).removesuffix(".json")
        return "the record of NVML" if name == "gpus" else f"the record of {name}"
    return f"/{path}"


def _sort_key(name: str) -> list[tuple[int, str]]:
    """Returns the parts of a name, each with its value. A text has the value -1, so it sorts before numbers."""
    return [(int(part[:18]), part) if part.isdecimal() else (-1, part) for part in _NUMBERS.split(name)]
