"""Combines consecutive rows of a document to blocks, which are parsed together."""

from collections.abc import Iterable, Iterator, Sized
from typing import Protocol, TypeVar

_BLOCK_LENGTH = 1 << 16
"""Minimum length of the texts of a block, except for the last one."""


class _HasText(Protocol):
    @property
    def text(self) -> Sized: ...


_Item = TypeVar("_Item", bound=_HasText)


def split_into_blocks(items: Iterable[_Item]) -> Iterator[list[_Item]]:
    """Yields blocks of consecutive items. Rows with samples are long, so the number of items in a block varies."""
    block: list[_Item] = []
    block_length = 0
    for item in items:
        block.append(item)
        block_length += len(item.text)
        if block_length >= _BLOCK_LENGTH:
            yield block
            block, block_length = [], 0
    if block:
        yield block
