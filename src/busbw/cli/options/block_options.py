"""Options `--max-quadruples` and `--records-folder` of the commands that measure in blocks.

A block is one start of the engine. A quadruple is four blocks in the order ABBA or BAAB of the sides A and B. The sides
are first compared after FIRST_LOOK quadruples.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from shutil import rmtree
from typing import TypeVar

import click

from busbw.ab.plan import FIRST_LOOK, MAX_QUADRUPLES
from busbw.cli.options.deprecated import renamed_option
from busbw.cli.options.param_types import NonEmptyPath
from busbw.errors import BusbwError, ExitCode, UsageError
from busbw.store import default_folder, new_run, run_name

Command = TypeVar("Command", bound=Callable[..., int])


def folder_option(command: Command) -> Command:
    """Adds `--records-folder` to a command, as `folder`."""
    option = click.option(
        "--records-folder",
        "folder",
        type=NonEmptyPath(),
        metavar="FOLDER",
        help="New folder for records and results.  [default: one in the store]",
    )
    return option(renamed_option("--folder", "--records-folder")(command))


def quadruples_option(help_text: str) -> Callable[[Command], Command]:
    """Returns a decorator that adds `--max-quadruples` to a command, as `max_quadruples`."""
    option = click.option(
        "--max-quadruples",
        type=click.IntRange(min=FIRST_LOOK),
        default=MAX_QUADRUPLES,
        show_default=True,
        help=help_text,
    )
    return lambda command: option(renamed_option("--quadruples", "--max-quadruples")(command))


@contextmanager
def new_folder(folder: Path | None, name: str) -> Iterator[Path]:
    """Makes and yields the folder of a measurement, and removes it again after a usage error.

    Args:
        folder: Value of `--records-folder`. None: a new run in the default store.
        name: Last part of the run's name.

    Raises:
        UsageError: The folder exists already, or cannot be made.
    """
    full_name = run_name(datetime.now(timezone.utc), name)
    new = _make_folder(folder) if folder else new_run(default_folder(), full_name)
    try:
        yield new
    except BusbwError as error:
        if error.exit_code == ExitCode.USAGE:
            rmtree(new)
        raise


def _make_folder(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True)
    except FileExistsError as error:
        raise UsageError(f"the folder {folder} exists already", remedy="name a new one") from error
    except OSError as error:
        raise UsageError(
            f"cannot make the folder {folder}: {error.strerror}", remedy="set --records-folder FOLDER"
        ) from error
    return folder
