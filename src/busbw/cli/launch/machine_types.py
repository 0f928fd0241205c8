"""`busbw launch machine-types`: lists the known machine types, or shows one with the source of each value.

The key `expectation` of a machine type is the name of its system, for `busbw expect --system`.
"""

import textwrap
from collections.abc import Iterable, Iterator
from typing import TypeAlias

import click

from busbw import system
from busbw.cli.options.completion import complete_names
from busbw.errors import UsageError
from busbw.launchers.machine_types.machine_type import (
    EnvironmentVariable,
    MachineType,
    built_in_types,
    load,
)
from busbw.support.json_output import json_object
from busbw.terminal import Column, console, table_lines, terminal_width

_MIN_DESCRIPTION_WIDTH = 110
"""Minimum width of the terminal, in columns, for the column with the descriptions."""
_MIN_TEXT_WIDTH = 20
"""Minimum width of the reasons and sources, in columns, for a narrow terminal."""

_Row: TypeAlias = tuple[str, str, str]
"""One value of a machine type: setting, reason, source."""


@click.command()
@click.argument(
    "name",
    metavar="[NAME|FILE]",
    required=False,
    shell_complete=complete_names(built_in_types, or_files=True),
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each instead.")
def machine_types(name: str | None, as_json: bool) -> None:
    """Lists the machine types for --machine-type, or shows the settings of one with their sources."""
    selected = [load(name)] if name else list(built_in_types().values())
    for machine_type in selected:
        _require_expectation(machine_type)
    if as_json:
        for machine_type in selected:
            click.echo(json_object(machine_type))
    elif name:
        for line in _details(selected[0], terminal_width()):
            console().print(line)
    else:
        _print_list(selected)


def _require_expectation(machine_type: MachineType) -> None:
    """Refuses a machine type if its expectation names an unknown system."""
    if machine_type.system is None:
        return
    try:
        system.find(machine_type.system)
    except UsageError as error:
        remedy = "list the known systems with `busbw expect --list-systems`"
        raise UsageError(f"{machine_type.name}: expectation: {error.problem}", remedy=remedy) from error


def _print_list(types: list[MachineType]) -> None:
    width = terminal_width()
    columns = [
        Column("name", [machine_type.name for machine_type in types], is_number=False),
        Column(
            "GPUs", [machine_type.gpus_per_node.value if machine_type.gpus_per_node else "-" for machine_type in types]
        ),
        Column("NICs", [machine_type.nics_text or "-" for machine_type in types], is_number=False),
        Column("expectation", [machine_type.system or "-" for machine_type in types], is_number=False),
    ]
    if width >= _MIN_DESCRIPTION_WIDTH:
        columns.append(Column("description", [machine_type.title for machine_type in types], is_number=False))
    out = console()
    for line in table_lines(columns, width):
        out.print(line)
    out.print(f"{len(types)} machine types; `busbw launch machine-types NAME` shows one with its sources.")


def _details(machine_type: MachineType, width: int) -> Iterator[str]:
    """Yields the lines about one machine type; numbers in brackets refer to the sources at the end."""
    source_labels = {text: f"[{index}]" for index, text in enumerate(machine_type.sources.values(), 1)}
    yield f"{machine_type.name}: {machine_type.title}"
    if machine_type.aliases:
        yield f"also: {', '.join(machine_type.aliases)}"
    if machine_type.system:
        yield f"what to expect: {_expect_command(machine_type, machine_type.system)}"
    for title, rows in _sections(machine_type):
        if rows:
            yield ""
            yield title
            column_width = min(max(len(setting) for setting, _, _ in rows), width // 2)
            for setting, reason, source in rows:
                text = " ".join(filter(None, [reason, source_labels[source]]))
                yield from _value_lines(setting, text, column_width, width)
    for note in machine_type.notes:
        yield ""
        yield from textwrap.wrap(f"note: {note}", width)
    if source_labels:
        yield ""
        yield "sources"
        yield from (f"  {label} {text}" for text, label in source_labels.items())


def _value_lines(setting: str, text: str, column_width: int, width: int) -> Iterator[str]:
    """Yields a setting and its text in two columns, the first with `column_width`.

    A longer setting and its text are one line if they fit the width. Otherwise the text begins below the setting.
    """
    is_too_long = len(setting) > column_width
    single_line = f"  {setting}  {text}"
    if is_too_long and len(single_line) <= width:
        yield single_line
        return
    indent = " " * (column_width + 4)  # two blanks before and after the column
    first_line, *more_lines = textwrap.wrap(text, max(width - len(indent), _MIN_TEXT_WIDTH))
    if is_too_long:
        yield f"  {setting}"
        yield f"{indent}{first_line}"
    else:
        yield f"  {setting:<{column_width}}  {first_line}"
    yield from (f"{indent}{line}" for line in more_lines)


def _expect_command(machine_type: MachineType, system_name: str) -> str:
    """Returns the `busbw expect` command, with `--nics` if the machine type's NICs differ from the system's."""
    command = f"busbw expect all_reduce --system {system_name}"
    system_nics = system.find(system_name).nics
    if machine_type.nics_per_node is None or machine_type.nic_gbit is None:
        return command
    count, gbit = machine_type.nics_per_node.value, machine_type.nic_gbit.value
    if system_nics is not None and (system_nics.count, system_nics.gbit) == (count, gbit):
        return command
    return f"{command} --nics {count}x{gbit:g}"


def _sections(machine_type: MachineType) -> Iterator[tuple[str, list[_Row]]]:
    """Yields the title and the rows of each section. A section without rows is not shown."""
    node: list[_Row] = []
    if machine_type.gpus_per_node:
        node.append((f"GPUs: {machine_type.gpus_per_node.value}", "", machine_type.gpus_per_node.source))
    if machine_type.nics_per_node:
        node.append((f"NICs: {machine_type.nics_per_node.value}", "", machine_type.nics_per_node.source))
    if machine_type.nic_gbit:
        node.append((f"each NIC: {machine_type.nic_gbit.value:g} Gb/s", "", machine_type.nic_gbit.source))
    yield "a node has", node
    variables = _variable_rows(machine_type.environment)
    if file := machine_type.topology_file:
        variables.append((f"NCCL_TOPO_FILE={file.path}", "bus topology that a virtual machine hides", file.source))
    yield "required variables", variables
    yield "variables for speed", _variable_rows(machine_type.tuning)
    yield "requested on Kubernetes", list(_kubernetes_rows(machine_type))
    yield "options of a Slurm job", [(row.option, row.reason, row.source) for row in machine_type.slurm_job]
    requirements = [("-", requirement.what, requirement.source) for requirement in machine_type.requires]
    yield "further requirements", requirements


def _variable_rows(variables: Iterable[EnvironmentVariable]) -> list[_Row]:
    return [(f"{variable.name}={variable.value}", variable.reason, variable.source) for variable in variables]


def _kubernetes_rows(machine_type: MachineType) -> Iterator[_Row]:
    for resource in machine_type.resources:
        yield f"{resource.name}: {resource.count}", "", resource.source
    if machine_type.memory:
        yield f"memory: {machine_type.memory.value}", "", machine_type.memory.source
    if machine_type.shm:
        yield f"/dev/shm: {machine_type.shm.value}", "", machine_type.shm.source
    if machine_type.huge_pages:
        pages = machine_type.huge_pages
        yield f"huge pages of {pages.page}: {pages.amount}", "", pages.source
    for capability in machine_type.capabilities:
        yield f"capability: {capability.name}", capability.reason, capability.source
    for label in machine_type.node_labels:
        yield f"node: {label.name}={label.value}", "", label.source
    for toleration in machine_type.tolerations:
        taint = f"{toleration.key}={toleration.value}" if toleration.value is not None else toleration.key
        yield f"tolerated: {taint}:{toleration.effect}", "", toleration.source
