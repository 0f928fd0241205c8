"""Destination of the flows of a search: a record in the run store, or the file of `--records`."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

import click
from msgspec import to_builtins

from busbw import __version__
from busbw.cli.find.summary import SearchSummary
from busbw.cli.options.run_destination import open_destination, without_secrets
from busbw.errors import BusbwError, UsageError
from busbw.find.findings import answers
from busbw.find.search import Search
from busbw.recorded_search import append_lines, round_record
from busbw.records import SCHEMA_VERSION
from busbw.search_records import SearchEndRecord, SearchLine, SearchRecord

OnEnd = Callable[[SearchSummary, int, BusbwError | None], None]
"""Receives the result, the exit code, and the error that ended the search early, if there was one."""


@contextmanager
def keep_flows(
    search: Search, records_path: Path | None, store: Path | None, *, is_simulated: bool, is_kept: bool
) -> Iterator[OnEnd]:
    """Keeps the rounds of a search as they are measured, and yields the callback for its end.

    With `is_kept` False only if a destination is stated: the store is for measurements, and on the machine of the user.

    Raises:
        UsageError: The file exists, or the folder cannot be made.
    """
    if not is_kept and records_path is None and store is None:
        yield lambda _summary, _exit_code, _failure: None
        return
    header = SearchRecord(
        schema_version=SCHEMA_VERSION,
        busbw_version=__version__,
        args=["busbw", *without_secrets(sys.argv[1:])],
        start_time=_time_now(),
        seed=search.seed,
        simulated=is_simulated,
        nodes=to_builtins(search.measurer.cluster.nodes),
    )
    with open_destination(records_path, store, "find") as destination:
        path = destination.path
        if path.exists():
            raise UsageError(f"--records {path} exists", remedy="give a new file")

        def append(line: SearchLine) -> None:
            is_new = not path.exists() or path.stat().st_size == 0  # without a round there is no record
            append_lines(path, *((header,) if is_new else ()), line)

        def on_end(summary: SearchSummary, exit_code: int, failure: BusbwError | None) -> None:
            end = SearchEndRecord(
                exit_code=exit_code,
                message=None if failure is None else str(failure),
                answer=" ".join(answers(summary.findings, summary.undecided)),
                result=to_builtins(summary),
                end_time=_time_now(),
            )
            append(end)
            destination.on_exit(exit_code)

        search.on_round = lambda one, result: append(round_record(one, result))
        yield on_end
        click.echo(f"Record: {os.path.relpath(path)}", err=True)


def _time_now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
