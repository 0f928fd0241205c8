"""`busbw runs`: lists the runs of the store, or with `--rows` their measurements, from the index of the store."""

import sys
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import click

from busbw.cli.open_store import open_index, print_index_problems, store_folder, time_text
from busbw.cli.options.completion import complete_collective
from busbw.cli.options.engine_flags import find_collective
from busbw.cli.options.filters import build_filter, filter_options
from busbw.engine import collective_name
from busbw.errors import UsageError
from busbw.logs.log import PLACEMENT_WORDS
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
from busbw.support.json_output import json_object
from busbw.terminal import Cell, Column, console, table_lines, terminal_width
from busbw.units import count_text, plain, size_text


@click.command()
@click.option("--collective", metavar="NAME", shell_complete=complete_collective, help="Collective: all_reduce, ...")
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
    """Lists the runs of the store, or with --rows their measurements, newest first."""
    folder = store_folder(store)
    run_filter = build_filter(datetime.now(timezone.utc), collective, **filters)
    if run_filter.placement and not lists_rows:
        raise UsageError("--placement does not apply to a list of runs", remedy="add --rows")
    with open_index(folder, rebuild=rebuild) as index:
        list_items = _list_measurements if lists_rows else _list_runs
        listed, total = list_items(index, run_filter, limit, as_json=as_json)
        has_filter = run_filter != Filter()
        # Filters select by configuration, which a search (`busbw find`) lacks.
        searches = [] if has_filter or lists_rows else index.searches()
        shown_searches = searches[:limit] if limit else searches
        _list_searches(shown_searches, as_json=as_json)
        if not total and not searches:
            _refuse_unknown_collective(index, collective)
            click.echo(f"no run in {folder} matches; make one with busbw run", err=True)
        elif listed < total:
            total_text = count_text(total, "measurement" if lists_rows else "run")
            click.echo(f"the newest {listed} of {total_text}; --limit 0 lists all", err=True)
        print_index_problems(index)


def _refuse_unknown_collective(index: Index, name: str | None) -> None:
    """Refuses a collective that neither busbw measures nor a log in the store contains.

    Raises:
        UsageError: The collective is unknown.
    """
    if name is not None:
        stored = Filter(collective=collective_name(name))
        if not index.query(lambda connection: count_runs(connection, stored)):
            find_collective(name, "--collective: ")


def _list_runs(index: Index, run_filter: Filter, limit: int, *, as_json: bool) -> tuple[int, int]:
    """Lists the runs, and returns the number listed and the number that match."""
    rows = index.query(lambda connection: list_runs(connection, run_filter, limit=limit or None))
    total = len(rows)
    if total == limit:  # there may be more
        total = index.query(lambda connection: count_runs(connection, run_filter))
    if as_json:
        _write_json(rows)
    elif rows:
        _write_table(_run_columns(rows))
    return len(rows), total


def _list_searches(searches: Sequence[tuple[str, str]], *, as_json: bool) -> None:
    """Lists searches with their answers."""
    if as_json:
        _write_json({"search": name, "answer": answer} for name, answer in searches)
        return
    for name, answer in searches:
        click.echo(plain(f"{name}  {answer}"))


def _list_measurements(index: Index, run_filter: Filter, limit: int, *, as_json: bool) -> tuple[int, int]:
    """Lists the measurements, and returns the number listed and the number that match."""
    if as_json:
        # Each measurement is written when it is read, so that not all are in memory.
        listed = index.query(lambda connection: _write_json(list_points(connection, run_filter, limit=limit or None)))
    else:
        points = index.query(lambda connection: list(list_points(connection, run_filter, limit=limit or None)))
        listed = len(points)
        if points:
            _write_table(_measurement_columns(points))
    total = listed
    if listed == limit:  # there may be more
        total = index.query(lambda connection: count_points(connection, run_filter))
    return listed, total


def _write_json(items: Iterable[RunRow | StoredPoint | dict[str, str]]) -> int:
    """Writes one JSON object per line, and returns the number of lines."""
    count = 0
    sys.stdout.flush()
    for item in items:
        sys.stdout.buffer.write(json_object(item) + b"\n")
        count += 1
    return count


def _write_table(columns: Sequence[Column]) -> None:
    out = console()
    lines = table_lines(columns, terminal_width())
    if out.color_system is None:
        # Without styles, Rich is not needed. It is much slower.
        sys.stdout.writelines(f"{line.plain}\n" for line in lines)
        return
    for line in lines:
        out.print(line)


def _run_columns(rows: Sequence[RunRow]) -> list[Column]:
    return [
        Column("run", [run.name if run.number == 1 else f"{run.name} #{run.number}" for run in rows], is_number=False),
        Column("time (UTC)", [time_text(run.time_s, run.time_source) for run in rows], is_number=False, weight=4),
        Column("collective", [run.collectives for run in rows], is_number=False, weight=9),
        Column("type", [_dtypes_text(run.dtypes) for run in rows], is_number=False, weight=7),
        Column("ranks", [run.ranks for run in rows], weight=8),
        Column("hosts", [_hosts_text(run) for run in rows], is_number=False, weight=3),
        Column("device", [run.device for run in rows], is_number=False, weight=1),
        Column("library", [run.library for run in rows], is_number=False, weight=5),
        Column("sizes", [_sizes_text(run) for run in rows], is_number=False, weight=2),
        Column("rows", [run.rows for run in rows], weight=6),
        Column("peak busbw", [_gbps_text(run.peak_busbw_gbps) for run in rows], weight=10),
        Column("data", [_data_cell(run) for run in rows], is_number=False),
    ]


def _hosts_text(run: RunRow) -> str:
    """Returns the host, or the first host and the number of the others."""
    if run.host_count < 2:
        return run.hosts
    return f"{run.hosts.split()[0]} +{run.host_count - 1}"


def _sizes_text(run: RunRow) -> str:
    if run.min_bytes is None or run.max_bytes is None:
        return ""
    return f"{size_text(run.min_bytes)} to {size_text(run.max_bytes)}"


def _dtypes_text(dtypes: str | None) -> str | None:
    """Returns up to two data types, or their number."""
    count = dtypes.count(",") + 1 if dtypes else 0
    return dtypes if count <= 2 else f"{count} types"


def _data_cell(run: RunRow) -> Cell:
    if run.wrong:
        return Cell("WRONG", "bold red")
    if run.complete is False:
        return Cell("incomplete", "yellow")
    return Cell("right", "green") if run.checked else Cell("unchecked", "yellow")


def _gbps_text(value: float | None) -> str:
    return "" if value is None else f"{value:.2f} GB/s"


def _measurement_columns(points: Sequence[StoredPoint]) -> list[Column]:
    def number_text(value: float | None) -> str:
        return "" if value is None else f"{value:.2f}"

    return [
        Column("run", [point.name for point in points], is_number=False),
        Column("collective", [point.collective for point in points], is_number=False, weight=9),
        Column("type", [point.dtype for point in points], is_number=False, weight=7),
        Column("redop", [point.redop for point in points], is_number=False, weight=5),
        Column("ranks", [point.ranks for point in points], weight=4),
        Column("size", [size_text(point.size_bytes) for point in points]),
        Column(
            "placement", [PLACEMENT_WORDS[point.placement] or "unstated" for point in points], is_number=False, weight=6
        ),
        Column("time us", [number_text(point.time_us) for point in points]),
        Column("algbw GB/s", [number_text(point.algbw_gbps) for point in points], weight=3),
        Column("busbw GB/s", [number_text(point.busbw_gbps) for point in points]),
        Column("wrong", [point.wrong_elements for point in points], weight=8),
    ]
