"""Sequences too long for memory, such as the rows of a log. Items are in a temporary file, or are made when read."""

import os
import tempfile
import weakref
import zlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, cached_property
from itertools import islice
from typing import IO, BinaryIO, Generic, NamedTuple, TypeVar, cast, overload

import msgspec

from busbw.errors import BusbwError

Item = TypeVar("Item")
Source = TypeVar("Source")

_EXTENT_ITEMS = 1000
"""Number of items that are written together."""
_MAX_BYTES_IN_MEMORY = 1 << 20
"""Maximum length of a temporary file that needs no folder."""
_COMPRESSION_LEVEL = 1
"""The fastest. Names of fields, which every item repeats, become short with any level."""


class Extent(NamedTuple):
    """Place of items in an `ItemFile` that were written together."""

    offset: int
    length: int
    """Bytes."""
    item_count: int


class _SpooledFile(tempfile.SpooledTemporaryFile[bytes]):
    """A temporary file that is in memory while it is short. Writers need these methods, which Python 3.10 lacks."""

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


@contextmanager
def temporary_file() -> Iterator[BinaryIO]:
    """Makes a temporary file. Errors when it is closed are ignored, because its content is no longer needed."""
    file = _SpooledFile(_MAX_BYTES_IN_MEMORY)
    try:
        yield cast(BinaryIO, file)
    finally:
        _close(file)


def _close(file: IO[bytes]) -> None:
    with suppress(OSError):
        file.close()


@contextmanager
def temporary_file_errors() -> Iterator[None]:
    """Converts errors of temporary files.

    Raises:
        BusbwError: A temporary file cannot be written.
    """
    try:
        yield
    except OSError as error:
        folder = f" in {tempfile.tempdir}" if tempfile.tempdir else ""  # unknown if no folder is writable
        raise BusbwError(
            f"cannot write a temporary file{folder}: {error.strerror}",
            remedy="set TMPDIR to a folder with enough space",
        ) from error


class ItemFile:
    """A temporary file for items of any types that msgspec encodes. It is deleted with this object."""

    def __init__(self) -> None:
        self._opened_file: IO[bytes] | None = None

    def append(self, items: Sequence[object]) -> Extent:
        """Writes the items together, and returns their place.

        Raises:
            BusbwError: The file cannot be written, for example because the disk is full.
        """
        data = zlib.compress(msgspec.msgpack.encode(items), _COMPRESSION_LEVEL)
        with temporary_file_errors():
            file = self._open()
            offset = file.seek(0, os.SEEK_END)
            file.write(data)
            file.flush()
        return Extent(offset, len(data), len(items))

    def read(self, extent: Extent) -> bytes:
        """Returns the encoded list of the items of an extent."""
        # Threads and forked processes share the position of the file. `pread` neither uses nor changes it.
        return zlib.decompress(os.pread(self._open().fileno(), extent.length, extent.offset))

    def _open(self) -> IO[bytes]:
        """Returns the file. It is created at the first call, because a short sequence needs none."""
        if self._opened_file is None:
            self._opened_file = tempfile.TemporaryFile()  # noqa: SIM115
            weakref.finalize(self, _close, self._opened_file)
        return self._opened_file


@cache
def _list_decoder(item_type: type[Item]) -> msgspec.msgpack.Decoder[list[Item]]:
    """Returns the decoder for the items of an extent. Making a decoder takes as long as decoding a few rows."""
    return msgspec.msgpack.Decoder(list[item_type])  # type: ignore[valid-type]


class LazySequence(Sequence[Item]):
    """Base of sequences that are long. A derived class has a fast iterator, `__len__` and `_item`."""

    def __bool__(self) -> bool:
        return len(self) > 0

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Item, ...]: ...
    def __getitem__(self, index: int | slice) -> Item | tuple[Item, ...]:
        if isinstance(index, slice):
            positions = range(len(self))[index]
            if positions.step == 1:
                return tuple(islice(self, positions.start, positions.stop))
            return tuple(self._item(position) for position in positions)
        return self._item(range(len(self))[index])

    @abstractmethod
    def _item(self, position: int) -> Item:
        """Returns the item at a valid position from 0."""


class SequenceOnDemand(LazySequence[Item]):
    """Items that are made together at the first access to one of them. Their number is known before."""

    def __init__(self, count: int, make_items: Callable[[], tuple[Item, ...]]) -> None:
        self._count, self._make_items = count, make_items

    @cached_property
    def _items(self) -> tuple[Item, ...]:
        return self._make_items()

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    def __eq__(self, other: object) -> bool:
        """True for equal items, also of a tuple."""
        return self._items == (other._items if isinstance(other, SequenceOnDemand) else other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._items)

    def _item(self, position: int) -> Item:
        return self._items[position]


class StoredSequence(LazySequence[Item], Generic[Item]):
    """Items in a file. They are appended at first and then only read; each access returns a new copy."""

    def __init__(self, item_type: type[Item], file: ItemFile | None = None, extents: Iterable[Extent] = ()) -> None:
        self._decoder: msgspec.msgpack.Decoder[list[Item]] = _list_decoder(item_type)  # type: ignore[arg-type]
        self._file = file or ItemFile()
        self._extents = list(extents)
        self._stored_count = sum(extent.item_count for extent in self._extents)
        self._buffer: list[Item] = []

    def extend(self, items: Iterable[Item]) -> None:
        """Appends items."""
        for item in items:
            self._buffer.append(item)
            if len(self._buffer) == _EXTENT_ITEMS:
                self.flush()

    def flush(self) -> list[Extent]:
        """Writes the items that are still in memory, and returns the extents of all items."""
        if self._buffer:
            self._extents.append(self._file.append(self._buffer))
            self._stored_count += len(self._buffer)
            self._buffer = []
        return self._extents

    def __len__(self) -> int:
        return self._stored_count + len(self._buffer)

    def __iter__(self) -> Iterator[Item]:
        for extent in self._extents:
            yield from self._decoder.decode(self._file.read(extent))
        yield from self._buffer

    def _item(self, position: int) -> Item:
        for extent in self._extents:
            if position < extent.item_count:
                return self._decoder.decode(self._file.read(extent))[position]
            position -= extent.item_count
        return self._buffer[position]


class MappedSequence(LazySequence[Item], Generic[Source, Item]):
    """Results of a function for the items of another sequence. Each access calls the function again."""

    def __init__(self, function: Callable[[Source], Item], source: Sequence[Source]) -> None:
        self._function, self._source = function, source

    def __len__(self) -> int:
        return len(self._source)

    def __iter__(self) -> Iterator[Item]:
        return map(self._function, self._source)

    def _item(self, position: int) -> Item:
        return self._function(self._source[position])


def map_sequence(function: Callable[[Source], Item], source: Sequence[Source]) -> Sequence[Item]:
    """Returns the results for all items: at once if the items are in memory, otherwise whenever they are read."""
    return tuple(map(function, source)) if isinstance(source, tuple) else MappedSequence(function, source)
