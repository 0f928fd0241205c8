"""Formats a topology as text for a terminal: host, GPUs, NICs, the matrix with its legend, peer access, notes."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from rich.text import Text

from busbw.terminal import Cell, Column, fit_columns, table_lines
from busbw.terminal.tables import as_cell
from busbw.topology.types import DevicePath, Driver, Gpu, Host, Nic, PeerAccess, Topology
from busbw.topology.views.device_text import is_down, mig_text, nvlink_text, pcie_text, rate_text, state_text
from busbw.topology.views.matrix import matrix_lines
from busbw.topology.views.nearest import labels_text, nearest, pcie_nics
from busbw.units import count_text, names_text, size_text

_MAX_PAIRS = 6
"""Maximum number of pairs that are listed if peer access differs between pairs."""


def lines(topology: Topology, width: int) -> Iterator[Text]:
    """Yields all lines, wrapped to the width at word boundaries."""
    # The name of this machine is omitted, because the output may be shared.
    host_text = _host_text(topology.host) if topology.host else ""
    yield from _wrap(": ".join(filter(None, [topology.source, host_text])), width)
    if topology.driver and topology.driver != Driver():
        versions = {"driver": topology.driver.version, "CUDA": topology.driver.cuda_version}
        yield Text(", ".join(f"{label} {version}" for label, version in versions.items() if version))
    for node in (topology.host and topology.host.numa_nodes) or ():
        cpus = f"CPUs {node.cpus}" if node.cpus else "no CPUs"
        memory = f", {size_text(node.memory_bytes)}" if node.memory_bytes else ""
        yield from _wrap(f"NUMA node {node.index}: {cpus}{memory}", width)
    yield Text()
    if topology.gpus:
        yield from _table(_gpu_columns(topology, topology.gpus), width)
    else:
        yield Text("GPUs: unknown" if topology.gpus is None else "GPUs: none (reported by the driver)")
    yield Text()
    if topology.nics:
        yield from _table(_nic_columns(topology, topology.nics), width)
    else:
        yield Text("NICs: unknown" if topology.nics is None else "NICs: none")
    if len(topology.labels) > 1:
        yield Text()
        yield from matrix_lines(topology, width)
    access_lines = list(_access_lines(topology))
    if access_lines:
        yield Text()
        for line in access_lines:
            yield from _wrap(line, width)
    if topology.notes:
        yield Text()
        for note in topology.notes:
            yield from _wrap(f"note: {note}", width)


def _table(columns: Sequence[Column], width: int) -> Iterator[Text]:
    """Yields the columns that fit, and a line that lists the others."""
    yield from table_lines(columns, width)
    shown = {column.name for column, _ in fit_columns(columns, width)}
    hidden = [
        column.name
        for column in columns
        if column.name not in shown and any(as_cell(cell).text for cell in column.cells)
    ]
    if hidden:
        yield from _wrap(f"no room for: {', '.join(hidden)} (use a wider terminal, a pipe or --json)", width)


def _wrap(text: str, width: int) -> Iterator[Text]:
    yield from map(Text, textwrap.wrap(text, width, subsequent_indent="  ", break_on_hyphens=False))


def _host_text(host: Host) -> str:
    parts = [
        host.processor or "",
        count_text(host.sockets, "socket") if host.sockets else "",
        f"CPUs {host.cpus}" if host.cpus else "",
        count_text(len(host.numa_nodes), "NUMA node") if host.numa_nodes else "NUMA nodes unknown",
        size_text(host.memory_bytes) if host.memory_bytes else "",
    ]
    return ", ".join(filter(None, parts))


def _cells(texts: Iterable[str]) -> list[Cell]:
    """Returns cells with a dash for unknown values (empty texts).

    If every value is unknown, all cells are empty, so that the table omits the column.
    """
    listed = list(texts)
    if not any(listed):
        return [Cell("") for _ in listed]
    return [Cell(text) if text else Cell("-", "dim") for text in listed]


def _gpu_columns(topology: Topology, gpus: Sequence[Gpu]) -> list[Column]:
    """Returns the columns. If not all fit the width, those of the lowest weight are dropped first, but never 0."""
    nics = pcie_nics(topology)
    return [
        Column("GPU", [Cell(gpu.label, "bold") for gpu in gpus], is_number=False),
        Column("name", _cells(gpu.name or "" for gpu in gpus), is_number=False),
        Column("bus id", _cells(gpu.bus_id or "" for gpu in gpus), is_number=False, weight=2),
        Column("memory", _cells(size_text(gpu.memory_bytes) if gpu.memory_bytes else "" for gpu in gpus), weight=1),
        Column("NVLink, each way", _cells(nvlink_text(gpu.nvlinks) for gpu in gpus), is_number=False, weight=7),
        Column("PCIe", _cells(pcie_text(gpu.pcie, idles_slower=True) for gpu in gpus), is_number=False, weight=5),
        Column("NUMA", _cells(gpu.numa_affinity or "" for gpu in gpus), is_number=False, weight=6),
        Column("CPUs", _cells(gpu.cpu_affinity or "" for gpu in gpus), is_number=False, weight=4),
        Column("MIG", _cells(mig_text(gpu) for gpu in gpus), is_number=False, weight=3),
        Column(
            "nearest NICs", _cells(_nearest_text(topology, gpu.label, nics) for gpu in gpus), is_number=False, weight=8
        ),
    ]


def _nic_columns(topology: Topology, nics: Sequence[Nic]) -> list[Column]:
    gpus = [gpu.label for gpu in topology.gpus or ()]
    state_cells = zip(_cells(state_text(nic) for nic in nics), nics, strict=True)
    return [
        Column("NIC", [Cell(nic.label, "bold") for nic in nics], is_number=False),
        Column("device", _cells(nic.name or "" for nic in nics), is_number=False),
        Column("kind", _cells(_kind_text(nic) for nic in nics), is_number=False, weight=6),
        Column(
            "state",
            [Cell(cell.text, "yellow" if is_down(nic) else cell.style) for cell, nic in state_cells],
            is_number=False,
            weight=7,
        ),
        Column("rate", _cells(rate_text(nic) for nic in nics), weight=8),
        Column("interface", _cells(_interfaces_text(nic) for nic in nics), is_number=False, weight=3),
        Column("bus id", _cells(nic.bus_id or "" for nic in nics), is_number=False, weight=1),
        Column("board", _cells(nic.board_id or "" for nic in nics), is_number=False, weight=1),
        Column("PCIe", _cells(pcie_text(nic.pcie, idles_slower=False) for nic in nics), is_number=False, weight=4),
        Column("NUMA", _cells("" if nic.numa_node is None else str(nic.numa_node) for nic in nics), weight=5),
        Column(
            "nearest GPUs", _cells(_nearest_text(topology, nic.label, gpus) for nic in nics), is_number=False, weight=9
        ),
    ]


def _kind_text(nic: Nic) -> str:
    return f"{nic.kind or ''}{' VF' if nic.is_virtual_function else ''}".strip()


def _interfaces_text(nic: Nic) -> str:
    """Lists the interfaces with another name than the device."""
    return ", ".join(name for name in nic.interfaces if name != nic.name)


def _nearest_text(topology: Topology, label: str, others: Sequence[str]) -> str:
    result = nearest(topology, label, others) if others else None
    if result is None:
        return ""
    level, labels = result
    return f"{labels_text(labels)} ({level})"


def _access_lines(topology: Topology) -> Iterator[str]:
    """Yields one line per distinct peer access, with its pairs of GPUs."""
    paths_by_access: dict[PeerAccess, list[DevicePath]] = {}
    for path in topology.paths:
        if path.peer_access and path.peer_access != PeerAccess():
            paths_by_access.setdefault(path.peer_access, []).append(path)
    for access, paths in paths_by_access.items():
        if len(paths_by_access) == 1:
            pairs_text = "all pairs of GPUs" if len(paths) > 1 else f"{paths[0].of} and {paths[0].to}"
        else:
            pairs_text = names_text([f"{path.of}-{path.to}" for path in paths], _MAX_PAIRS)
        yield f"peer access, {pairs_text}; {_access_text(access)}"


def _access_text(access: PeerAccess) -> str:
    statuses = {"read": access.read, "write": access.write, "atomics": access.atomics, "over NVLink": access.nvlink}
    return ", ".join(f"{label}: {status or 'unknown'}" for label, status in statuses.items())
