"""Draws NVLinks above the GPUs: one bar if switches connect all pairs equally, otherwise an arc for each pair.

Lengths are in SVG user units, as in picture.py.
"""

from collections.abc import Mapping

from markupsafe import Markup

from busbw.svg import element, group
from busbw.topology.types import Topology

_BAR_HEIGHT = 44.0
"""Height of the bar with the lines to the GPUs."""
_MAX_ARC_HEIGHT = 120.0
_LABEL_HEIGHT = 16
"""Space above an arc for its label."""
_PITCH = 64.0
"""Approximate distance of adjacent GPUs, including boxes and gaps."""
_MAX_LABELS = 12
"""Maximum number of arcs with labels. More labels would overlap; the width of an arc shows its links."""


def _link_counts(topology: Topology) -> dict[tuple[str, str], int]:
    """Returns the number of NVLinks by pair of GPUs, without pairs that have none."""
    return {
        (path.of, path.to): int(path.connection.removeprefix("NV"))
        for path in topology.paths
        if path.connection and path.connection.startswith("NV")
    }


def _is_drawn_as_bar(topology: Topology) -> bool:
    """True if switches connect all pairs equally, so that a bar shows the links."""
    gpus = topology.gpus or ()
    link_counts = _link_counts(topology)
    pair_count = len(gpus) * (len(gpus) - 1) // 2
    if pair_count <= 1 or len(link_counts) < pair_count:
        return False
    has_direct_links = any(gpu.nvlinks and gpu.nvlinks.to_gpus for gpu in gpus)
    return len(set(link_counts.values())) == 1 and not has_direct_links


def nvlinks_height(topology: Topology) -> float:
    """Returns the height of the drawing of NVLinks; 0 without NVLinks."""
    link_counts = _link_counts(topology)
    if not link_counts:
        return 0.0
    if _is_drawn_as_bar(topology):
        return _BAR_HEIGHT
    order = [gpu.label for gpu in topology.gpus or ()]
    max_distance = max(order.index(second) - order.index(first) for first, second in link_counts)
    return min(_control_height(max_distance * _PITCH) / 2 + _LABEL_HEIGHT, _MAX_ARC_HEIGHT)


def _control_height(span: float) -> float:
    """Returns the height of an arc's Bezier control point over this distance. The arc is half as high as that point."""
    return min(24 + span * 0.42, 2 * (_MAX_ARC_HEIGHT - _LABEL_HEIGHT))


def draw_nvlinks(topology: Topology, tops: Mapping[str, tuple[float, float]], width: float) -> Markup:
    """Draws the links between GPUs.

    Args:
        topology: The topology.
        tops: x and y of the center of each GPU's upper edge, by its label.
        width: Width of the picture.
    """
    link_counts = _link_counts(topology)
    if not link_counts:
        return Markup("")
    if _is_drawn_as_bar(topology):
        return _draw_bar(next(iter(link_counts.values())), tops, width)
    arcs, labels = [], []
    max_links = max(link_counts.values())
    for (first, second), links in link_counts.items():
        (left, y), (right, _) = sorted((tops[first], tops[second]))
        control_height = _control_height(right - left)
        middle = (left + right) / 2
        thickness = 1.0 + 2.5 * links / max_links
        curve = f"M{left:.1f} {y:.1f}Q{middle:.1f} {y - control_height:.1f} {right:.1f} {y:.1f}"
        arcs.append(
            group(
                element("title", f"{first} and {second}: NV{links}"),
                element("path", d=curve, stroke_width=thickness, class_="arc"),
            )
        )
        if len(link_counts) <= _MAX_LABELS:
            labels.append(
                element("text", f"NV{links}", x=middle, y=y - control_height / 2 - 4, class_="small mid halo")
            )
    return group(*arcs, *labels)  # labels last, above all arcs


def _draw_bar(links: int, tops: Mapping[str, tuple[float, float]], width: float) -> Markup:
    xs = [x for x, _ in tops.values()]
    stubs = [element("path", d=f"M{x:.1f} {y:.1f}V30", stroke_width=3.0, class_="arc") for x, y in tops.values()]
    text = f"NVLink: NV{links} between every pair" if len(xs) > 4 else f"NV{links}, every pair"
    left, right = max(min(xs) - 23, 2.0), min(max(xs) + 23, width - 2)
    return group(
        *stubs,
        element("rect", x=left, y=8.0, width=right - left, height=24.0, rx=6, class_="fabric"),
        element("text", text, x=(left + right) / 2, y=24.0, class_="onfabric mid"),
    )
