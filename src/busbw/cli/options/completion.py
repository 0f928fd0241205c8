"""Shell completion of values that click cannot list: names of the catalogs, files, collectives.

A completer is the `shell_complete` of an option or an argument. Catalogs that are slow to import are imported only
for a completion.
"""

from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem

from busbw.collectives import collectives

Completion = list[CompletionItem]
"""Proposed values."""
Completer = Callable[[click.Context, click.Parameter, str], Completion]
"""Function that click calls with the beginning of a value."""

FILE = "file"
"""Type of the item that makes the shell propose files."""


def complete_names(names: Callable[[], Iterable[str]], *, or_files: bool = False) -> Completer:
    """Returns a completer of names.

    Args:
        names: Returns all names. It is called only for a completion.
        or_files: True to propose files too.
    """

    def complete(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> Completion:
        items = matching_items(names(), incomplete)
        return [*items, CompletionItem(incomplete, type=FILE)] if or_files else items

    return complete


def complete_collective(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> Completion:
    """Proposes the collectives, each with its description."""
    return [
        CompletionItem(name, help=collective.description)
        for name, collective in collectives().items()
        if name.startswith(incomplete)
    ]


def complete_dtype(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> Completion:
    """Proposes the element types of nccl-tests."""
    from busbw.readers.tables.quantities import ELEMENT_BYTES

    return matching_items(ELEMENT_BYTES, incomplete)


def matching_items(names: Iterable[str], incomplete: str) -> Completion:
    """Returns an item for each name that begins with `incomplete`."""
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def reference_names() -> tuple[str, ...]:
    """Returns the values of `--reference` that are not files."""
    from busbw.reference import references

    return ("auto", *references())


complete_log = complete_names(lambda: ("last",), or_files=True)
"""Proposes files, and `last` for the newest run of the store."""
complete_reference = complete_names(reference_names, or_files=True)
"""Proposes the values of `--reference`."""
