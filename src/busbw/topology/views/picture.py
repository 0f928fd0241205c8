"""Draws a topology as one self-contained SVG file: NUMA nodes, PCIe switches, GPUs, NICs, NVLink."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import pairwise

from markupsafe import Markup

from busbw.svg import drawing, element, group
from busbw.topology.types import Gpu, Nic, Topology
from busbw.topology.views.arrangement import NumaGroup, SwitchIsland, arrange
from busbw.topology.views.captions import captions, description
from busbw.topology.views.device_text import is_down, rate_text
from busbw.topology.views.nvlink_picture import height_of, nvlinks

_CELL, _GPU_HEIGHT, _NIC_HEIGHT, _GAP = 46.0, 28.0, 32.0, 4.0
_INSET, _BETWEEN, _TITLE = 6.0, 8.0, 26.0
_MIN_WIDTH = 460.0
"""Width of the pictures in a report. A phone shows it without scrolling."""
_LETTER = 5.9
"""Average character width in captions. The exact width depends on the browser."""
_MAX_OTHERS_PER_ROW = 4


@dataclass(frozen=True)
class _Box:
    """Position and size of a drawn object."""

    x: float
    y: float
    width: float
    height: float


def document(topology: Topology) -> str:
    """Returns the text of the SVG file."""
    nodes = arrange(topology)
    top = height_of(topology) + 2
    boxes = _boxes(nodes, top)
    width = max(_MIN_WIDTH, boxes[-1].x + boxes[-1].width + 2 if boxes else 0.0)
    shift = (width - (boxes[-1].x + boxes[-1].width + 2)) / 2 if boxes else 0.0
    boxes = [_Box(box.x + shift, box.y, box.width, box.height) for box in boxes]
    parts, centers = [], {}
    for node, box in zip(nodes, boxes, strict=True):
        drawn, found = _node(node, box)
        parts.append(drawn)
        centers.update(found)
    parts += [
        element("path", d=f"M{left.x + left.width:.1f} {left.y + left.height - 13:.1f}H{right.x:.1f}", class_="between")
        for left, right in pairwise(boxes)
    ]
    parts.append(nvlinks(topology, centers, width))
    y = max((box.y + box.height for box in boxes), default=0.0) + 20
    for caption in captions(topology):
        for line in textwrap.wrap(caption, int((width - 8) / _LETTER)):
            parts.append(element("text", line, x=4, y=y, class_="caption"))
            y += 15
    words = description(topology)
    style = Markup((resources.files("busbw.topology.views") / "picture.css").read_text(encoding="utf-8"))
    svg = drawing(
        element("title", words),
        element("style", style),
        element("rect", x=0, y=0, width=width, height=y, class_="paper"),
        *parts,
        label=words,
        width=width,
        height=y,
        xmlns="http://www.w3.org/2000/svg",
        preserveAspectRatio="xMidYMin meet",
        style=f"max-width: {2 * width:g}px",
    )
    return f"{svg}\n"


def _boxes(nodes: Sequence[NumaGroup], top: float) -> list[_Box]:
    height = max((_height(node) for node in nodes), default=0.0)
    found: list[_Box] = []
    for node in nodes:
        x = found[-1].x + found[-1].width + 12 if found else 2.0
        found.append(_Box(x, top, _width(node), height))
    return found


def _columns(island: SwitchIsland) -> int:
    return max(1, len(island.gpus))


def _island_width(island: SwitchIsland) -> float:
    return _columns(island) * (_CELL + _GAP) - _GAP + 2 * 3


def _width(node: NumaGroup) -> float:
    islands = sum(map(_island_width, node.islands)) + _GAP * (len(node.islands) - 1)
    others = min(len(node.others), _MAX_OTHERS_PER_ROW) * (_CELL + _GAP) - _GAP
    return max(islands, others, 100.0) + 2 * _INSET


def _others_per_row(node: NumaGroup) -> int:
    return max(1, int((_width(node) - 2 * _INSET + _GAP) / (_CELL + _GAP)))


def _island_height(island: SwitchIsland) -> float:
    return _GPU_HEIGHT + -(-len(island.nics) // _columns(island)) * (_NIC_HEIGHT + _GAP) + 2 * 3


def _height(node: NumaGroup) -> float:
    islands = max(map(_island_height, node.islands), default=0.0)
    rows = -(-len(node.others) // _others_per_row(node))
    return _INSET + islands + (_BETWEEN if rows and islands else 0) + rows * (_NIC_HEIGHT + _GAP) + _TITLE


def _node(node: NumaGroup, box: _Box) -> tuple[Markup, dict[str, tuple[float, float]]]:
    """Draws the box of a NUMA node. Returns it with the center of each GPU's upper edge."""
    title = "NUMA node unknown" if node.index is None else f"NUMA node {node.index}"
    kind = "node supposed" if node.index is None else "node"
    parts = [
        element("rect", x=box.x, y=box.y, width=box.width, height=box.height, rx=8, class_=kind),
        element("text", _cut(title, box.width), x=box.x + _INSET + 2, y=box.y + box.height - 9, class_="label"),
    ]
    if node.cpus:
        parts.insert(0, element("title", f"{title}: CPUs {node.cpus}"))
    centers = {}
    x, y = box.x + _INSET, box.y + _INSET
    for island in node.islands:
        drawn, found = _island(island, x, y)
        parts.append(drawn)
        centers.update(found)
        x += _island_width(island) + _GAP
    islands = max(map(_island_height, node.islands), default=0.0)
    y += islands + (_BETWEEN if islands else 0)
    each = _others_per_row(node)
    for number, nic in enumerate(node.others):
        left = box.x + _INSET + (number % each) * (_CELL + _GAP)
        parts.append(_nic(nic, left, y + (number // each) * (_NIC_HEIGHT + _GAP)))
    return group(*parts), centers


def _island(island: SwitchIsland, x: float, y: float) -> tuple[Markup, dict[str, tuple[float, float]]]:
    columns = _columns(island)
    parts, centers = [], {}
    if len(island.gpus) + len(island.nics) > 1:
        size = {"width": _island_width(island), "height": _island_height(island)}
        parts.append(element("rect", x=x, y=y, rx=5, class_="switch", **size))
    for number, gpu in enumerate(island.gpus):
        left = x + 3 + number * (_CELL + _GAP)
        parts.append(_gpu(gpu, left, y + 3))
        centers[gpu.label] = (left + _CELL / 2, y + 3)
    for number, nic in enumerate(island.nics):
        left = x + 3 + (number % columns) * (_CELL + _GAP)
        parts.append(_nic(nic, left, y + 3 + _GPU_HEIGHT + _GAP + (number // columns) * (_NIC_HEIGHT + _GAP)))
    return group(*parts), centers


def _gpu(gpu: Gpu, x: float, y: float) -> Markup:
    words = ", ".join(filter(None, [gpu.label, gpu.name, gpu.bus_id]))
    return group(
        element("title", words),
        element("rect", x=x, y=y, width=_CELL, height=_GPU_HEIGHT, rx=4, class_="device"),
        element("text", gpu.label, x=x + _CELL / 2, y=y + 18, class_="cell mid"),
    )


def _nic(nic: Nic, x: float, y: float) -> Markup:
    rate = rate_text(nic)
    words = ", ".join(filter(None, [nic.label, nic.name, nic.kind, rate, "down" if is_down(nic) else ""]))
    short = rate.replace(" Gb/s", "G").replace(" x ", "\N{MULTIPLICATION SIGN}")
    return group(
        element("title", words),
        element(
            "rect", x=x, y=y, width=_CELL, height=_NIC_HEIGHT, rx=4, class_=f"nic{' down' if is_down(nic) else ''}"
        ),
        element("text", _cut(nic.label, _CELL + 6), x=x + _CELL / 2, y=y + (14 if short else 20), class_="cell mid"),
        *([element("text", _cut(short, _CELL + 6), x=x + _CELL / 2, y=y + 26, class_="small mid")] if short else []),
    )


def _cut(text: str, width: float) -> str:
    most = int(width / 7.0)
    return text if len(text) <= most else f"{text[: most - 1]}\N{HORIZONTAL ELLIPSIS}"
