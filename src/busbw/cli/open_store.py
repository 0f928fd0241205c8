"""Access to the run store for the commands that list runs: `runs` and `history`."""

from datetime import datetime, timezone
from pathlib import Path

import click

from busbw.errors import UsageError
from busbw.store import Index, default_folder
from busbw.terminal import activity

_MAX_PROBLEMS = 3
"""Maximum number of unreadable files that `print_index_problems` names."""


def store_folder(store: Path | None) -> Path:
    """Returns `--store`, or the default folder if it is None. Only the default may be missing.

    Raises:
        UsageError: `--store` is not a folder.
    """
    if store is not None and not store.is_dir():
        raise UsageError(f"--store {store} is not a folder", remedy="give the folder of the runs")
    return store or default_folder()


def open_index(folder: Path, *, rebuild: bool = False) -> Index:
    """Opens the index of a store and updates it, which may have to read every log."""
    with activity(f"reading new runs in {folder}"):
        return Index(folder, rebuild=rebuild)


def print_index_problems(index: Index) -> None:
    """Prints messages about the index and about the first unreadable files on stderr, and the number of the others."""
    problems = index.problems()
    for sentence in index.messages:
        click.echo(f"busbw: {sentence}", err=True)
    for name, problem in problems[:_MAX_PROBLEMS]:
        click.echo(f"skipped: {name}: {problem}", err=True)
    if len(problems) > _MAX_PROBLEMS:
        click.echo(f"skipped: {len(problems) - _MAX_PROBLEMS} more files", err=True)


def time_text(time_s: float, source: str = "log") -> str:
    """Formats a time in seconds since 1970 as UTC, to the minute.

    `source` is "log" if the log states the time. Otherwise it is the time of the log's file, and the text says so.
    """
    mark = "" if source == "log" else " (file)"
    return f"{datetime.fromtimestamp(time_s, timezone.utc):%Y-%m-%d %H:%M}{mark}"
