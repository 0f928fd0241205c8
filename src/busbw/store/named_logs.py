"""Reads the logs that a user names: files, runs of the store, and all logs of a folder."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from busbw import readers
from busbw.errors import BusbwError, UsageError
from busbw.logs.log import Log
from busbw.readers.documents.busbw_records import SearchRecordError
from busbw.store.layout import LOG_SUFFIXES, RECORDS, entries, find, has_timed_name
from busbw.support.files import path_text
from busbw.units import count_text, names_text

_DOCUMENT_STEMS = frozenset(("readme", "license", "notice", "changelog"))
"""Names of documents without their suffixes, in lower case."""


_COLUMN_NAME = b"busbw"
"""Text in the column header of most logs, and in records."""
_BEGINNING_BYTES = 1 << 16
_MAX_SEARCHED_FILES = 500
"""Maximum number of files of a folder that are searched for further logs."""


class NoReadableLogError(UsageError):
    """The named folders have logs, and none of the logs can be read."""


class _NamedLog(NamedTuple):
    path: Path
    is_in_folder: bool
    """True if a folder was named instead of the log."""


def read_named_logs(
    names: Sequence[str], on_note: Callable[[str], None], on_skipped: Callable[[str], None]
) -> Iterator[Log]:
    """Yields the logs one by one, those of a folder in the order of their names.

    Args:
        names: Each is a path, a run of the default store as in `find`, or a folder of runs and logs.
        on_note: Receives a sentence for each log that was given several times, for each document or record of a search
            in a folder, and for further logs of a folder: in its folders, or with another suffix.
        on_skipped: Receives a sentence for each other unreadable file of a folder, such as the log of a failed run.

    Raises:
        NoReadableLogError: No log of the folders can be read. All skipped files were reported before.
        UsageError: A named log cannot be read, or a folder has no log.
    """
    logs_by_file: dict[Path, list[_NamedLog]] = {}
    for name in names:
        for named_log in _find_named_logs(name):
            logs_by_file.setdefault(named_log.path.resolve(), []).append(named_log)
    for name in names:
        if further := [path for path in _find_further_logs(name) if path.resolve() not in logs_by_file]:
            on_note(
                f"{name} has {count_text(len(further), 'log')} more, in folders or without the suffix of a log: "
                f"{names_text(list(map(path_text, further)), 3)}; name them or their folders."
            )
    has_log, problems = False, []
    for named_logs in logs_by_file.values():
        path = named_logs[0].path
        is_in_folder = all(named_log.is_in_folder for named_log in named_logs)
        if len(named_logs) > 1:
            on_note(f"{path_text(path)} was given {len(named_logs)} times and is read once.")
        try:
            log = readers.read(path)
        except BusbwError as error:
            if not is_in_folder:
                raise  # the user named the log itself
            problem = f"{path_text(path)} was skipped: {error}"
            problems.append(problem)
            if isinstance(error, SearchRecordError):
                on_note(f"{path_text(path)} is a search without rows and is left out.")
            elif _is_document(path):
                on_note(f"{path_text(path)} is a document without rows and is left out.")
            else:
                on_skipped(problem)
            continue
        if is_in_folder and _is_document(path) and not log.has_rows and not log.refused:
            problems.append(f"{path_text(path)} has no rows")
            on_note(f"{path_text(path)} is a document without rows and is left out.")
            continue
        yield log
        has_log = True
    if not has_log and names:
        raise NoReadableLogError(
            f"no log could be read: {problems[0]}", remedy="give a log that `busbw import` can read"
        )


def _is_document(path: Path) -> bool:
    """True if the name of a file suggests prose. The file may contain rows nevertheless."""
    return path.suffix.lower() == ".md" or path.stem.lower() in _DOCUMENT_STEMS


def _find_named_logs(name: str) -> list[_NamedLog]:
    """Returns all logs of a folder of logs, otherwise the one log with this path or name."""
    folder = Path(name)
    is_run = (folder / RECORDS).is_file()
    is_folder_of_logs = bool(name) and folder.is_dir() and not is_run  # Path("") is the current folder
    if not is_folder_of_logs:
        return [_NamedLog(find(name), is_in_folder=False)]
    paths = sorted(entry.log for entry in entries(folder))
    if not paths:
        raise UsageError(f"the folder {name} has no run and no log", remedy="give a folder of runs or logs")
    return [_NamedLog(path, is_in_folder=True) for path in paths]


def _find_further_logs(name: str) -> Iterator[Path]:
    """Yields files of a folder that look like logs and are not read with it. Folders of runs and sessions have none."""
    folder = Path(name)
    if not name or not folder.is_dir() or (folder / RECORDS).is_file():
        return
    searched_count = 0
    for parent, folder_names, file_names in os.walk(folder):
        parent_path = Path(parent)
        folder_names[:] = [
            one
            for one in sorted(folder_names)
            if not (one.startswith(".") or has_timed_name(one) or (parent_path / one / RECORDS).is_file())
        ]
        for file_name in sorted(file_names):
            path = parent_path / file_name
            if file_name.startswith(".") or (parent_path == folder and path.suffix in LOG_SUFFIXES):
                continue
            searched_count += 1
            if searched_count > _MAX_SEARCHED_FILES:
                return
            if _begins_like_log(path):
                yield path


def _begins_like_log(path: Path) -> bool:
    if not path.is_file():  # opening a pipe would wait for its writer
        return False
    try:
        with path.open("rb") as file:
            return _COLUMN_NAME in file.read(_BEGINNING_BYTES).lower()
    except OSError:
        return False
