"""Parses the header and the rows of a saved `nvidia-smi topo -m`, split into words."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from busbw.topology.cpu_ranges import parse_ranges

AFFINITIES = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
"""Columns after those of the devices. Older versions of nvidia-smi have fewer of them."""

MORE_CELLS = "it has more cells than there are devices in the header"
"""Reason of a row that shows that the header lacks a device, so that the columns of all rows are uncertain."""

_GPU = re.compile(r"GPU(?:0|[1-9]\d{0,3})", re.ASCII)
_NIC = re.compile(r"NIC\d{1,4}|[a-z][a-z0-9_.-]{0,30}", re.ASCII)
_CELL = re.compile(r"NV[1-9]\d{0,2}|PIX|PXB|PHB|NODE|SYS|SOC", re.ASCII)
_OTHER_CELL = re.compile(r"N/A|ERR!|OK|UNK|\?|-{1,3}")
"""Cell for an unknown connection."""
_MAX_DEVICES = 256


@dataclass(frozen=True)
class MatrixRow:
    """Reliable content of one row."""

    connections: dict[str, str]
    """Connections by the label of the other device."""
    affinities: dict[str, str]
    unreadable_reason: str = ""
    """Reason if the affinities cannot be read; empty otherwise."""


def columns_of(words: Sequence[str]) -> tuple[list[str], list[str]] | None:
    """Returns the devices and the columns after them; None if the words are not a header."""
    if not words or not _GPU.fullmatch(words[0]):
        return None
    text = " ".join(words)
    start = text.find(" CPU Affinity")
    devices = (text if start < 0 else text[:start]).split()
    if len(devices) > _MAX_DEVICES or len(set(devices)) != len(devices):
        return None
    gpus = next((number for number, word in enumerate(devices) if not _GPU.fullmatch(word)), len(devices))
    if not all(_NIC.fullmatch(word) for word in devices[gpus:]):
        return None
    rest = "" if start < 0 else text[start:].strip()
    after = []
    for name in AFFINITIES:
        if rest.startswith(name):
            after.append(name)
            rest = rest[len(name) :].strip()
    return None if rest else (devices, after)


def is_row(words: Sequence[str]) -> bool:
    """True if the words look like a row of any device: a name with a number, and cells with exactly one X."""
    if not words or not re.search(r"\d", words[0]) or not (_GPU.fullmatch(words[0]) or _NIC.fullmatch(words[0])):
        return False
    cells = list(takewhile(lambda word: word == "X" or _CELL.fullmatch(word), words[1:]))
    return len(cells) > 1 and cells.count("X") == 1


def row_of(words: Sequence[str], labels: Sequence[str], affinities: Sequence[str]) -> MatrixRow | str:
    """Parses a row, with one of the labels as first word. Returns the reason if it cannot be read."""
    cells, after = words[1 : len(labels) + 1], words[len(labels) + 1 :]
    if len(cells) < len(labels):
        return f"{len(cells)} cells for {len(labels)} devices"
    own = labels.index(words[0])
    if cells[own] != "X" or cells.count("X") != 1:
        return "the X is not in the device's own column"
    invalid = [cell for cell in cells if cell != "X" and not _CELL.fullmatch(cell) and not _OTHER_CELL.fullmatch(cell)]
    if invalid:
        return f'"{invalid[0][:20]}" is not a connection of two devices'
    if len(after) > len(affinities) or any(_CELL.fullmatch(word) for word in after):
        return MORE_CELLS
    if any(
        cell.startswith("NV") and not (_GPU.fullmatch(words[0]) and _GPU.fullmatch(label))
        for label, cell in zip(labels, cells, strict=True)
    ):
        return "it has NVLinks to a device that is not a GPU"
    connections = {
        label: "SYS" if cell == "SOC" else cell  # old versions of nvidia-smi wrote SOC for SYS
        for label, cell in zip(labels, cells, strict=True)
        if _CELL.fullmatch(cell)
    }
    if not after and not words[0].startswith("GPU"):
        return MatrixRow(connections, {})
    if len(after) != len(affinities):
        return MatrixRow(connections, {}, f"{len(after)} values for {len(affinities)} columns of affinity")
    known = {}
    for name, value in zip(affinities, after, strict=True):
        if value == "N/A":
            continue
        is_right = bool(re.fullmatch(r"\d{1,6}", value, re.ASCII)) if name == "GPU NUMA ID" else parse_ranges(value)
        if not is_right:
            return MatrixRow(connections, {}, f'"{value[:20]}" is not a {name}')
        known[name] = value
    return MatrixRow(connections, known)
