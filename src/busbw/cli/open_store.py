"""The runs that are kept, as the commands that list them find and show them."""

from datetime import datetime, timezone
from pathlib import Path

import click

from busbw.errors import UsageError
from busbw.store import Index, default_folder
from busbw.terminal import activity

_MAX_PROBLEMS = 3


def store_folder(store: Path | None) -> Path:
    """The folder that was named, which must be there, or the usual one, which need not."""
    if store is not None and not store.is_dir():
        raise UsageError(f"--store {store} is not a folder", remedy="name the folder that holds the runs")
    return store or default_folder()


def open_index(folder: Path, *, rebuild: bool = False) -> Index:
    """The index of a store, up to date; that may take reading all its logs."""
    with activity(f"reading what is new in {folder}"):
        return Index(folder, rebuild=rebuild)


def print_index_problems(index: Index) -> None:
    """What a user should know of the index, and of files that could not be read."""
    problems = index.problems()
    for sentence in index.messages:
        click.echo(f"busbw: {sentence}", err=True)
    for name, problem in problems[:_MAX_PROBLEMS]:
        click.echo(f"left out: {name}: {problem}", err=True)
    if len(problems) > _MAX_PROBLEMS:
        click.echo(f"left out: and {len(problems) - _MAX_PROBLEMS} more files", err=True)


def time_text(time_s: float, source: str = "log") -> str:
    """In UTC, to the minute; one that is the file's and not the log's is marked."""
    return f"{datetime.fromtimestamp(time_s, timezone.utc):%Y-%m-%d %H:%M}" + ("" if source == "log" else " (file)")
