"""`busbw fastpath show`: prints the library and its active table."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from busbw import engine
from busbw.errors import ExitCode, UsageError
from busbw.fastpath import METHODS, TABLE_VARIABLE, TableRange, parse
from busbw.fastpath.table import METHOD_VARIABLE, default_name, default_names, default_text, table_size_text
from busbw.files import read_user_file
from busbw.system import find_in_text
from busbw.terminal import Cell, Column, console, lines, width_of

_MODE = "BUSBW_FASTPATH"
_MODES = ("", "off", "on", "verify")
_GENERATIONS = {"ampere": "sm_80", "hopper": "sm_90", "blackwell": "sm_100"}


@click.command()
@click.option(
    "--generation",
    type=click.Choice(default_names()),
    help="Show the default table for these GPUs.  [default: the active table]",
)
def show(generation: str | None) -> int:
    """Prints the library and its active table."""
    library = engine.library(engine.FASTPATH_LIBRARY)
    click.echo(f"Library: {library or 'none, because this busbw was built without CUDA'}")
    has_generation = generation is not None
    named = os.environ.get(TABLE_VARIABLE, "") if not has_generation else ""
    if named:
        found = _read(Path(named))
        click.echo(f"Table: {TABLE_VARIABLE}={named}")
    else:
        name = generation or default_name(_local_generation(), os.environ)
        found = parse(default_text(name), name)
        click.echo(f"Table: {f'default table for {name}' if found else _no_table_text(name)}")
    for sentence in [] if has_generation else _override_lines(os.environ):
        click.echo(sentence)
    _show(found)
    return ExitCode.GOOD


def _override_lines(environment: Mapping[str, str]) -> Iterator[str]:
    """Yields a line for each variable that overrides the table or the mode. An empty variable counts as unset."""
    modes = {name: environment.get(f"{_MODE}_{name.upper()}") or environment.get(_MODE) or "on" for name in METHODS}
    if mode := environment.get(_MODE):
        on = [name for name, its_mode in modes.items() if its_mode != "off"]
        remainder = f" except for {', '.join(on)}" if on else ", every call is delegated to NCCL"
        yield f"{_MODE}={mode}" + (f": the table is not used{remainder}" if mode == "off" else "")
    for name, mode in modes.items():
        if environment.get(variable := f"{_MODE}_{name.upper()}"):
            yield f"{variable}={mode}" + (f": the table is not used for {name}" if mode == "off" else "")
    if unknown := [mode for mode in {environment.get(_MODE, ""), *modes.values()} if mode not in _MODES]:
        yield f'{_MODE}: the table is not used, because "{unknown[0]}" is invalid and switches the fast path off'
    if method := environment.get(METHOD_VARIABLE):
        yield f"{METHOD_VARIABLE}={method}: the table is not used, this method runs at every size"


def _read(table: Path) -> list[TableRange]:
    try:
        return parse(read_user_file(table).decode(errors="replace"), str(table))
    except OSError as error:
        raise UsageError(
            f"cannot read the table {table}: {error.strerror}", remedy=f"correct {TABLE_VARIABLE}"
        ) from error


def _local_generation() -> str:
    """Generation of the first GPU, such as 'sm_90'. Empty if there is no GPU or its name is unknown."""
    devices = engine.devices()
    system = find_in_text(devices[0]) if devices else None
    return _GENERATIONS.get(system.generation, "") if system else ""


def _no_table_text(generation: str) -> str:
    if generation:
        return f"none for {generation}, so every call is delegated to NCCL"
    return f"none for this machine, so every call is delegated to NCCL; --generation shows {', '.join(default_names())}"


def _show(found: Sequence[TableRange]) -> None:
    if not found:
        return
    columns = [
        Column("collective", [Cell(each.collective) for each in found], right=False),
        Column("ranks", [Cell(_ranks_text(each)) for each in found]),
        *([_windows_column(found)] if any(each.in_windows for each in found) else []),
        Column("up to", [Cell(table_size_text(each.up_to_bytes)) for each in found]),
        Column("method", [Cell(each.method) for each in found], right=False),
        Column("blocks", [Cell(str(each.blocks or "")) for each in found]),
        Column("threads", [Cell(str(each.threads or "")) for each in found]),
    ]
    out = console()
    for line in lines(columns, width_of()):
        out.print(line)
    click.echo("Above these sizes, and for other numbers of ranks: nccl")
    if any(each.in_windows for each in found):
        click.echo("windows: calls with buffers in symmetric windows; without such lines they use the other lines")


def _windows_column(found: Sequence[TableRange]) -> Column:
    return Column("buffers", [Cell("windows" if each.in_windows else "") for each in found], right=False)


def _ranks_text(one: TableRange) -> str:
    return str(one.min_ranks) if one.min_ranks == one.max_ranks else f"{one.min_ranks}-{one.max_ranks}"
