"""`busbw launch machine-types`: lists the known machine types, or shows one with the source of each value."""

import textwrap
from collections.abc import Iterator

import click
import msgspec
from rich.table import Table

from busbw import system as expectations
from busbw.errors import UsageError
from busbw.launchers.machine_types.machine_type import MachineType, load
from busbw.launchers.machine_types.machine_type import systems as known
from busbw.terminal import StreamConsole, console, width_of

_MAX_WIDTH = 110


@click.command()
@click.argument("name", metavar="[NAME|FILE]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each instead.")
def machine_types(name: str | None, as_json: bool) -> None:
    """Lists the machine types for --machine-type, or shows the settings of one with their sources."""
    wanted = [load(name)] if name else list(known().values())
    for machine_type in wanted:
        _require_expectation(machine_type)
    if as_json:
        for machine_type in wanted:
            console().print(msgspec.json.encode(machine_type).decode())
    elif name:
        for line in _details(wanted[0], width_of()):
            console().print(line)
    else:
        _list(wanted)


def _require_expectation(machine_type: MachineType) -> None:
    if machine_type.expectation is None:
        return
    try:
        expectations.find(machine_type.expectation)
    except UsageError as error:
        remedy = "list the known systems with `busbw expect --list-systems`"
        raise UsageError(f"{machine_type.name}: expectation: {error.what}", remedy=remedy) from error


def _list(wanted: list[MachineType]) -> None:
    out = StreamConsole(highlight=False, width=width_of())
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("name", no_wrap=True)
    table.add_column("GPUs", justify="right", no_wrap=True)
    table.add_column("NICs", no_wrap=True)
    table.add_column("expectation", no_wrap=True)
    if out.width >= _MAX_WIDTH:
        table.add_column("description", no_wrap=True)
    for machine_type in wanted:
        gpus = str(machine_type.gpus_per_node.value) if machine_type.gpus_per_node else "-"
        more = (machine_type.title,) if out.width >= _MAX_WIDTH else ()
        table.add_row(machine_type.name, gpus, machine_type.nics_text or "-", machine_type.expectation or "-", *more)
    out.print(table)
    out.print(
        f"{len(wanted)} machine types; `busbw launch machine-types NAME` shows one with its sources.", soft_wrap=True
    )


def _details(machine_type: MachineType, width: int) -> Iterator[str]:
    """Yields the lines about one machine type; numbers in brackets refer to the sources at the end."""
    number = {text: f"[{index}]" for index, text in enumerate(machine_type.sources.values(), 1)}
    yield f"{machine_type.name}: {machine_type.title}"
    if machine_type.aliases:
        yield f"also: {', '.join(machine_type.aliases)}"
    if machine_type.expectation:
        yield f"what to expect: {_expectation(machine_type)}"
    for title, rows in _sections(machine_type):
        if rows:
            yield ""
            yield title
            longest = min(max(len(setting) for setting, _, _ in rows), width // 2)
            for setting, reason, source in rows:
                yield from _value_lines(setting, " ".join(filter(None, [reason, number[source]])), longest, width)
    for note in machine_type.notes:
        yield ""
        yield from textwrap.wrap(f"note: {note}", width)
    if number:
        yield ""
        yield "sources"
        yield from (f"  {index} {text}" for text, index in number.items())


def _value_lines(setting: str, text: str, longest: int, width: int) -> Iterator[str]:
    """Yields a setting in its own column, with the text beside it, or below it if the line is too long."""
    if len(setting) > longest and len(setting) + len(text) + 4 <= width:
        yield f"  {setting}  {text}"
        return
    indent = " " * (2 + longest + 2)
    first, *others = textwrap.wrap(text, max(width - len(indent), 20))
    if len(setting) > longest:
        yield f"  {setting}"
        yield f"{indent}{first}"
    else:
        yield f"  {setting:<{longest}}  {first}"
    yield from (f"{indent}{line}" for line in others)


def _expectation(machine_type: MachineType) -> str:
    """Returns the `busbw expect` command, with `--nics` if the machine type's NICs differ from the system's."""
    words = f"busbw expect all_reduce --system {machine_type.expectation}"
    described = expectations.find(machine_type.expectation or "").nics
    if machine_type.nics_per_node is None or machine_type.nic_gbit is None:
        return words
    nics = (machine_type.nics_per_node.value, machine_type.nic_gbit.value)
    if described is not None and (described.count, described.gbit) == nics:
        return words
    return f"{words} --nics {nics[0]}x{nics[1]:g}"


def _sections(machine_type: MachineType) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """Yields each section: its title, and the setting, reason and source of each value."""
    node = []
    if machine_type.gpus_per_node:
        node.append((f"GPUs: {machine_type.gpus_per_node.value}", "", machine_type.gpus_per_node.source))
    if machine_type.nics_per_node:
        node.append((f"NICs: {machine_type.nics_per_node.value}", "", machine_type.nics_per_node.source))
    if machine_type.nic_gbit:
        node.append((f"each NIC: {machine_type.nic_gbit.value:g} Gb/s", "", machine_type.nic_gbit.source))
    yield "a node has", node
    variables = [(f"{one.name}={one.value}", one.reason, one.source) for one in machine_type.environment]
    if machine_type.topology_file:
        path = machine_type.topology_file
        variables.append((f"NCCL_TOPO_FILE={path.path}", "bus topology that a virtual machine hides", path.source))
    yield "required variables", variables
    yield "variables for speed", [(f"{one.name}={one.value}", one.reason, one.source) for one in machine_type.tuning]
    yield "requested on Kubernetes", list(_kubernetes(machine_type))
    yield "options of a Slurm job", [(one.option, one.reason, one.source) for one in machine_type.slurm_job]
    yield "options of a Slurm step", [(one.option, one.reason, one.source) for one in machine_type.slurm_step]
    yield "further requirements", [("-", one.what, one.source) for one in machine_type.requires]


def _kubernetes(machine_type: MachineType) -> Iterator[tuple[str, str, str]]:
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
    for taint in machine_type.tolerations:
        key = f"{taint.key}={taint.value}" if taint.value is not None else taint.key
        yield f"tolerated: {key}:{taint.effect}", "", taint.source
