"""`busbw runs`: lists the runs of the store."""

import sys
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import click
import msgspec

from busbw.cli.open_store import open_index, print_index_problems, store_folder, time_text
from busbw.cli.options.filters import build_filter, filter_options
from busbw.errors import UsageError
from busbw.logs import PLACEMENT_WORDS
from busbw.store import (
    MAX_INTEGER,
    Filter,
    Index,
    RunRow,
    StoredPoint,
    count_points,
    count_runs,
    list_points,
    list_runs,
)
from busbw.terminal import Cell, Column, console, lines, width_of
from busbw.units import count_text, size_text


@click.command()
@click.option("--collective", metavar="NAME", help="Collective: all_reduce, ...")
@filter_options
@click.option("--rows", "lists_rows", is_flag=True, help="List measurements instead of runs.")
@click.option(
    "--limit",
    type=click.IntRange(min=0, max=MAX_INTEGER),
    default=40,
    show_default=True,
    metavar="N",
    help="List only the newest N; 0: all.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@click.option("--rebuild", is_flag=True, help="Rebuild the index from the logs first.")
def runs(
    collective: str | None,
    store: Path | None,
    *,
    lists_rows: bool,
    limit: int,
    as_json: bool,
    rebuild: bool,
    **filters: Any,
) -> None:
    """Lists the runs of the store, newest first."""
    folder = store_folder(store)
    wanted = build_filter(datetime.now(timezone.utc), collective, **filters)
    if wanted.placement and not lists_rows:
        raise UsageError("--placement does not apply to a list of runs", remedy="add --rows")
    with open_index(folder, rebuild=rebuild) as index:
        list_items = _list_rows if lists_rows else _list_runs
        shown, total = list_items(index, wanted, limit, as_json=as_json)
        if not total:
            click.echo(f"no run in {folder} matches; make one with busbw run", err=True)
        elif shown < total:
            total_text = count_text(total, "measurement" if lists_rows else "run")
            click.echo(f"the newest {shown} of {total_text}; --limit 0 lists all", err=True)
        print_index_problems(index)


def _list_runs(index: Index, wanted: Filter, limit: int, *, as_json: bool) -> tuple[int, int]:
    """Lists the runs, and returns the number listed and the number that match."""
    found = index.query(lambda connection: list_runs(connection, wanted, limit=limit or None))
    total = index.query(lambda connection: count_runs(connection, wanted)) if len(found) == limit else len(found)
    if as_json:
        _write_json(found)
    elif found:
        _write_table(_run_columns(found))
    return len(found), total


def _list_rows(index: Index, wanted: Filter, limit: int, *, as_json: bool) -> tuple[int, int]:
    if as_json:
        shown = index.query(lambda connection: _write_json(list_points(connection, wanted, limit=limit or None)))
    else:
        found = index.query(lambda connection: list(list_points(connection, wanted, limit=limit or None)))
        shown = len(found)
        if found:
            _write_table(_row_columns(found))
    total = index.query(lambda connection: count_points(connection, wanted)) if shown == limit else shown
    return shown, total


def _write_json(items: Iterable[RunRow | StoredPoint]) -> int:
    encode, count = msgspec.json.Encoder().encode, 0
    sys.stdout.flush()
    for item in items:
        sys.stdout.buffer.write(encode(item) + b"\n")
        count += 1
    return count


def _write_table(columns: Sequence[Column]) -> None:
    out = console()
    table_lines = lines(columns, width_of())
    if out.color_system is None:  # much faster than print
        sys.stdout.writelines(f"{line.plain}\n" for line in table_lines)
        return
    for line in table_lines:
        out.print(line)


def _run_columns(found: Sequence[RunRow]) -> list[Column]:
    def column(name: str, texts: Iterable[object], weight: int = 0, *, right: bool = False) -> Column:
        cells = [Cell("" if text is None else str(text)) for text in texts]
        return Column(name, cells, right=right, weight=weight)

    sizes = [
        f"{size_text(run.min_bytes)} to {size_text(run.max_bytes)}"
        if run.min_bytes is not None and run.max_bytes is not None
        else ""
        for run in found
    ]
    hosts = [run.hosts if run.host_count < 2 else f"{run.hosts.split()[0]} +{run.host_count - 1}" for run in found]
    return [
        column("run", (run.name + (f" #{run.number}" if run.number > 1 else "") for run in found)),
        column("time (UTC)", (time_text(run.time_s, run.time_source) for run in found), 4),
        column("collective", (run.collectives for run in found), 9),
        column("type", (_names_or_count(run.dtypes) for run in found), 7),
        column("ranks", (run.ranks for run in found), 8, right=True),
        column("hosts", hosts, 3),
        column("device", (run.device for run in found), 1),
        column("library", (run.library for run in found), 5),
        column("sizes", sizes, 2),
        column("rows", (run.rows for run in found), 6, right=True),
        column("peak busbw", (_gbps(run.peak_busbw_gbps) for run in found), 10, right=True),
        Column("data", [_data_cell(run) for run in found], right=False),
    ]


def _names_or_count(names: str | None) -> str | None:
    """Returns up to two names, or the number of names."""
    count = names.count(",") + 1 if names else 0
    return names if count <= 2 else f"{count} types"


def _data_cell(run: RunRow) -> Cell:
    if run.wrong:
        return Cell("WRONG", "bold red")
    if run.complete is False:
        return Cell("no end", "yellow")
    return Cell("right", "green") if run.checked else Cell("unchecked", "yellow")


def _gbps(value: float | None) -> str:
    return "" if value is None else f"{value:.2f} GB/s"


def _row_columns(found: Sequence[StoredPoint]) -> list[Column]:
    def column(name: str, texts: Iterable[object], weight: int = 0, *, right: bool = True) -> Column:
        cells = [Cell("" if text is None else str(text)) for text in texts]
        return Column(name, cells, right=right, weight=weight)

    def number(value: float | None) -> str:
        return "" if value is None else f"{value:.2f}"

    return [
        column("run", (point.name for point in found), right=False),
        column("collective", (point.collective for point in found), 9, right=False),
        column("type", (point.dtype for point in found), 7, right=False),
        column("redop", (point.redop for point in found), 5, right=False),
        column("ranks", (point.ranks for point in found), 4),
        column("size", (size_text(point.size_bytes) for point in found)),
        column("placement", (PLACEMENT_WORDS[point.placement] or "unstated" for point in found), 6, right=False),
        column("time us", (number(point.time_us) for point in found)),
        column("algbw GB/s", (number(point.algbw_gbps) for point in found), 3),
        column("busbw GB/s", (number(point.busbw_gbps) for point in found)),
        column("wrong", (point.wrong_elements for point in found), 8),
    ]
