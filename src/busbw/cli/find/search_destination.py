"""Destination of the flows of a search: the run store, the file of `--records`, or the launcher of a job."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime, timezone

import click
from msgspec import to_builtins
from msgspec.json import encode

from busbw import __version__
from busbw.cli.find.find_options import FindOptions
from busbw.cli.find.summary import SearchSummary, answer_text
from busbw.cli.options.output_file import require_writable
from busbw.cli.options.run_destination import is_empty_record, open_destination, print_record_path, without_secrets
from busbw.errors import BusbwError, UsageError
from busbw.find.search import Search
from busbw.records import SCHEMA_VERSION
from busbw.searches.recorded_search import append_lines, round_record
from busbw.searches.records import SearchEndRecord, SearchLine, SearchRecord

OnEnd = Callable[[SearchSummary, int, BusbwError | None], None]
"""Receives the result, the exit code, and the error that ended the search early (None: no error)."""
_Destination = tuple[Callable[[Sequence[SearchLine]], None], Callable[[int], None]]
"""Two functions: the first writes lines to a record, the second ends the run of the record with its exit code."""


@contextmanager
def keep_flows(search: Search, options: FindOptions) -> Iterator[OnEnd]:
    """Keeps the rounds of a search as they are measured, and yields the callback for its end.

    A simulated search is kept only on request, because the store is for measurements. In a job the lines go to stdout,
    where the launcher collects them. The callback must not be called before the first round.

    Raises:
        BusbwError: The file exists or cannot be written, or the folder cannot be made.
    """
    is_record_requested = options.records_path is not None or options.store is not None
    if options.is_simulated and not is_record_requested:
        destination: AbstractContextManager[_Destination] = nullcontext((_ignore, _ignore))
    elif options.is_in_job:
        destination = nullcontext((_print_lines, _ignore))
    else:
        destination = _open_file(options)
    # The header is written with the first round, because a search without a round leaves no record.
    unwritten_header: list[SearchLine] = [_header(search, is_simulated=options.is_simulated)]
    with destination as (write, on_exit):

        def append(line: SearchLine) -> None:
            write([*unwritten_header, line])
            unwritten_header.clear()

        def on_end(summary: SearchSummary, exit_code: int, failure: BusbwError | None) -> None:
            end = SearchEndRecord(
                exit_code=exit_code,
                message=None if failure is None else str(failure),
                answer=answer_text(summary),
                result=to_builtins(summary),
                end_time=_time_now(),
            )
            append(end)
            on_exit(exit_code)

        search.on_round = lambda one_round, result: append(round_record(one_round, result))
        yield on_end


@contextmanager
def _open_file(options: FindOptions) -> Iterator[_Destination]:
    """Yields the functions for a new record. Prints the path of the record at the end if it has lines."""
    with open_destination(options.records_path, options.store, "find") as destination:
        path = destination.path
        if path.exists():
            raise UsageError(f"--records {path} exists", remedy="give a new file")
        require_writable(path, flag="--records")
        yield lambda lines: append_lines(path, *lines), destination.on_exit
        if path.exists() and not is_empty_record(path):
            print_record_path(path)


def _print_lines(lines: Sequence[SearchLine]) -> None:
    for line in lines:
        click.echo(encode(line))


def _ignore(_value: object) -> None:
    pass


def _header(search: Search, *, is_simulated: bool) -> SearchRecord:
    return SearchRecord(
        schema_version=SCHEMA_VERSION,
        busbw_version=__version__,
        args=["busbw", *without_secrets(sys.argv[1:])],
        start_time=_time_now(),
        seed=search.seed,
        simulated=is_simulated,
        nodes=to_builtins(search.measurer.cluster.nodes),
    )


def _time_now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
