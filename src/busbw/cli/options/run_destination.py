"""Destination of a run's record: a file, or a run folder in the store, which also contains the run file `run.json`."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import wraps
from pathlib import Path
from typing import Any

import click
import msgspec

from busbw.cli.options.param_types import NonEmptyPath
from busbw.errors import UsageError
from busbw.store import RECORDS, STORE_VARIABLE, RunFile, default_folder, new_run, run_name, write_run_file
from busbw.support.secret_variables import REDACTED, may_be_secret


class _RecordPath(NonEmptyPath):
    """A path of a record. "-" does not stand for stdout, because the command reads the record at its end."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns the path."""
        if value == "-":
            raise UsageError("--records - is not a file", remedy="name a new file, such as --records run.jsonl")
        return super().convert(value, param, ctx)


def destination_options(command: Callable[..., int]) -> Callable[..., int]:
    """Adds `--records` and `--store`, which exclude each other, to a command, as `records_path` and `store`."""

    @wraps(command)
    def with_one_destination(*, records_path: Path | None, store: Path | None, **other_values: Any) -> int:
        if records_path is not None and store is not None:
            raise UsageError("--records and --store exclude each other", remedy="give only one")
        return command(records_path=records_path, store=store, **other_values)

    records = click.option(
        "--records",
        "records_path",
        type=_RecordPath(dir_okay=False),
        metavar="FILE",
        help="New file for the record, instead of a run in the store.",
    )
    store = click.option(
        "--store",
        type=NonEmptyPath(file_okay=False),
        metavar="FOLDER",
        help=f"Folder for the run.  [default: ${STORE_VARIABLE}, or ./busbw-records]",
    )
    return records(store(with_one_destination))


def print_record_path(path: Path) -> None:
    """Names a record on stderr, relative to the current folder."""
    click.echo(f"Record: {os.path.relpath(path)}", err=True)


def is_empty_record(path: Path) -> bool:
    """True if a record is an empty file, left by a run that was killed during its start. A new run may use the file."""
    return path.is_file() and not path.is_symlink() and path.stat().st_size == 0


@dataclass(frozen=True)
class RunDestination:
    """Path of a run's record, and the function that the command must call at the end of the run."""

    path: Path
    """Path of the record."""
    on_exit: Callable[[int], None]
    """Adds the exit code to `run.json`. Has no effect with `--records`."""


@contextmanager
def open_destination(records_path: Path | None, store: Path | None, name: str) -> Iterator[RunDestination]:
    """Yields the file of `--records`, or a record in a new run folder with `run.json` beside it.

    Removes new folders again if no record was written.

    Args:
        records_path: Value of `--records`. None if it is not set.
        store: Value of `--store`. None: the default store.
        name: Last part of the name of the run folder: the collective, or "replay" or "find".

    Raises:
        UsageError: The folder cannot be made.
    """
    if records_path is not None:
        yield RunDestination(records_path, lambda _code: None)
        return
    store = store or default_folder()
    is_new_store = not store.exists()
    folder = new_run(store, run_name(datetime.now(timezone.utc), name))
    try:
        yield RunDestination(folder / RECORDS, _begin_run_file(folder))
    finally:
        if not (folder / RECORDS).exists():
            shutil.rmtree(folder)
            if is_new_store and not any(store.iterdir()):
                store.rmdir()


def _begin_run_file(folder: Path) -> Callable[[int], None]:
    """Writes `run.json` with the command line, and returns a function that adds the exit code at the end."""
    run = RunFile(
        command=without_secrets(sys.argv[1:]), started=datetime.now(timezone.utc).isoformat(timespec="seconds")
    )
    write_run_file(folder, run)

    def on_exit(code: int) -> None:
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        write_run_file(folder, msgspec.structs.replace(run, ended=now, exit_code=code))

    return on_exit


def without_secrets(words: Sequence[str]) -> list[str]:
    """Returns the command line with the values of `--env` redacted if they may be secret."""
    redacted: list[str] = []
    for word in words:
        option = "--env=" if word.startswith("--env=") else ""  # option and value may be one word
        name, equals, value = word.removeprefix(option).partition("=")
        is_value = bool(option) or redacted[-1:] == ["--env"]
        if is_value and equals and may_be_secret(name, value):
            word = f"{option}{name}={REDACTED}"
        redacted.append(word)
    return redacted
