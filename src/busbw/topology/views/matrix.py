"""Formats the matrix of connections, as `nvidia-smi topo -m` does. A wide matrix is split into blocks of columns."""

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
"""Meaning of each word of the matrix, in nvidia-smi's wording and order."""

_UNKNOWN = "?"
_GAP = 2
"""Blanks between two columns."""


def _cell(row_label: str, column_label: str, connections: Mapping[tuple[str, str], str | None]) -> str:
    """Returns the cell in the row of one device and the column of another."""
    if row_label == column_label:
        return "X"
    connection = connections.get((row_label, column_label)) or connections.get((column_label, row_label))
    return connection or _UNKNOWN


def matrix_lines(topology: Topology, width: int) -> Iterator[Text]:
    """Yields the lines of the matrix and of the legend."""
    labels = topology.labels
    connections = {(path.of, path.to): path.connection for path in topology.paths}
    rows = {label: [_cell(label, other, connections) for other in labels] for label in labels}
    label_width = max(map(cell_len, labels))
    widths = [
        max(cell_len(label), *(cell_len(cells[column]) for cells in rows.values()))
        for column, label in enumerate(labels)
    ]
    for number, block in enumerate(_blocks(widths, width - label_width)):
        if number:
            yield Text()
        yield _line("", [(labels[column], widths[column], "dim") for column in block], label_width)
        for label, cells in rows.items():
            styled_cells = [(cells[column], widths[column], _style(cells[column])) for column in block]
            yield _line(label, styled_cells, label_width)
    has_unknown = any(cell == _UNKNOWN for cells in rows.values() for cell in cells)
    yield from _legend({**LEGEND, _UNKNOWN: "unknown"} if has_unknown else LEGEND, width)


def _legend(meanings: Mapping[str, str], width: int) -> Iterator[Text]:
    yield from (Text(), Text("Legend:"), Text())
    for word, meaning in meanings.items():
        yield from map(Text, textwrap.wrap(f"  {word:<4} = {meaning}", width, subsequent_indent=" " * 9))


def _blocks(widths: Sequence[int], width: int) -> Iterator[list[int]]:
    """Yields the columns of each block. A block fits the width or has a single column."""
    block: list[int] = []
    used_width = 0
    for column, column_width in enumerate(widths):
        if block and used_width + _GAP + column_width > width:
            yield block
            block, used_width = [], 0
        block.append(column)
        used_width += _GAP + column_width
    if block:
        yield block


def _line(label: str, cells: Sequence[tuple[str, int, str]], label_width: int) -> Text:
    """Returns a line from the text, width and style of each cell."""
    line = Text(label.ljust(label_width), style="")
    for text, column_width, style in cells:
        line.append(" " * _GAP)
        line.append(text.ljust(column_width), style=style)
    line.rstrip()
    return line


def _style(text: str) -> str:
    if text.startswith("NV"):
        return "green"
    return {"PIX": "cyan", "PXB": "cyan", "X": "dim", _UNKNOWN: "yellow"}.get(text, "")
