"""`busbw fastpath show`: prints the fast-path library and its active table.

A table says which method runs a collective up to which size (`TableRange`). Other calls are delegated to NCCL.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from busbw import engine
from busbw.cli.options.json_option import json_option
from busbw.errors import ExitCode, UsageError
from busbw.fastpath.table import (
    DIRECT,
    METHOD_VARIABLE,
    METHODS,
    METHODS_IN_WINDOWS,
    TABLE_VARIABLE,
    TableRange,
    default_name,
    default_names,
    default_text,
    is_method_config,
    parse,
    table_size_text,
)
from busbw.files import read_user_file
from busbw.json_output import json_object
from busbw.system import find_in_text
from busbw.terminal import Cell, Column, console, table_lines, terminal_width

_MODE_VARIABLE = "BUSBW_FASTPATH"
"""Variable that sets the mode; with a suffix such as _ALL_REDUCE for one collective."""
_MODES = ("off", "on", "verify")
_MEMORY_VARIABLE = "BUSBW_FASTPATH_MIB"
"""Variable with the scratch memory. It is named only if its value is invalid."""
_MAX_MIB = 1 << 20
"""Maximum scratch memory in MiB that the library accepts: 1 TiB."""
_WHOLE_NUMBER = re.compile("[1-9][0-9]{0,6}")
"""Scratch memory as the library accepts it: digits without a leading zero."""
_COMPUTE_CAPABILITIES = {"ampere": "sm_80", "hopper": "sm_90", "blackwell": "sm_100"}
"""Compute capability by the generation of a system. Default tables are named by compute capability."""


@click.command()
@click.option(
    "--generation",
    "table_name",
    type=click.Choice(default_names()),
    help="Show the default table for these GPUs.  [default: the active table]",
)
@json_option
def show(table_name: str | None, *, as_json: bool) -> int:
    """Prints the library and its active table."""
    library = engine.library(engine.FASTPATH_LIBRARY)
    shows_active_table = table_name is None
    user_table = os.environ.get(TABLE_VARIABLE, "") if shows_active_table else ""
    default_table = ""
    if user_table:
        ranges = _read_table(Path(user_table))
    else:
        default_table = table_name or default_name(_local_compute_capability(), os.environ)
        ranges = parse(default_text(default_table), default_table)
    overrides = list(_override_lines(os.environ)) if shows_active_table else []
    if as_json:
        fields = {
            "library": str(library) if library else None,
            "table_file": user_table or None,
            "default_table": default_table if ranges and not user_table else None,
            "overrides": overrides,
            "ranges": ranges,
        }
        click.echo(json_object(fields))
        return ExitCode.GOOD
    click.echo(f"Library: {library or 'none, because this busbw was built without CUDA'}")
    if user_table:
        click.echo(f"Table: {TABLE_VARIABLE}={user_table}")
    elif ranges:
        click.echo(f"Table: default table for {default_table}")
    else:
        click.echo(f"Table: {_no_table_text(default_table)}")
    for sentence in overrides:
        click.echo(sentence)
    _print_ranges(ranges)
    return ExitCode.GOOD


def _override_lines(environment: Mapping[str, str]) -> Iterator[str]:
    """Yields a line for each variable that sets a mode or a method, and for an invalid scratch memory.

    Example: "BUSBW_FASTPATH_ALL_REDUCE=off: the table is not used for all_reduce". An empty variable counts as unset.
    """
    variable_by_collective = {collective: f"{_MODE_VARIABLE}_{collective.upper()}" for collective in METHODS}
    names = (_MODE_VARIABLE, *variable_by_collective.values(), METHOD_VARIABLE, _MEMORY_VARIABLE)
    settings = {name: environment[name] for name in names if environment.get(name)}
    valid = {name: value for name, value in settings.items() if _is_valid(name, value)}
    invalid = {name: value for name, value in settings.items() if name not in valid}
    if invalid:
        for name, value in valid.items():
            if name != _MEMORY_VARIABLE:
                yield f"{name}={value}"
        for name, value in invalid.items():
            yield f"{name}={value}: the table is not used, because this value is invalid and switches the fast path off"
        return
    common_mode = settings.get(_MODE_VARIABLE, "on")
    modes = {name: settings.get(variable, common_mode) for name, variable in variable_by_collective.items()}
    enabled = [collective for collective, mode in modes.items() if mode != "off"]
    # If a method is set, no collective uses the table, so a mode then only switches the fast path.
    off_text = "the fast path is off" if METHOD_VARIABLE in settings else "the table is not used"
    if common_mode == "off":
        exception = f" except for {', '.join(enabled)}" if enabled else ", every call is delegated to NCCL"
        yield f"{_MODE_VARIABLE}=off: {off_text}{exception}"
    elif _MODE_VARIABLE in settings:
        yield f"{_MODE_VARIABLE}={common_mode}"
    for collective, variable in variable_by_collective.items():
        if mode := settings.get(variable):
            effect = f": {off_text} for {collective}" if mode == "off" else ""
            yield f"{variable}={mode}{effect}"
    if config := settings.get(METHOD_VARIABLE):
        yield f"{METHOD_VARIABLE}={config}: {_method_effect(config.partition(',')[0], enabled)}"


def _is_valid(variable: str, value: str) -> bool:
    if variable == METHOD_VARIABLE:
        return is_method_config(value)
    if variable == _MEMORY_VARIABLE:
        return _WHOLE_NUMBER.fullmatch(value) is not None and int(value) <= _MAX_MIB
    return value in _MODES


def _method_effect(method: str, enabled: Sequence[str]) -> str:
    """Returns the effect of METHOD_VARIABLE, which sets one method for every size.

    `enabled` has the collectives for which the fast path is on.
    """
    if not enabled:
        return "without effect, because the fast path is off"
    by_collective = METHODS_IN_WINDOWS if method == DIRECT else METHODS
    collectives = [collective for collective in enabled if method in by_collective.get(collective, ())]
    if not collectives:
        return "the table is not used, every call is delegated to NCCL"
    if method != DIRECT and len(collectives) == len(METHODS):
        return "the table is not used, this method runs at every size"
    condition = " with buffers in symmetric windows" if method == DIRECT else ""
    return (
        f"the table is not used, this method runs {', '.join(collectives)}{condition} at every size, "
        "and other calls are delegated to NCCL"
    )


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


def _no_table_text(compute_capability: str) -> str:
    if compute_capability:
        return f"none for {compute_capability}, so every call is delegated to NCCL"
    return f"none for this machine, so every call is delegated to NCCL; --generation shows {', '.join(default_names())}"


def _print_ranges(ranges: Sequence[TableRange]) -> None:
    if not ranges:
        return
    has_windows = any(table_range.in_windows for table_range in ranges)
    columns = [
        Column("collective", [Cell(table_range.collective) for table_range in ranges], is_number=False),
        Column("ranks", [Cell(_ranks_text(table_range)) for table_range in ranges]),
        _windows_column(ranges),
        Column("up to", [Cell(table_size_text(table_range.up_to_bytes)) for table_range in ranges]),
        Column("method", [Cell(table_range.method) for table_range in ranges], is_number=False),
        Column("blocks", [Cell(str(table_range.blocks or "")) for table_range in ranges]),
        Column("threads", [Cell(str(table_range.threads or "")) for table_range in ranges]),
    ]
    out = console()
    for line in table_lines(columns, terminal_width()):
        out.print(line)
    click.echo("Above these sizes, and for other numbers of ranks: nccl")
    if has_windows:
        click.echo("windows: this line is for calls with buffers in symmetric windows.")
        click.echo("If a collective has no such line, these calls use its other lines.")


def _windows_column(ranges: Sequence[TableRange]) -> Column:
    """Returns the column for the kind of buffers. It is empty, and so not shown, if no line is for windows."""
    cells = [Cell("windows" if table_range.in_windows else "") for table_range in ranges]
    return Column("buffers", cells, is_number=False)


def _ranks_text(table_range: TableRange) -> str:
    low, high = table_range.min_ranks, table_range.max_ranks
    return str(low) if low == high else f"{low}-{high}"
