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
    """Lists the machine types for --machine-type, or shows one: what it needs, and where each value is from."""
    wanted = [load(name)] if name else list(known().values())
    for system in wanted:
        _require_expectation(system)
    if as_json:
        for system in wanted:
            console().print(msgspec.json.encode(system).decode())
    elif name:
        for line in _details(wanted[0], width_of()):
            console().print(line)
    else:
        _list(wanted)


def _require_expectation(system: MachineType) -> None:
    if system.expectation is None:
        return
    try:
        expectations.find(system.expectation)
    except UsageError as error:
        remedy = "`busbw expect --list-systems` lists what is known"
        raise UsageError(f"{system.name}: expectation: {error.what}", remedy=remedy) from error


def _list(wanted: list[MachineType]) -> None:
    out = StreamConsole(highlight=False, width=width_of())
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("name", no_wrap=True)
    table.add_column("GPUs", justify="right", no_wrap=True)
    table.add_column("NICs", no_wrap=True)
    table.add_column("expectation", no_wrap=True)
    if out.width >= _MAX_WIDTH:
        table.add_column("what it is", no_wrap=True)
    for system in wanted:
        gpus = str(system.gpus_per_node.value) if system.gpus_per_node else "-"
        more = (system.title,) if out.width >= _MAX_WIDTH else ()
        table.add_row(system.name, gpus, system.nics_text or "-", system.expectation or "-", *more)
    out.print(table)
    out.print(
        f"{len(wanted)} machine types; `busbw launch machine-types NAME` shows one with its sources.", soft_wrap=True
    )


def _details(system: MachineType, width: int) -> Iterator[str]:
    """The lines about one machine type; numbers in brackets lead to the sources at the end."""
    number = {text: f"[{index}]" for index, text in enumerate(system.sources.values(), 1)}
    yield f"{system.name}: {system.title}"
    if system.aliases:
        yield f"also: {', '.join(system.aliases)}"
    if system.expectation:
        yield f"what to expect: {_expectation(system)}"
    for title, rows in _sections(system):
        if rows:
            yield ""
            yield title
            longest = min(max(len(what) for what, _, _ in rows), width // 2)
            for what, why, source in rows:
                yield from _value_lines(what, " ".join(filter(None, [why, number[source]])), longest, width)
    for note in system.notes:
        yield ""
        yield from textwrap.wrap(f"note: {note}", width)
    if number:
        yield ""
        yield "sources"
        yield from (f"  {index} {text}" for text, index in number.items())


def _value_lines(what: str, why: str, longest: int, width: int) -> Iterator[str]:
    """What in a column of its own, and why beside it, or below where there is no room."""
    if len(what) > longest and len(what) + len(why) + 4 <= width:
        yield f"  {what}  {why}"
        return
    indent = " " * (2 + longest + 2)
    first, *others = textwrap.wrap(why, max(width - len(indent), 20))
    if len(what) > longest:
        yield f"  {what}"
        yield f"{indent}{first}"
    else:
        yield f"  {what:<{longest}}  {first}"
    yield from (f"{indent}{line}" for line in others)


def _expectation(system: MachineType) -> str:
    """The command that says it, with this node's NICs where those of the description differ."""
    words = f"busbw expect all_reduce --system {system.expectation}"
    described = expectations.find(system.expectation or "").nics
    if system.nics_per_node is None or system.nic_gbit is None:
        return words
    here = (system.nics_per_node.value, system.nic_gbit.value)
    if described is not None and (described.count, described.gbit) == here:
        return words
    return f"{words} --nics {here[0]}x{here[1]:g}"


def _sections(system: MachineType) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """Each part of the description: its title, and what, why and the source of each value."""
    node = []
    if system.gpus_per_node:
        node.append((f"GPUs: {system.gpus_per_node.value}", "", system.gpus_per_node.source))
    if system.nics_per_node:
        node.append((f"NICs: {system.nics_per_node.value}", "", system.nics_per_node.source))
    if system.nic_gbit:
        node.append((f"each NIC: {system.nic_gbit.value:g} Gb/s", "", system.nic_gbit.source))
    yield "a node has", node
    variables = [(f"{one.name}={one.value}", one.reason, one.source) for one in system.environment]
    if system.topology_file:
        path = system.topology_file
        variables.append((f"NCCL_TOPO_FILE={path.path}", "what a virtual machine hides of the buses", path.source))
    yield "variables to work", variables
    yield "variables to be fast", [(f"{one.name}={one.value}", one.reason, one.source) for one in system.tuning]
    yield "asked for on Kubernetes", list(_kubernetes(system))
    yield "options of a Slurm job", [(one.option, one.reason, one.source) for one in system.slurm_job]
    yield "options of a Slurm step", [(one.option, one.reason, one.source) for one in system.slurm_step]
    yield "must be there besides", [("-", one.what, one.source) for one in system.requires]


def _kubernetes(system: MachineType) -> Iterator[tuple[str, str, str]]:
    for resource in system.resources:
        yield f"{resource.name}: {resource.count}", "", resource.source
    if system.memory:
        yield f"memory: {system.memory.value}", "", system.memory.source
    if system.shm:
        yield f"/dev/shm: {system.shm.value}", "", system.shm.source
    if system.huge_pages:
        pages = system.huge_pages
        yield f"huge pages of {pages.page}: {pages.amount}", "", pages.source
    for capability in system.capabilities:
        yield f"capability: {capability.name}", capability.reason, capability.source
    for label in system.node_labels:
        yield f"node: {label.name}={label.value}", "", label.source
    for taint in system.tolerations:
        what = f"{taint.key}={taint.value}" if taint.value is not None else taint.key
        yield f"tolerated: {what}:{taint.effect}", "", taint.source
