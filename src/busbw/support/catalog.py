"""Catalogs of TOML files of one type, such as systems, references and machine types.

Each file is a description. Its name without the suffix is the name that users give.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from busbw.errors import UsageError
from busbw.support.files import read_user_file
from busbw.support.near_misses import suggestion

T = TypeVar("T", bound=msgspec.Struct)


class Catalog(Generic[T]):
    """The descriptions of one type that busbw ships, and access to descriptions in users' files."""

    def __init__(
        self,
        package: str,
        value_type: type[T],
        *,
        kind: str,
        remedy_malformed: str,
        remedy_unknown: Callable[[list[str]], str],
        finish: Callable[[T, str], T] = lambda value, _name: value,
        folder: str = "",
    ) -> None:
        """Stores the settings; files are read on first use.

        Args:
            package: Package that contains the files.
            value_type: Type that each file is decoded to.
            kind: Noun for one description in messages, such as 'reference'.
            remedy_malformed: Remedy for a file that cannot be decoded.
            remedy_unknown: Returns what to use instead of an unknown name, from the known names: 'a .toml file'.
            finish: Completes a decoded value, given the value and the file name without its suffix.
            folder: Folder below the package; empty if the files are in the package itself.
        """
        self._package = package
        self._folder = folder
        self._value_type = value_type
        self._kind = kind
        self._remedy_malformed = remedy_malformed
        self._remedy_unknown = remedy_unknown
        self._finish = finish

    @cached_property
    def all(self) -> dict[str, T]:
        """All shipped descriptions by name."""
        folder = resources.files(self._package) / self._folder
        file_names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".toml"))
        return {name.removesuffix(".toml"): self._decode((folder / name).read_bytes(), name) for name in file_names}

    def find(self, name: str, *, other_values: Sequence[str] = ()) -> T:
        """Returns the description with that name, or reads the TOML file at that path.

        Args:
            name: Name or path.
            other_values: Other values that the caller accepts, for the remedy of an unknown name.

        Raises:
            UsageError: The name is unknown, or the file cannot be read or decoded.
        """
        if name in self.all:
            return self.all[name]
        if name.endswith(".toml"):
            try:
                return self._decode(read_user_file(Path(name)), name)
            except OSError as error:
                remedy = "name a readable file"
                raise UsageError(f"cannot read {name}: {error.strerror}", remedy=remedy) from error
        names = list(self.all)
        other_text = "".join(f"{value}, " for value in other_values)
        remedy = f"{suggestion(name, names)}use {other_text}{self._remedy_unknown(names)}"
        raise UsageError(f'there is no {self._kind} "{name}"', remedy=remedy)

    def _decode(self, content: bytes, file_name: str) -> T:
        try:
            value = msgspec.toml.decode(content, type=self._value_type)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            problem = f"{file_name} is not a valid {self._kind}: {error}"
            raise UsageError(problem, remedy=self._remedy_malformed) from error
        except RecursionError as error:
            problem = f"{file_name} is not a valid {self._kind}: its brackets are nested too deep"
            raise UsageError(problem, remedy=self._remedy_malformed) from error
        return self._finish(value, Path(file_name).stem)
