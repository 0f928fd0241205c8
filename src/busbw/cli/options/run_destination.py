"""Where the record of a run goes, and what is written down beside it."""

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


def destination_options(command: Callable[..., int]) -> Callable[..., int]:
    """Gives a command `--records` and `--store`, as `records_path` and `store`, of which one at most is given."""

    @wraps(command)
    def with_one_place(*, records_path: Path | None, store: Path | None, **own: Any) -> int:
        if records_path is not None and store is not None:
            raise UsageError("--records and --store both say where the record goes", remedy="give one of them")
        return command(records_path=records_path, store=store, **own)

    records = click.option(
        "--records",
        "records_path",
        type=NonEmptyPath(dir_okay=False),
        metavar="FILE",
        help="Where the record goes; a new file in place of a run in the store.",
    )
    store = click.option(
        "--store",
        type=NonEmptyPath(file_okay=False),
        metavar="FOLDER",
        help=f"Where the run is kept.  [default: ${STORE_VARIABLE}, or busbw-records here]",
    )
    return records(store(with_one_place))


@dataclass(frozen=True)
class RunDestination:
    """The place of one run."""

    path: Path
    """Of the record."""
    ended: Callable[[int], None]
    """To be called with the exit code."""


@contextmanager
def open_destination(records_path: Path | None, store: Path | None, collective: str) -> Iterator[RunDestination]:
    """The place of the record: the file that was named, or one in a new run folder, with `run.json` beside it.

    Folders that were made for it go again when nothing was written.

    Raises:
        UsageError: The folder cannot be made.
    """
    if records_path is not None:
        yield RunDestination(records_path, lambda _code: None)
        return
    store = store or default_folder()
    made = not store.exists()
    folder = new_run(store, run_name(datetime.now(timezone.utc), collective))
    try:
        yield RunDestination(folder / RECORDS, _write_run_file(folder))
    finally:
        if not (folder / RECORDS).exists():
            shutil.rmtree(folder)
            if made and not any(store.iterdir()):
                store.rmdir()


def _write_run_file(folder: Path) -> Callable[[int], None]:
    """Keeps beside the records what the engine cannot know: what was typed, and how its process ended."""
    run = RunFile(
        command=_without_secrets(sys.argv[1:]), started=datetime.now(timezone.utc).isoformat(timespec="seconds")
    )
    write_run_file(folder, run)

    def on_exit(code: int) -> None:
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        write_run_file(folder, msgspec.structs.replace(run, ended=now, exit_code=code))

    return on_exit


_SECRET_WORDS = ("TOKEN", "SECRET", "PASSWORD", "PASSWD", "_KEY", "CREDENTIAL", "APIKEY")
"""In the name of a variable; those of the engine (common/os/provenance.cpp)."""


def _without_secrets(words: Sequence[str]) -> list[str]:
    """A command line as others may read it: the values of `--env` whose names say that they are secret are left out."""
    shown: list[str] = []
    for word in words:
        is_joined = word.startswith("--env=")
        name, equals, _ = word.removeprefix("--env=").partition("=")
        is_value = is_joined or (bool(shown) and shown[-1] == "--env")
        if is_value and equals and any(secret in f"_{name.upper()}" for secret in _SECRET_WORDS):
            word = f"{'--env=' if is_joined else ''}{name}=(redacted)"
        shown.append(word)
    return shown
