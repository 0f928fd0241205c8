"""Matrix of the connections, as in `nvidia-smi topo -m`. A wide matrix is split into blocks of columns."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from rich.cells import cell_len
from rich.text import Text

from busbw.topology.types import Topology

LEGEND = {
    "X": "Self",
    "SYS": "Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)",
    "NODE": "Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node",
    "PHB": "Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)",
    "PXB": "Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)",
    "PIX": "Connection traversing at most a single PCIe bridge",
    "NV#": "Connection traversing a bonded set of # NVLinks",
}
"""Meaning of each word, in the text and order of nvidia-smi."""

_UNKNOWN = "?"
_GAP = 2


def cell(one: str, other: str, known: dict[tuple[str, str], str | None]) -> str:
    """Returns the cell in the row of one device and the column of another."""
    return "X" if one == other else known.get((one, other)) or known.get((other, one)) or _UNKNOWN


def matrix_lines(topology: Topology, width: int) -> Iterator[Text]:
    """Yields the lines of the matrix and of the legend."""
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
    is_known = all(text != _UNKNOWN for row in rows.values() for text in row)
    yield from _legend(LEGEND if is_known else {**LEGEND, _UNKNOWN: "unknown"}, width)


def _legend(meanings: Mapping[str, str], width: int) -> Iterator[Text]:
    yield from (Text(), Text("Legend:"), Text())
    for word, meaning in meanings.items():
        yield from map(Text, textwrap.wrap(f"  {word:<4} = {meaning}", width, subsequent_indent=" " * 9))


def _blocks(sizes: Sequence[int], width: int) -> Iterator[list[int]]:
    """Yields blocks of columns that fit the width, with at least one column each."""
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
