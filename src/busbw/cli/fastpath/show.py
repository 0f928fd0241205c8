"""`busbw fastpath show`: prints the fast-path library and its active table.

A table says which method runs a collective up to which size (`TableRange`). Other calls are delegated to NCCL.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import click

from busbw import engine
from busbw.cli.options.json_option import json_option
from busbw.errors import ExitCode, UsageError
from busbw.fastpath.table import (
    METHODS,
    TABLE_VARIABLE,
    TableRange,
    default_name,
    default_names,
    default_text,
    parse,
    table_size_text,
)
from busbw.support.files import read_user_file
from busbw.support.json_output import json_object
from busbw.system import find_in_text
from busbw.terminal import Column, console, table_lines, terminal_width

_OVERRIDING_VARIABLES = (
    "BUSBW_FASTPATH",
    *(f"BUSBW_FASTPATH_{collective.upper()}" for collective in METHODS),
    "BUSBW_FASTPATH_METHOD",
    "BUSBW_FASTPATH_MIB",
)
"""Variables that can override the table. docs/reference/environment.md describes them."""
_COMPUTE_CAPABILITIES = {"ampere": "sm_80", "hopper": "sm_90", "blackwell": "sm_100"}
"""Compute capability by the generation of a system. Default tables are named by compute capability."""


@click.command()
@click.option(
    "--generation",
    "table_name",
    type=click.Choice(default_names()),  # such as sm_90, not "hopper"
    help="Show the default table for these GPUs.  [default: the active table]",
)
@json_option
def show(table_name: str | None, *, as_json: bool) -> int:
    """Prints the library and its active table."""
    library = engine.library(engine.FASTPATH_LIBRARY)
    shows_active_table = table_name is None
    user_table = os.environ.get(TABLE_VARIABLE, "") if shows_active_table else ""
    # Name of the default table:
    # - with --generation, the argument
    # - otherwise the name for this machine's GPUs, even if no default table has it
    # - empty for a user's table, or if the GPUs are unknown
    default_table_name = ""
    if user_table:
        ranges = _read_table(Path(user_table))
    else:
        default_table_name = table_name or default_name(_local_compute_capability(), os.environ)
        ranges = parse(default_text(default_table_name), default_table_name)
    set_variables = [f"{name}={os.environ[name]}" for name in _OVERRIDING_VARIABLES if os.environ.get(name)]
    overrides = set_variables if shows_active_table else []
    if as_json:
        fields = {
            "library": str(library) if library else None,
            "table_file": user_table or None,
            "default_table": default_table_name if ranges and not user_table else None,
            "overrides": overrides,
            "ranges": ranges,
        }
        click.echo(json_object(fields))
        return ExitCode.GOOD
    click.echo(f"Library: {library or 'none, because this busbw was built without CUDA'}")
    if user_table:
        click.echo(f"Table: {TABLE_VARIABLE}={user_table}")
    elif ranges:
        click.echo(f"Table: default table for {default_table_name}")
    else:
        click.echo(f"Table: {_no_table_text(default_table_name)}")
    if overrides:
        click.echo(f"Variables that can override the table: {', '.join(overrides)}")
    _print_ranges(ranges)
    return ExitCode.GOOD


def _read_table(table: Path) -> list[TableRange]:
    try:
        return parse(read_user_file(table).decode(errors="replace"), str(table))
    except OSError as error:
        raise UsageError(
            f"cannot read the table {table}: {error.strerror}", remedy=f"correct {TABLE_VARIABLE}"
        ) from error


def _local_compute_capability() -> str:
    """Compute capability of the first GPU, such as 'sm_90'. Empty without a GPU or if its name is unknown."""
    devices = engine.devices()
    system = find_in_text(devices[0]) if devices else None
    return _COMPUTE_CAPABILITIES.get(system.generation, "") if system else ""


def _no_table_text(table_name: str) -> str:
    if table_name:
        return f"none for {table_name}, so every call is delegated to NCCL"
    return f"none for this machine, so every call is delegated to NCCL; --generation shows {', '.join(default_names())}"


def _print_ranges(ranges: Sequence[TableRange]) -> None:
    if not ranges:
        return
    has_windows = any(table_range.in_windows for table_range in ranges)
    columns = [
        Column("collective", [table_range.collective for table_range in ranges], is_number=False),
        Column("ranks", [_ranks_text(table_range) for table_range in ranges]),
        # A column without text is not shown.
        Column("buffers", ["windows" if table_range.in_windows else None for table_range in ranges], is_number=False),
        Column("up to", [table_size_text(table_range.up_to_bytes) for table_range in ranges]),
        Column("method", [table_range.method for table_range in ranges], is_number=False),
        Column("blocks", [table_range.blocks or None for table_range in ranges]),
        Column("threads", [table_range.threads or None for table_range in ranges]),
    ]
    out = console()
    for line in table_lines(columns, terminal_width()):
        out.print(line)
    click.echo("Above these sizes, and for other numbers of ranks: nccl")
    if has_windows:
        click.echo("windows: this line is for calls with buffers in symmetric windows.")
        click.echo("If a collective has no such line, these calls use its other lines.")


def _ranks_text(table_range: TableRange) -> str:
    low, high = table_range.min_ranks, table_range.max_ranks
    return str(low) if low == high else f"{low}-{high}"
