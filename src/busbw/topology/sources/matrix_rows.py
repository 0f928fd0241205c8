"""Parses the header and the rows of a saved `nvidia-smi topo -m`, split into words.

A row has the label of a device, one cell per device of the header, and up to three affinities: the nearest CPUs, the
nearest NUMA nodes, and the NUMA node of the GPU's memory.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import dropwhile, takewhile

from busbw.topology.cpu_ranges import parse_ranges

AFFINITIES = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
"""Columns after those of the devices. Older versions of nvidia-smi have fewer of them."""

MORE_CELLS = "it has more cells than there are devices in the header"
"""Reason to reject a row. The header then lacks a device, so the columns of all rows are uncertain."""

_GPU = re.compile(r"GPU(?:0|[1-9]\d{0,3})", re.ASCII)
_NIC = re.compile(r"NIC\d{1,4}|[a-z][a-z0-9_.-]{0,30}", re.ASCII)
_CELL = re.compile(r"NV[1-9]\d{0,2}|PIX|PXB|PHB|NODE|SYS|SOC", re.ASCII)
_UNKNOWN_CELL = re.compile(r"N/A|ERR!|OK|UNK|\?|-{1,3}")
"""Cell without a connection, such as an error. The connection stays unknown."""
_MAX_DEVICES = 256


@dataclass(frozen=True)
class MatrixRow:
    """Known connections and affinities of one row. Unknown ones are left out."""

    connections: dict[str, str]
    """Connections by the label of the other device."""
    affinities: dict[str, str]
    """Values by the names in AFFINITIES."""
    unreadable_reason: str = ""
    """Reason why the affinities cannot be read; empty if they can."""


def parse_header(words: Sequence[str]) -> tuple[list[str], list[str]] | None:
    """Returns the labels of the devices, and the affinity columns after these. None if the words are not a header."""
    if not words or not _GPU.fullmatch(words[0]):
        return None
    device_text, separator, affinity_text = " ".join(words).partition(" CPU Affinity")
    devices = device_text.split()
    if len(devices) > _MAX_DEVICES or len(set(devices)) != len(devices):
        return None
    nics = list(dropwhile(_GPU.fullmatch, devices))
    if not all(_NIC.fullmatch(label) for label in nics):
        return None
    unread = (separator + affinity_text).strip()
    affinities = []
    for name in AFFINITIES:
        if unread.startswith(name):
            affinities.append(name)
            unread = unread[len(name) :].strip()
    return None if unread else (devices, affinities)


def is_row(words: Sequence[str]) -> bool:
    """True if the words look like a row of any device: a name with a number, and cells with exactly one X."""
    if not words:
        return False
    is_device_name = _GPU.fullmatch(words[0]) or _NIC.fullmatch(words[0])
    if not is_device_name or not re.search(r"\d", words[0]):
        return False
    cells = list(takewhile(lambda word: word == "X" or _CELL.fullmatch(word), words[1:]))
    return len(cells) > 1 and cells.count("X") == 1


def parse_row(words: Sequence[str], labels: Sequence[str], affinity_names: Sequence[str]) -> MatrixRow | str:
    """Parses a row. Its device `words[0]` must be one of the labels. Returns a reason if the row cannot be read."""
    own_label, cells, affinities = words[0], words[1 : len(labels) + 1], words[len(labels) + 1 :]
    if reason := _cell_problem(own_label, cells, labels):
        return reason
    if len(affinities) > len(affinity_names) or any(_CELL.fullmatch(word) for word in affinities):
        return MORE_CELLS
    if _has_nvlink_to_nic(own_label, cells, labels):
        return "it has NVLinks to a device that is not a GPU"
    connections = {
        label: "SYS" if cell == "SOC" else cell  # old versions of nvidia-smi wrote SOC for SYS
        for label, cell in zip(labels, cells, strict=True)
        if _CELL.fullmatch(cell)
    }
    if not affinities and not own_label.startswith("GPU"):  # the row of a NIC may have no affinities
        return MatrixRow(connections, {})
    if len(affinities) != len(affinity_names):
        return MatrixRow(connections, {}, f"{len(affinities)} values for {len(affinity_names)} columns of affinity")
    known = {name: value for name, value in zip(affinity_names, affinities, strict=True) if value != "N/A"}
    for name, value in known.items():
        is_valid = re.fullmatch(r"\d{1,6}", value, re.ASCII) if name == "GPU NUMA ID" else parse_ranges(value)
        if not is_valid:
            return MatrixRow(connections, {}, f'"{value[:20]}" is not a {name}')
    return MatrixRow(connections, known)


def _cell_problem(own_label: str, cells: Sequence[str], labels: Sequence[str]) -> str:
    """Returns the reason why the cells do not fit the devices of the header. Empty if they fit."""
    if len(cells) < len(labels):
        return f"{len(cells)} cells for {len(labels)} devices"
    if cells[labels.index(own_label)] != "X" or cells.count("X") != 1:
        return "the X is not in the device's own column"
    for cell in cells:
        if cell != "X" and not _CELL.fullmatch(cell) and not _UNKNOWN_CELL.fullmatch(cell):
            return f'"{cell[:20]}" is not a connection of two devices'
    return ""


def _has_nvlink_to_nic(own_label: str, cells: Sequence[str], labels: Sequence[str]) -> bool:
    nvlink_labels = [label for label, cell in zip(labels, cells, strict=True) if cell.startswith("NV")]
    return bool(nvlink_labels) and not all(_GPU.fullmatch(label) for label in (own_label, *nvlink_labels))
