"""Draws the timeline of one step of a job: a lane per rank and group of communicators."""

from collections.abc import Sequence
from itertools import groupby

from markupsafe import Markup

from busbw.report.axes import LEGEND_ICON_WIDTH, Scale, legend_icon, number, value_ticks
from busbw.report.page import LegendEntry, Picture
from busbw.report.svg import drawing, element
from busbw.report.svg import group as svg_group
from busbw.traces.analysis.intervals import Values
from busbw.traces.analysis.timeline import Lane, Timeline

# Lengths in SVG units. A lane has the operations of one rank in one group of communicators.
_WIDTH, _LEFT, _RIGHT, _TOP = 920.0, 70.0, 900.0, 8.0
_LANE_HEIGHT, _LANE_GAP, _RANK_GAP = 12.0, 2.0, 8.0
_MIN_SHAPE_WIDTH = 0.6
_COLORS = 6
"""Number of line colors of the page. More groups share colors."""


def timeline_picture(timeline: Timeline, labels: Sequence[str]) -> Picture:
    """Draws the timeline. `labels`: names of the groups of communicators."""
    scale = Scale(0.0, timeline.duration_ms, _LEFT, _RIGHT, is_linear=True)
    groups = sorted({lane.group for lane in timeline.lanes})
    color_by_group = {group: f"s{index % _COLORS}" for index, group in enumerate(groups)}
    blocks: list[Markup] = []
    y = _TOP
    rank_count = 0
    # `groupby` needs the lanes of a rank side by side: `Timeline.lanes` is ordered by rank.
    for rank, lanes in groupby(timeline.lanes, key=lambda lane: lane.rank):
        top = y
        for lane in lanes:
            blocks += _draw_lane(lane, scale, y, color_by_group[lane.group])
            y += _LANE_HEIGHT + _LANE_GAP
        middle = (top + y - _LANE_GAP) / 2
        blocks.append(element("text", f"rank {rank}", x=_LEFT - 8, y=middle + 4, class_="tick end"))
        y += _RANK_GAP
        rank_count += 1
    ticks = [
        svg_group(
            element("path", d=f"M{scale(tick):.1f} {_TOP:g}V{y:.1f}", class_="grid"),
            element("text", number(tick), x=scale(tick), y=y + 14, class_="tick mid"),
        )
        for tick in value_ticks(scale)
    ]
    axis = element("text", "ms since the start of the step", x=(_LEFT + _RIGHT) / 2, y=y + 32, class_="axis mid")
    ranks_text = f"{rank_count} of {timeline.rank_count} ranks. " if rank_count < timeline.rank_count else ""
    note = f"{ranks_text}Empty space is time without operations; the device may compute. Short gaps are not visible."
    legend = [LegendEntry(_sample("transfer", color_by_group[group]), labels[group]) for group in groups]
    waiting_sample = _sample("waiting", color_by_group[groups[0]])
    legend.append(LegendEntry(waiting_sample, "the same, lighter: waits for a later rank"))
    return Picture(
        timeline.title,
        f"{timeline.title}. {note}",
        drawing(*ticks, *blocks, axis, label=timeline.title, width=_WIDTH, height=y + 40),
        tuple(legend),
        note,
        is_wide=True,
    )


def _draw_lane(lane: Lane, scale: Scale, y: float, color: str) -> tuple[Markup, Markup]:
    """Draws the background of a lane, and its waits and transfers."""
    background = element("rect", x=_LEFT, y=y, width=_RIGHT - _LEFT, height=_LANE_HEIGHT, class_="lane")
    shapes = [
        element("path", d=_boxes(scale, starts, ends, y), class_=kind)
        for kind, (starts, ends) in (("waiting", lane.waits), ("transfer", lane.transfers))
        if len(starts)
    ]
    return background, svg_group(*shapes, class_=color)


def _boxes(scale: Scale, starts: Values, ends: Values, y: float) -> str:
    """Returns one path with a box per interval, so that thousands of them stay one element."""
    parts = []
    for start, end in zip(starts, ends, strict=True):
        x = scale(float(start))
        width = max(scale(float(end)) - x, _MIN_SHAPE_WIDTH)
        parts.append(f"M{x:.1f} {y:g}h{width:.1f}v{_LANE_HEIGHT:g}H{x:.1f}z")
    return "".join(parts)


def _sample(kind: str, color: str) -> Markup:
    box = element("rect", x=2, y=2, width=LEGEND_ICON_WIDTH - 4, height=10, class_=kind)
    return legend_icon(svg_group(box, class_=color))
