"""Reads output of `nvidia-smi topo -m`, even from a document that lost its tabs and colors.

A value is accepted only if its position is certain. Each row must have one cell per column, with X in the device's own
column, and the two cells of a pair must agree. An uncertain value stays unknown, with a note.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from busbw.errors import UsageError
from busbw.topology.sources.matrix_rows import AFFINITIES, MORE_CELLS, MatrixRow, columns_of, is_row, row_of
from busbw.topology.sources.saved_details import SavedDetails, details, index_of, with_details
from busbw.topology.types import DevicePath, Driver, Gpu, Nic, PcieLevel, Topology
from busbw.units import count_text, plain

_ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|(?<!\S)\[\d{1,2}(?:;\d{1,2})*m|\[0m")
"""Escape sequences of colors and underlines, even if copying removed their first character."""
_NAMED = re.compile(r"\s*(NIC\d{1,4}):\s*(\S+)\s*", re.ASCII)


@dataclass
class _Matrix:
    """One matrix of a text while it is read."""

    labels: list[str]
    affinities: list[str]
    """Columns after the devices, a subset of AFFINITIES."""
    rows: dict[str, MatrixRow] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    has_layout: bool = False
    """True if tabs or several spaces separate the columns."""
    reject_reason: str = ""
    """Reason if the columns of all cells are uncertain; empty otherwise."""


def read(text: str, source: str) -> list[Topology]:
    """Returns every matrix of a text, one per call of nvidia-smi.

    Raises:
        UsageError: The text has no readable matrix.
    """
    lines = [_ESCAPE.sub("", line) for line in text.splitlines()]
    candidates = list(_matrices(lines))
    matrices = [matrix for matrix in candidates if matrix.rows and not matrix.reject_reason]
    if candidates and not matrices:
        reason = candidates[0].reject_reason or candidates[0].notes[0]
        raise UsageError(
            f"the matrix in {source} cannot be read: {reason}",
            remedy="save it again with nvidia-smi topo -m > topo.txt",
        )
    if not matrices:
        raise UsageError(
            f"{source} has no matrix of `nvidia-smi topo -m`", remedy="save one with nvidia-smi topo -m > topo.txt"
        )
    found = [_topology(matrix, source) for matrix in matrices]
    if len(found) > 1:
        source_text = f"the text, because details outside its {len(found)} matrices may describe any of them"
        return [_with_unknown_note(topology, SavedDetails(), source_text) for topology in found]
    known = details(lines)
    return [_with_unknown_note(with_details(found[0], known), known, "the text")]


def _matrices(lines: Sequence[str]) -> Iterator[_Matrix]:
    current: _Matrix | None = None
    in_rows = False
    for line in lines:
        words = line.split()
        header = columns_of(words)
        if header:
            if current and (current.rows or current.notes or current.reject_reason):
                yield current
            current, in_rows = _Matrix(*header, has_layout=_has_layout(line)), True
        elif current and in_rows and words:
            in_rows = words[0] in current.labels or is_row(words)
            if in_rows:
                current.has_layout = current.has_layout or _has_layout(line)
                _take(current, words)
        elif current and current.rows and (named := _NAMED.fullmatch(line)) and named[1] in current.labels:
            current.names.setdefault(named[1], plain(named[2]))
    if current and (current.rows or current.notes or current.reject_reason):
        yield current


def _has_layout(line: str) -> bool:
    return bool(re.search(r"\t|  ", line.strip()))


def _take(matrix: _Matrix, words: list[str]) -> None:
    label = words[0]
    if label not in matrix.labels:
        matrix.reject_reason = matrix.reject_reason or f"the header lacks {label}, which has a row"
        return
    if label in matrix.rows:
        matrix.notes.append(f"{label} has two rows; the first one is used")
        return
    row = row_of(words, matrix.labels, matrix.affinities)
    if isinstance(row, str):
        matrix.notes.append(f"the row of {label} is left out: {row}")
        if row == MORE_CELLS:
            matrix.reject_reason = (
                matrix.reject_reason or f"the row of {label} has more cells than there are devices in the header"
            )
        return
    matrix.rows[label] = row
    if row.unreadable_reason:
        matrix.notes.append(f"{label}: {row.unreadable_reason}")


def _topology(matrix: _Matrix, source: str) -> Topology:
    notes = list(matrix.notes)
    gpus = tuple(_gpu(label, matrix.rows.get(label)) for label in matrix.labels if label.startswith("GPU"))
    nics = tuple(
        Nic(label=label, name=matrix.names.get(label, None if label.startswith("NIC") else label))
        for label in matrix.labels
        if not label.startswith("GPU")
    )
    paths = []
    for place, one in enumerate(matrix.labels):
        for other in matrix.labels[place + 1 :]:
            forward, backward = _cell(matrix, one, other), _cell(matrix, other, one)
            if forward and backward and forward != backward:
                notes.append(f"{one} and {other} are joined by {forward} in one row and by {backward} in the other")
                forward = backward = None
            connection = forward or backward
            paths.append(DevicePath(of=one, to=other, connection=connection, pcie=_level(connection)))
    missing = [label for label in matrix.labels if label not in matrix.rows]
    if missing:
        notes.append(f"{count_text(len(missing), 'row')} missing: {', '.join(missing)}")
    if not matrix.has_layout and paths:
        read = f"{sum(path.connection is not None for path in paths)} of {count_text(len(paths), 'connection')}"
        notes.append(f"the matrix lost its layout: its cells are identified by their order; {read} could be read")
    return Topology(source=source, gpus=gpus, nics=nics or None, paths=tuple(paths), notes=tuple(notes))


def _with_unknown_note(topology: Topology, known: SavedDetails, source_text: str) -> Topology:
    """Adds a note that lists the unknown properties, so that a missing value is not read as "none"."""
    gpus, host, driver = topology.gpus or (), topology.host, topology.driver or Driver()
    unknown_properties = {
        "names of GPUs": any(gpu.name is None for gpu in gpus),
        "bus ids of GPUs": any(gpu.bus_id is None for gpu in gpus),
        "memory of GPUs": any(gpu.memory_bytes is None for gpu in gpus),
        "NVLinks of each GPU": any(gpu.nvlinks is None for gpu in gpus)
        and any((path.connection or "").startswith("NV") for path in topology.paths),
        "PCIe links": any(gpu.pcie is None for gpu in gpus),
        "NICs": topology.nics is None,
        "rates and states of NICs": topology.nics is not None,
        "MIG": any(len(known.mig.get(index_of(gpu), ())) != 1 for gpu in gpus),
        "driver version": driver.version is None,
        "CUDA version": driver.cuda_version is None,
        "the host": host is None,
        "the host's name": host is not None and host.name is None,
        "the host's processor": host is not None and host.processor is None,
        "the host's NUMA nodes and memory": host is not None,
    }
    unknown = ", ".join(name for name, is_open in unknown_properties.items() if is_open)
    return replace(topology, notes=(*topology.notes, f"not known from {source_text}: {unknown}"))


def _cell(matrix: _Matrix, one: str, other: str) -> str | None:
    row = matrix.rows.get(one)
    return row.connections.get(other) if row else None


def _level(connection: str | None) -> PcieLevel | None:
    levels: dict[str | None, PcieLevel] = {"PIX": "PIX", "PXB": "PXB", "PHB": "PHB", "NODE": "NODE", "SYS": "SYS"}
    return levels.get(connection)


def _gpu(label: str, row: MatrixRow | None) -> Gpu:
    gpu = Gpu(label=label)
    if row is None:
        return gpu
    cpus, nodes, own = (row.affinities.get(name) for name in AFFINITIES)
    return replace(gpu, cpu_affinity=cpus, numa_affinity=nodes, gpu_numa_id=int(own) if own else None)
