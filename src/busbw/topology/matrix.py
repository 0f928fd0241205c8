"""The matrix of what joins each pair, as `nvidia-smi topo -m` has it; a wide one comes in blocks of columns."""

import textwrap
from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

from busbw.topology.types import Topology

LEGEND = {
    "X": "the device itself",
    "SYS": "PCIe, and the link between NUMA nodes (UPI, Infinity Fabric)",
    "NODE": "PCIe, and the link between host bridges of one NUMA node",
    "PHB": "PCIe, and a host bridge (the CPU)",
    "PXB": "several PCIe bridges, no host bridge",
    "PIX": "one PCIe bridge at most",
    "NV#": "# NVLinks, straight or through switches",
    "?": "not known",
}
"""What each word means; the words are those of nvidia-smi."""

_UNKNOWN = "?"
_GAP = 2


def cell(one: str, other: str, known: dict[tuple[str, str], str | None]) -> str:
    """What stands where the row of one device meets the column of another one."""
    return "X" if one == other else known.get((one, other)) or known.get((other, one)) or _UNKNOWN


def matrix_lines(topology: Topology, width: int) -> Iterator[Text]:
    """The matrix and the legend of the words in it."""
    labels = topology.labels
    known = {(path.of, path.to): path.connection for path in topology.paths}
    rows = {one: [cell(one, other, known) for other in labels] for one in labels}
    first = max(map(cell_len, labels))
    sizes = [
        max(cell_len(label), *(cell_len(rows[one][column]) for one in labels)) for column, label in enumerate(labels)
    ]
    for number, block in enumerate(_blocks(sizes, width - first)):
        if number:
            yield Text()
        yield _line("", [(labels[column], sizes[column], "dim") for column in block], first)
        for label in labels:
            yield _line(
                label, [(rows[label][column], sizes[column], _style(rows[label][column])) for column in block], first
            )
    yield Text()
    used = {"NV#" if text.startswith("NV") else text for row in rows.values() for text in row}
    for word, meaning in LEGEND.items():
        if word in used:
            indent = " " * 7
            yield from map(Text, textwrap.wrap(f"{word:<4} = {meaning}", width, subsequent_indent=indent))


def _blocks(sizes: Sequence[int], width: int) -> Iterator[list[int]]:
    """Columns that fit beside each other; one at least in each block."""
    block: list[int] = []
    used = 0
    for column, size in enumerate(sizes):
        if block and used + _GAP + size > width:
            yield block
            block, used = [], 0
        block.append(column)
        used += _GAP + size
    if block:
        yield block


def _line(label: str, cells: Sequence[tuple[str, int, str]], first: int) -> Text:
    line = Text(label.ljust(first), style="")
    for text, size, style in cells:
        line.append(" " * _GAP)
        line.append(text.ljust(size), style=style)
    line.rstrip()
    return line


def _style(text: str) -> str:
    if text.startswith("NV"):
        return "green"
    return {"PIX": "cyan", "PXB": "cyan", "X": "dim", _UNKNOWN: "yellow"}.get(text, "")
