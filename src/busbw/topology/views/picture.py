"""Draws a topology as one self-contained SVG file: NUMA nodes, PCIe switches, GPUs, NICs, NVLink.

Each NUMA node is a box with islands side by side. An island is the devices below the same PCIe switches
(arrangement.py): a row of GPUs above rows of NICs. NICs that share no switch with a GPU are below the islands. Lengths
are in SVG user units; y grows downwards.
"""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import pairwise

from markupsafe import Markup

from busbw.svg import cut_end, drawing, element, group
from busbw.topology.types import Gpu, Nic, Topology
from busbw.topology.views.arrangement import NumaGroup, SwitchIsland, arrange
from busbw.topology.views.captions import captions, description
from busbw.topology.views.device_text import is_down, rate_text
from busbw.topology.views.nvlink_picture import draw_nvlinks, nvlinks_height

_DEVICE_WIDTH, _GPU_HEIGHT, _NIC_HEIGHT, _GAP = 46.0, 28.0, 32.0, 4.0
_PITCH = _DEVICE_WIDTH + _GAP
"""Horizontal distance of adjacent devices."""
_FRAME_PADDING = 3
"""Distance of an island's devices from its frame."""
_NODE_PADDING, _GAP_BELOW_ISLANDS, _TITLE_HEIGHT = 6.0, 8.0, 26.0
"""Lengths in the box of a node."""
_MIN_WIDTH = 460.0
"""Minimum width of the picture, equal to that of the pictures in a report. A phone shows it without scrolling."""
_CHARACTER_WIDTH = 5.9
"""Average character width in captions. The exact width depends on the browser."""
_LABEL_CHARACTER_WIDTH = 7.0
"""Average character width in labels."""
_MAX_WIDENING_NICS = 4
"""Maximum number of NICs below the islands for which a node is widened. More NICs go into further rows."""
_CPU_LINE_HEIGHT = 13
"""Height of the line between two nodes above their lower edges."""
_NODE_TITLE_HEIGHT = 9
"""Height of a node's title above its lower edge."""
_GPU_LABEL_Y, _NIC_LABEL_Y, _NIC_LABEL_ABOVE_RATE_Y, _NIC_RATE_Y = 18, 20, 14, 26
"""Base lines of texts, below the upper edge of their device."""
_LABEL_OVERHANG = 6
"""Width by which a NIC's texts may exceed its box."""
_CAPTION_MARGIN, _CAPTION_GAP, _CAPTION_LINE_HEIGHT = 4, 20, 15
"""Margins beside the captions, distance from the nodes, and line height."""
_NODES_GAP = 12
_MARGIN = 2
"""Margin of the picture."""


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
    boxes = _node_boxes(nodes, top=nvlinks_height(topology) + _MARGIN)
    nodes_width = boxes[-1].x + boxes[-1].width + _MARGIN if boxes else 0.0
    width = max(_MIN_WIDTH, nodes_width)
    shift = (width - nodes_width) / 2 if boxes else 0.0  # centers the nodes
    boxes = [_Box(box.x + shift, box.y, box.width, box.height) for box in boxes]
    parts, gpu_tops = [], {}
    for node, box in zip(nodes, boxes, strict=True):
        node_group, node_tops = _draw_node(node, box)
        parts.append(node_group)
        gpu_tops.update(node_tops)
    parts += _draw_cpu_lines(boxes)
    parts.append(draw_nvlinks(topology, gpu_tops, width))
    captions_y = max((box.y + box.height for box in boxes), default=0.0) + _CAPTION_GAP
    caption_texts = _draw_captions(topology, width, captions_y)
    height = captions_y + len(caption_texts) * _CAPTION_LINE_HEIGHT
    title = description(topology)
    style = Markup((resources.files("busbw.topology.views") / "picture.css").read_text(encoding="utf-8"))
    svg = drawing(
        element("title", title),
        element("style", style),
        element("rect", x=0, y=0, width=width, height=height, class_="paper"),
        *parts,
        *caption_texts,
        label=title,
        width=width,
        height=height,
        xmlns="http://www.w3.org/2000/svg",
        preserveAspectRatio="xMidYMin meet",
        style=f"max-width: {2 * width:g}px",
    )
    return f"{svg}\n"


def _draw_cpu_lines(boxes: Sequence[_Box]) -> list[Markup]:
    """Draws a line between adjacent nodes near their lower edges, because the CPUs of all nodes are connected."""
    lines = []
    for left, right in pairwise(boxes):
        y = left.y + left.height - _CPU_LINE_HEIGHT
        lines.append(element("path", d=f"M{left.x + left.width:.1f} {y:.1f}H{right.x:.1f}", class_="between"))
    return lines


def _draw_captions(topology: Topology, width: float, y: float) -> list[Markup]:
    """Draws the captions below each other from y on, and returns an element for each line."""
    line_length = int((width - 2 * _CAPTION_MARGIN) / _CHARACTER_WIDTH)
    lines = [line for caption in captions(topology) for line in textwrap.wrap(caption, line_length)]
    return [
        element("text", line, x=_CAPTION_MARGIN, y=y + number * _CAPTION_LINE_HEIGHT, class_="caption")
        for number, line in enumerate(lines)
    ]


def _node_boxes(nodes: Sequence[NumaGroup], *, top: float) -> list[_Box]:
    """Returns the boxes of the nodes from left to right, with equal heights."""
    height = max((_node_height(node) for node in nodes), default=0.0)
    boxes: list[_Box] = []
    for node in nodes:
        x = boxes[-1].x + boxes[-1].width + _NODES_GAP if boxes else float(_MARGIN)
        boxes.append(_Box(x, top, _node_width(node), height))
    return boxes


def _column_count(island: SwitchIsland) -> int:
    return max(1, len(island.gpus))


def _island_width(island: SwitchIsland) -> float:
    return _column_count(island) * _PITCH - _GAP + 2 * _FRAME_PADDING


def _node_width(node: NumaGroup) -> float:
    islands_width = sum(map(_island_width, node.islands)) + _GAP * (len(node.islands) - 1)
    other_nics_width = min(len(node.other_nics), _MAX_WIDENING_NICS) * _PITCH - _GAP
    title_width = 100.0
    return max(islands_width, other_nics_width, title_width) + 2 * _NODE_PADDING


def _other_nics_per_row(node: NumaGroup) -> int:
    return max(1, int((_node_width(node) - 2 * _NODE_PADDING + _GAP) / _PITCH))


def _island_height(island: SwitchIsland) -> float:
    nic_rows = math.ceil(len(island.nics) / _column_count(island))
    return _GPU_HEIGHT + nic_rows * (_NIC_HEIGHT + _GAP) + 2 * _FRAME_PADDING


def _node_height(node: NumaGroup) -> float:
    islands_height = max(map(_island_height, node.islands), default=0.0)
    nic_rows = math.ceil(len(node.other_nics) / _other_nics_per_row(node))
    islands_gap = _GAP_BELOW_ISLANDS if nic_rows and islands_height else 0
    return _NODE_PADDING + islands_height + islands_gap + nic_rows * (_NIC_HEIGHT + _GAP) + _TITLE_HEIGHT


def _draw_node(node: NumaGroup, box: _Box) -> tuple[Markup, dict[str, tuple[float, float]]]:
    """Draws the box of a NUMA node. Returns it with the center of each GPU's upper edge, by its label."""
    title = "NUMA node unknown" if node.index is None else f"NUMA node {node.index}"
    css_class = "node supposed" if node.index is None else "node"
    title_x, title_y = box.x + _NODE_PADDING + 2, box.y + box.height - _NODE_TITLE_HEIGHT
    parts = [
        element("rect", x=box.x, y=box.y, width=box.width, height=box.height, rx=8, class_=css_class),
        element("text", _cut(title, box.width), x=title_x, y=title_y, class_="label"),
    ]
    if node.cpus:
        parts.insert(0, element("title", f"{title}: CPUs {node.cpus}"))
    gpu_tops = {}
    x, y = box.x + _NODE_PADDING, box.y + _NODE_PADDING
    for island in node.islands:
        island_group, island_tops = _draw_island(island, x, y)
        parts.append(island_group)
        gpu_tops.update(island_tops)
        x += _island_width(island) + _GAP
    islands_height = max(map(_island_height, node.islands), default=0.0)
    y += islands_height + (_GAP_BELOW_ISLANDS if islands_height else 0)
    for index, nic in enumerate(node.other_nics):
        row, column = divmod(index, _other_nics_per_row(node))
        parts.append(_draw_nic(nic, box.x + _NODE_PADDING + column * _PITCH, y + row * (_NIC_HEIGHT + _GAP)))
    return group(*parts), gpu_tops


def _draw_island(island: SwitchIsland, x: float, y: float) -> tuple[Markup, dict[str, tuple[float, float]]]:
    """Draws an island. Returns it with the center of each GPU's upper edge, by its label."""
    parts, gpu_tops = [], {}
    if len(island.gpus) + len(island.nics) > 1:
        size = {"width": _island_width(island), "height": _island_height(island)}
        parts.append(element("rect", x=x, y=y, rx=5, class_="switch", **size))
    left, top = x + _FRAME_PADDING, y + _FRAME_PADDING
    for column, gpu in enumerate(island.gpus):
        gpu_left = left + column * _PITCH
        parts.append(_draw_gpu(gpu, gpu_left, top))
        gpu_tops[gpu.label] = (gpu_left + _DEVICE_WIDTH / 2, top)
    for index, nic in enumerate(island.nics):
        row, column = divmod(index, _column_count(island))
        nic_top = top + _GPU_HEIGHT + _GAP + row * (_NIC_HEIGHT + _GAP)
        parts.append(_draw_nic(nic, left + column * _PITCH, nic_top))
    return group(*parts), gpu_tops


def _draw_gpu(gpu: Gpu, x: float, y: float) -> Markup:
    title = ", ".join(filter(None, [gpu.label, gpu.name, gpu.bus_id]))
    return group(
        element("title", title),
        element("rect", x=x, y=y, width=_DEVICE_WIDTH, height=_GPU_HEIGHT, rx=4, class_="device"),
        element("text", gpu.label, x=x + _DEVICE_WIDTH / 2, y=y + _GPU_LABEL_Y, class_="cell mid"),
    )


def _draw_nic(nic: Nic, x: float, y: float) -> Markup:
    rate = rate_text(nic)
    title = ", ".join(filter(None, [nic.label, nic.name, nic.kind, rate, "down" if is_down(nic) else ""]))
    short_rate = rate.replace(" Gb/s", "G").replace(" x ", "\N{MULTIPLICATION SIGN}")
    css_class = "nic down" if is_down(nic) else "nic"
    center = x + _DEVICE_WIDTH / 2
    label = _cut(nic.label, _DEVICE_WIDTH + _LABEL_OVERHANG)
    label_y = y + (_NIC_LABEL_ABOVE_RATE_Y if short_rate else _NIC_LABEL_Y)
    parts = [
        element("title", title),
        element("rect", x=x, y=y, width=_DEVICE_WIDTH, height=_NIC_HEIGHT, rx=4, class_=css_class),
        element("text", label, x=center, y=label_y, class_="cell mid"),
    ]
    if short_rate:
        rate_label = _cut(short_rate, _DEVICE_WIDTH + _LABEL_OVERHANG)
        parts.append(element("text", rate_label, x=center, y=y + _NIC_RATE_Y, class_="small mid"))
    return group(*parts)


def _cut(text: str, width: float) -> str:
    """Cuts a text to the width, with an ellipsis."""
    return cut_end(text, int(width / _LABEL_CHARACTER_WIDTH))
