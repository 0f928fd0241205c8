"""Draws NVLinks above the boxes: one bar if switches connect all pairs equally, otherwise arcs."""

from collections.abc import Mapping

from markupsafe import Markup

from busbw.svg import element, group
from busbw.topology.types import Topology

_BAR_HEIGHT, _ARC_HEIGHT = 44.0, 120.0
_PITCH = 64.0
"""Approximate distance of adjacent GPUs, including boxes and gaps."""
_MAX_LABELS = 12
"""Maximum number of arcs with labels. More labels would overlap; the width of an arc shows its links."""


def _pairs(topology: Topology) -> dict[tuple[str, str], int]:
    return {
        (path.of, path.to): int(path.connection[2:])
        for path in topology.paths
        if path.connection and path.connection.startswith("NV")
    }


def _is_bar(topology: Topology) -> bool:
    gpus = topology.gpus or ()
    pairs = _pairs(topology)
    every = len(gpus) * (len(gpus) - 1) // 2
    straight = any(gpu.nvlinks and gpu.nvlinks.to_gpus for gpu in gpus)
    return len(gpus) > 2 and len(pairs) == every and len(set(pairs.values())) == 1 and not straight


def height_of(topology: Topology) -> float:
    """Returns the height of the drawing."""
    pairs = _pairs(topology)
    if not pairs:
        return 0.0
    if _is_bar(topology):
        return _BAR_HEIGHT
    order = [gpu.label for gpu in topology.gpus or ()]
    farthest = max(order.index(other) - order.index(one) for one, other in pairs)
    return min(_rise(farthest * _PITCH) / 2 + 16, _ARC_HEIGHT)


def _rise(span: float) -> float:
    """Returns the height of a curve's control point above the GPUs."""
    return min(24 + span * 0.42, 2 * (_ARC_HEIGHT - 16))


def nvlinks(topology: Topology, tops: Mapping[str, tuple[float, float]], width: float) -> Markup:
    """Draws the links between GPUs, given the center of each GPU's upper edge."""
    pairs = _pairs(topology)
    if not pairs:
        return Markup("")
    if _is_bar(topology):
        return _bar(next(iter(pairs.values())), tops, width)
    parts, labels = [], []
    most = max(pairs.values())
    for (one, other), links in pairs.items():
        (left, y), (right, _) = sorted((tops[one], tops[other]))
        # The middle of the curve is at half the height of its control point.
        rise = _rise(right - left)
        middle = (left + right) / 2
        thickness = 1.0 + 2.5 * links / most
        curve = f"M{left:.1f} {y:.1f}Q{middle:.1f} {y - rise:.1f} {right:.1f} {y:.1f}"
        parts.append(
            group(
                element("title", f"{one} and {other}: NV{links}"),
                element("path", d=curve, stroke_width=thickness, class_="arc"),
            )
        )
        if len(pairs) <= _MAX_LABELS:
            labels.append(element("text", f"NV{links}", x=middle, y=y - rise / 2 - 4, class_="small mid halo"))
    return group(*parts, *labels)


def _bar(links: int, tops: Mapping[str, tuple[float, float]], width: float) -> Markup:
    xs = [x for x, _ in tops.values()]
    stubs = [element("path", d=f"M{x:.1f} {y:.1f}V30", stroke_width=3.0, class_="arc") for x, y in tops.values()]
    text = f"NVLink: NV{links} between every pair" if len(xs) > 4 else f"NV{links}, every pair"
    left, right = max(min(xs) - 23, 2.0), min(max(xs) + 23, width - 2)
    return group(
        *stubs,
        element("rect", x=left, y=8.0, width=right - left, height=24.0, rx=6, class_="fabric"),
        element("text", text, x=(left + right) / 2, y=24.0, class_="onfabric mid"),
    )
