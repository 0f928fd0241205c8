"""Reads saved output of `nvidia-smi topo -m`, even if its tabs and colors were lost by copying.

Only the matrix is read. Other output in the same text, such as names of GPUs, may describe another machine.
A value is accepted only if its column is certain. Each row must have one cell per column, with X in the device's own
column, and the two cells of a pair must agree. An uncertain value stays unknown, with a note.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from busbw.errors import UsageError
from busbw.topology.sources.matrix_rows import AFFINITIES, MORE_CELLS, MatrixRow, is_row, parse_header, parse_row
from busbw.topology.types import LEVELS, DevicePath, Gpu, Nic, PcieLevel, Topology
from busbw.units import count_text, plain

_ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|(?<!\S)\[\d{1,2}(?:;\d{1,2})*m|\[0m")
"""Escape sequences of colors and underlines, even if copying removed their first character."""
_NIC_NAME = re.compile(r"\s*(NIC\d{1,4}):\s*(\S+)\s*", re.ASCII)
"""Line of the NIC legend below a matrix: NIC0: mlx5_0."""


@dataclass
class _Matrix:
    """One matrix of a text while it is read."""

    labels: list[str]
    affinities: list[str]
    """Columns after the devices, a subset of AFFINITIES."""
    rows: dict[str, MatrixRow] = field(default_factory=dict)
    nic_names: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    reject_reason: str = ""
    """Reason why the columns of all cells are uncertain; empty if they are certain."""

    def reject(self, reason: str) -> None:
        """Sets the reason to reject the matrix, unless there is an earlier reason."""
        self.reject_reason = self.reject_reason or reason

    @property
    def has_rows(self) -> bool:
        """True if a row followed the header, readable or not."""
        return bool(self.rows or self.notes or self.reject_reason)


def read(text: str, source: str) -> list[Topology]:
    """Returns every matrix of a text, one per call of nvidia-smi.

    Raises:
        UsageError: The text has no readable matrix.
    """
    lines = [_ESCAPE.sub("", line) for line in text.splitlines()]
    candidates = list(_find_matrices(lines))
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
    return [_topology(matrix, source) for matrix in matrices]


def _find_matrices(lines: Sequence[str]) -> Iterator[_Matrix]:
    """Yields each header that is followed by a row, readable or not, with its rows."""
    current: _Matrix | None = None
    is_in_rows = False  # true from the header to the first line that is neither a row nor blank
    for line in lines:
        words = line.split()
        header = parse_header(words)
        if header:
            if current and current.has_rows:
                yield current
            current, is_in_rows = _Matrix(*header), True
        elif current and is_in_rows and words:
            is_in_rows = words[0] in current.labels or is_row(words)
            if is_in_rows:
                _add_row(current, words)
        elif current and current.rows and (match := _NIC_NAME.fullmatch(line)) and match[1] in current.labels:
            current.nic_names.setdefault(match[1], plain(match[2]))
    if current and current.has_rows:
        yield current


def _add_row(matrix: _Matrix, words: list[str]) -> None:
    """Parses a row. A row that cannot be read becomes a note or the reason to reject the matrix."""
    label = words[0]
    if label not in matrix.labels:
        matrix.reject(f"the header lacks {label}, which has a row")
        return
    if label in matrix.rows:
        matrix.notes.append(f"{label} has two rows; the first one is used")
        return
    row = parse_row(words, matrix.labels, matrix.affinities)
    if isinstance(row, str):
        matrix.notes.append(f"the row of {label} is left out: {row}")
        if row == MORE_CELLS:
            matrix.reject(f"the row of {label} has more cells than there are devices in the header")
        return
    matrix.rows[label] = row
    if row.unreadable_reason:
        matrix.notes.append(f"{label}: {row.unreadable_reason}")


def _topology(matrix: _Matrix, source: str) -> Topology:
    notes = list(matrix.notes)
    gpus = tuple(_gpu(label, matrix.rows.get(label)) for label in matrix.labels if label.startswith("GPU"))
    # The legend names NIC0. Another label, such as mlx5_0, is the name itself.
    nics = tuple(
        Nic(label=label, name=matrix.nic_names.get(label, None if label.startswith("NIC") else label))
        for label in matrix.labels
        if not label.startswith("GPU")
    )
    paths = []
    for first, second in combinations(matrix.labels, 2):
        forward, backward = _cell(matrix, first, second), _cell(matrix, second, first)
        if forward and backward and forward != backward:
            notes.append(f"{first} and {second} are joined by {forward} in one row and by {backward} in the other")
            forward = backward = None
        connection = forward or backward
        paths.append(DevicePath(of=first, to=second, connection=connection, pcie=_pcie_level(connection)))
    missing = [label for label in matrix.labels if label not in matrix.rows]
    if missing:
        notes.append(f"{count_text(len(missing), 'row')} missing: {', '.join(missing)}")
    return Topology(
        source=source, gpus=gpus, nics=nics or None, paths=tuple(paths), notes=(*notes, _unknown_note(nics))
    )


def _unknown_note(nics: Sequence[Nic]) -> str:
    """Returns a note about what a matrix does not state, so that a missing value is not read as "none"."""
    nics_text = "rates and states of NICs" if nics else "NICs"
    return (
        "not known from the matrix: names, bus ids, memory, PCIe links and MIG of GPUs, "
        f"{nics_text}, the driver, the host"
    )


def _cell(matrix: _Matrix, row_label: str, column_label: str) -> str | None:
    row = matrix.rows.get(row_label)
    return row.connections.get(column_label) if row else None


def _pcie_level(connection: str | None) -> PcieLevel | None:
    """Returns the connection if it is a PCIe level. None for NVLink and for an unknown connection."""
    return next((level for level in LEVELS if level == connection), None)


def _gpu(label: str, row: MatrixRow | None) -> Gpu:
    affinities = row.affinities if row else {}
    cpus, numa_nodes, gpu_numa_id = map(affinities.get, AFFINITIES)
    return Gpu(
        label=label,
        cpu_affinity=cpus,
        numa_affinity=numa_nodes,
        gpu_numa_id=int(gpu_numa_id) if gpu_numa_id else None,
    )
