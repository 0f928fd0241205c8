"""Descriptions as data: TOML files of one type beside the module that reads them, each known by its file's name."""

from collections.abc import Callable
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from busbw.errors import UsageError
from busbw.files import read_user_file

T = TypeVar("T", bound=msgspec.Struct)


class Catalog(Generic[T]):
    """All descriptions of one type that come with the program, and those that a user has in files."""

    def __init__(
        self,
        package: str,
        described: type[T],
        *,
        kind: str,
        remedy_malformed: str,
        remedy_unknown: Callable[[list[str]], str],
        finish: Callable[[T, str], T] = lambda value, _name: value,
        folder: str = "",
    ) -> None:
        """Reads nothing yet.

        Args:
            package: Where the files lie.
            described: What a file holds.
            kind: What one is called in a sentence: 'reference'.
            remedy_malformed: What to do about a file that does not hold that.
            remedy_unknown: What to do about a name that is not among the given ones.
            finish: Makes the value complete, from it and its file's name without the suffix.
            folder: Of that package, where they do not lie beside the module.
        """
        self._package = package
        self._folder = folder
        self._described = described
        self._kind = kind
        self._remedy_malformed = remedy_malformed
        self._remedy_unknown = remedy_unknown
        self._finish = finish

    @cached_property
    def all(self) -> dict[str, T]:
        """Every description that comes with the program, by name."""
        folder = resources.files(self._package) / self._folder
        files = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".toml"))
        return {name.removesuffix(".toml"): self._decode((folder / name).read_bytes(), name) for name in files}

    def find(self, name: str) -> T:
        """The description of that name, or of the TOML file of that path.

        Raises:
            UsageError: There is none, or the file holds something else.
        """
        if name in self.all:
            return self.all[name]
        if name.endswith(".toml"):
            try:
                return self._decode(read_user_file(Path(name)), name)
            except OSError as error:
                remedy = "give a file that can be read"
                raise UsageError(f"cannot read {name}: {error.strerror}", remedy=remedy) from error
        raise UsageError(f'there is no {self._kind} "{name}"', remedy=self._remedy_unknown(list(self.all)))

    def _decode(self, text: bytes, name: str) -> T:
        try:
            value = msgspec.toml.decode(text, type=self._described)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"{name} is no {self._kind}: {error}", remedy=self._remedy_malformed) from error
        except RecursionError as error:
            what = f"{name} is no {self._kind}: its brackets are nested too deep"
            raise UsageError(what, remedy=self._remedy_malformed) from error
        return self._finish(value, Path(name).stem)
