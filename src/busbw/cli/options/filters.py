"""Options that select runs of the store, shared by `runs` and `history`."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any, TypeVar

import click

from busbw.cli.options.completion import complete_dtype
from busbw.cli.options.deprecated import replaced_option
from busbw.cli.options.param_types import NonEmptyPath, PlacementChoice
from busbw.engine import collective_name
from busbw.errors import UsageError
from busbw.store import MAX_INTEGER, STORE_VARIABLE, Filter
from busbw.units import parse_size

_Function = TypeVar("_Function", bound=Callable[..., Any])

_AGE_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}

_OPTIONS = (
    click.option(
        "--dtype",
        "--datatype",
        metavar="TYPE",
        shell_complete=complete_dtype,
        help="Element type: float, half, ...",
    ),
    click.option("--redop", "--op", metavar="OP", help="Reduction operator: sum, max, ..."),
    click.option("--ranks", type=click.IntRange(min=1, max=MAX_INTEGER), metavar="N", help="Number of ranks."),
    click.option("--backend", metavar="NAME", help="Backend of the run: host, nccl, ..."),
    click.option("--library", metavar="TEXT", help="Part of the library's name and version: 2.28."),
    click.option("--host", metavar="NAME", help="Full name of one of the hosts."),
    click.option("--device", metavar="TEXT", help="Part of the device's name: H100."),
    replaced_option("--system", "host_or_device", "--device or --host"),
    click.option(
        "--since", metavar="WHEN", help="Runs since then: 2026-10-01, 2026-10-01T12:00+02:00, or an age: 12h, 7d, 4w."
    ),
    click.option("--until", metavar="WHEN", help="Runs before then, written like --since."),
    click.option(
        "--placement",
        type=PlacementChoice(["out_of_place", "in_place", "unstated"]),
        help="Placement of the buffers, with --rows or in a history.",
    ),
    click.option("--sizes", metavar="MIN..MAX", help="Range of sizes: 1M..1G, or one size: 8M."),
    click.option(
        "--store",
        type=NonEmptyPath(file_okay=False),
        metavar="FOLDER",
        help=f"Folder of the runs.  [default: ${STORE_VARIABLE}, or ./busbw-records]",
    ),
)


def filter_options(function: _Function) -> _Function:
    """Adds the options of `build_filter`, and `--store`, to a command."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def build_filter(now: datetime, collective: str | None, **values: Any) -> Filter:
    """Returns the filter for the values of the options of `filter_options`.

    Raises:
        UsageError: A time or a size is invalid.
    """
    min_bytes, max_bytes = _parse_sizes(values.pop("sizes"))
    since, until = values.pop("since"), values.pop("until")
    # The other options have the names of fields of the filter.
    return Filter(
        collective=collective_name(collective) if collective else None,
        since_s=parse_time(since, now, "--since"),
        until_s=parse_time(until, now, "--until"),
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        **values,
    )


def parse_time(text: str | None, now: datetime, option: str) -> float | None:
    """Returns a time in seconds since 1970, or None without a text. A time without a zone is UTC."""
    if text is None:
        return None
    if age := re.fullmatch(r"(\d{1,4})([hdw])", text):
        return (now - int(age[1]) * _AGE_UNITS[age[2]]).timestamp()
    try:
        time = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError as error:
        raise UsageError(
            f'{option} "{text}" is not a time',
            remedy="give 2026-10-01, 2026-10-01T12:00+00:00, or an age like 12h, 7d, 4w",
        ) from error
    if time.tzinfo is None:
        time = time.replace(tzinfo=timezone.utc)
    return time.timestamp()


def _parse_sizes(text: str | None) -> tuple[int | None, int | None]:
    """Returns the minimum and maximum in bytes. None: no limit."""
    if text is None:
        return None, None
    low, dots, high = text.partition("..")
    if not dots:
        size_bytes = _parse_size(text, text)
        return size_bytes, size_bytes
    min_bytes = _parse_size(low, text) if low else None
    max_bytes = _parse_size(high, text) if high else None
    if min_bytes is not None and max_bytes is not None and min_bytes > max_bytes:
        raise UsageError(f'--sizes "{text}" begins with its larger size', remedy="swap the sizes")
    return min_bytes, max_bytes


def _parse_size(text: str, option_text: str) -> int:
    size_bytes = parse_size(text.strip())
    if size_bytes is None:
        raise UsageError(f'--sizes "{option_text}" is not a range of sizes', remedy="give 1M..1G, 1M.., ..1G or 8M")
    return size_bytes
