"""Reads the logs that a user names: files, runs of the store, and all logs of a folder."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from busbw import readers
from busbw.errors import BusbwError, UsageError
from busbw.files import path_text
from busbw.logs import Log
from busbw.store.layout import RECORDS, entries, find


def read_named_logs(
    names: Sequence[str], on_repeated: Callable[[str], None], on_skipped: Callable[[str], None]
) -> Iterator[Log]:
    """Yields the logs one by one, those of a folder in the order of their names.

    Args:
        names: Each is a path, a run of the default store as in `find`, or a folder of runs and logs.
        on_repeated: Receives a sentence for each name that was given several times.
        on_skipped: Receives a sentence for each unreadable file of a folder.

    Raises:
        UsageError: A named log cannot be read, a folder has no log, or none of its logs can be read.
    """
    has_log, problems = False, []
    for name, times in Counter(names).items():
        if times > 1:
            on_repeated(f"{name} was given {times} times and is read once.")
        if not _is_folder_of_logs(Path(name)):
            yield readers.read(find(name))
            has_log = True
            continue
        paths = sorted(entry.log for entry in entries(Path(name)))
        if not paths:
            raise UsageError(f"the folder {name} has no run and no log", remedy="give a folder of runs or logs")
        for path in paths:
            try:
                log = readers.read(path)
            except BusbwError as error:
                problems.append(f"{path_text(path)} was skipped: {error}")
                on_skipped(problems[-1])
                continue
            yield log
            has_log = True
    if not has_log and names:
        raise UsageError(f"no log could be read: {problems[0]}", remedy="give a log that `busbw import` can read")


def _is_folder_of_logs(path: Path) -> bool:
    """True for a folder that is not a single run."""
    return path.is_dir() and not (path / RECORDS).is_file()
