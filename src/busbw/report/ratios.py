"""Section of a comparison: ratios by size with intervals and verdicts, and differences of settings."""

from collections.abc import Sequence
from itertools import groupby

from markupsafe import Markup

from busbw.compare import ChangeVerdict, Comparison, PointKey, Side, SizeResult
from busbw.compare.result import TimeQuantity
from busbw.logs import PLACEMENT_WORDS
from busbw.report import axes, curves
from busbw.report.axes import number
from busbw.report.curves import Curve, CurvePlot
from busbw.report.page import ColumnHead, ComparisonSection, DataTable, LegendEntry, NamedValue, Picture
from busbw.svg import element, group
from busbw.units import count_text, size_text

_MARKS: dict[ChangeVerdict, str] = {
    ChangeVerdict.FASTER: "M{x:.1f} {a:.1f}l5 9h-10z",
    ChangeVerdict.SLOWER: "M{x:.1f} {b:.1f}l5 -9h-10z",
    ChangeVerdict.SAME: "M{l:.1f} {y:.1f}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
    ChangeVerdict.UNCLEAR: "M{l:.1f} {t:.1f}l8 8m0 -8l-8 8",
}
_UNITS: dict[TimeQuantity, str] = {
    "device_time_us": "device us",
    "median_us": "median us",
    "time_us": "time us",
    "algbw_gbps": "algbw GB/s",
    "busbw_gbps": "busbw GB/s",
}
_MAX_ONLY = 20


def comparison_section(comparison: Comparison, anchor: str, *, has_curves: bool = False) -> ComparisonSection:
    """Makes the section of a comparison.

    Args:
        comparison: Comparison to show.
        anchor: Anchor on the page.
        has_curves: True to draw the curves of both sides in addition to their ratio.
    """
    lines = [(title, list(members)) for title, members in groupby(comparison.results, key=_configuration)]
    pictures = []
    for title, results in lines:
        pictures += [_picture(title, results, comparison), _side_curves(title, results) if has_curves else None]
    return ComparisonSection(
        anchor=anchor,
        title=f"{_name(comparison.b)} against {_name(comparison.a)}",
        sides=(NamedValue("A", _side(comparison.a)), NamedValue("B", _side(comparison.b))),
        counts=tuple(
            NamedValue(verdict.value, count_text(found, "size"))
            for verdict in ChangeVerdict
            if (found := comparison.count(verdict))
        ),
        pictures=tuple(one for one in pictures if one),
        grids=tuple(_grid(title, results) for title, results in lines),
        wrong_data=comparison.wrong_data,
        sentences=(
            f"The resolution is {comparison.resolution:.0%}. Intervals: {comparison.level_text}.",
            *comparison.method,
            *_claims(comparison),
            *comparison.warnings,
            *_only(comparison),
        ),
        differences=_differences(comparison),
    )


def _name(side: Side) -> str:
    return side.label if side.label not in ("A", "B") else f"{side.label} ({side.source})"


def _side(side: Side) -> str:
    runs = count_text(side.runs, "run") if side.runs > 1 else ""
    label = side.label if side.label not in ("A", "B") else ""
    return ", ".join(filter(None, [label, side.source, side.library, runs]))


def _configuration(result: SizeResult) -> str:
    point = result.point
    words = [(point.collective or "unknown collective"), point.dtype, point.redop]
    return ", ".join(
        filter(
            None,
            [
                " ".join(word for word in words if word),
                count_text(point.ranks, "rank") if point.ranks else None,
                f"root {point.root}" if point.root is not None else None,
                f"group {point.group}" if point.group else None,
                PLACEMENT_WORDS[point.placement],
                "device time" if result.compared == "device_time_us" else None,
            ],
        )
    )


def _picture(title: str, results: Sequence[SizeResult], comparison: Comparison) -> Picture | None:
    known = [one for one in results if one.speedup and one.speedup > 0 and one.point.size_bytes > 0]
    if not known:
        return None
    sizes = sorted({one.point.size_bytes for one in known})
    x = axes.size_scale(sizes)
    edge = 1 + comparison.resolution
    values = [edge * 1.02, 1 / (edge * 1.02)]
    for one in known:
        values += [value for value in (one.speedup, *(one.interval or one.rounding or ())) if value and value > 0]
    y = axes.value_scale(values)
    band = element(
        "rect", x=axes.LEFT, y=y(edge), width=axes.RIGHT - axes.LEFT, height=y(1 / edge) - y(edge), class_="same"
    )
    parts = [
        axes.value_axis(y, "speed of B over A"),
        axes.size_axis(x, sizes),
        band,
        element("path", d=f"M{axes.LEFT:g} {y(1):.1f}H{axes.RIGHT:g}", class_="one"),
        *(_mark(one, x, y) for one in known),
        axes.frame(),
    ]
    text = _alt_text(title, known)
    return Picture(title, text, axes.drawing(*parts, label=text), _keys(known, comparison.resolution))


def _side_curves(title: str, results: Sequence[SizeResult]) -> Picture | None:
    """Draws the curves of the compared figures."""
    field = results[0].compared
    sides = {"A": [one.a for one in results], "B": [one.b for one in results]}
    lines = [
        Curve(
            label,
            {
                one.point.size_bytes: value
                for one, side in zip(results, figures, strict=True)
                if one.compared == field and one.point.size_bytes > 0 and (value := getattr(side, field))
            },
        )
        for label, figures in sides.items()
    ]
    return curves.picture(CurvePlot(f"A and B: {title}", _UNITS[field], lines))


def _mark(one: SizeResult, x: axes.Scale, y: axes.Scale) -> Markup:
    assert one.speedup is not None
    place, height = x(one.point.size_bytes), y(one.speedup)
    bounds = [value for value in (one.interval or one.rounding or ()) if value > 0]
    bar = (
        [element("path", d=f"M{place:.1f} {y(bounds[0]):.1f}V{y(bounds[-1]):.1f}", class_="whisker")]
        if len(bounds) == 2
        else []
    )
    tooltip = f"{size_text(one.point.size_bytes)}: x{one.speedup:.3f}, {one.verdict.value}: {one.reason}"
    return group(
        element("title", tooltip),
        *bar,
        element("path", d=_shape(one.verdict, place, height)),
        class_=_class(one.verdict),
    )


def _shape(verdict: ChangeVerdict, x: float, y: float) -> str:
    return _MARKS[verdict].format(x=x, y=y, a=y - 5, b=y + 5, l=x - 4, t=y - 4)


def _class(verdict: ChangeVerdict) -> str:
    return f"ratio {verdict.value.lower()}"


def _keys(known: Sequence[SizeResult], resolution: float) -> tuple[LegendEntry, ...]:
    def sample(*children: Markup) -> Markup:
        return element("svg", *children, viewBox="0 0 34 14", class_="sample", aria_hidden="true")

    found = [
        LegendEntry(sample(group(element("path", d=_shape(verdict, 17, 7)), class_=_class(verdict))), verdict.value)
        for verdict in ChangeVerdict
        if any(one.verdict is verdict for one in known)
    ]
    found.append(
        LegendEntry(
            sample(element("rect", x=2, y=2, width=30, height=10, class_="same")), f"less than {resolution:.0%}"
        )
    )
    if any(one.interval for one in known):
        found.append(LegendEntry(sample(element("path", d="M17 1V13", class_="whisker")), "interval"))
    elif any(one.rounding for one in known):
        found.append(LegendEntry(sample(element("path", d="M17 1V13", class_="whisker")), "rounding bounds"))
    return tuple(found)


def _alt_text(title: str, known: Sequence[SizeResult]) -> str:
    slowest, fastest = (choose(known, key=lambda one: one.speedup or 0.0) for choose in (min, max))
    counts = ", ".join(
        f"{found} {verdict.value}"
        for verdict in ChangeVerdict
        if (found := sum(one.verdict is verdict for one in known))
    )
    return (
        f"Speed of B over A by message size, {title}: {counts}. Minimum x{slowest.speedup:.3f} at "
        f"{size_text(slowest.point.size_bytes)}, maximum x{fastest.speedup:.3f} at "
        f"{size_text(fastest.point.size_bytes)}."
    )


def _grid(title: str, results: Sequence[SizeResult]) -> DataTable:
    unit = _UNITS[results[0].compared]
    has_claims = any(one.claimed_speedup is not None for one in results)
    columns = [
        ColumnHead("size"),
        ColumnHead(f"A, {unit}"),
        ColumnHead(f"B, {unit}"),
        ColumnHead("speed B / A"),
        ColumnHead("interval", is_number=False),
        ColumnHead("verdict", is_number=False),
        ColumnHead("reason", is_number=False),
        *([ColumnHead("stated in the log", is_number=False)] if has_claims else []),
    ]
    rows = []
    for one in results:
        field = one.compared
        suffix = "" if one.compared == results[0].compared else f" {_UNITS[one.compared]}"
        cells = [
            size_text(one.point.size_bytes),
            _figure(getattr(one.a, field)) + suffix,
            _figure(getattr(one.b, field)) + suffix,
            f"{one.speedup:.3f}" if one.speedup is not None else "",
            f"{one.interval[0]:.3f} to {one.interval[1]:.3f}" if one.interval else "none",
            one.verdict.value,
            one.reason,
        ]
        if has_claims:
            agrees = {True: "", False: " (does not agree with its figures)", None: ""}[one.claim_agrees]
            cells.append(f"{one.claimed_speedup:g}x{agrees}" if one.claimed_speedup is not None else "")
        rows.append(tuple(cells))
    return DataTable(title, tuple(columns), tuple(rows))


def _figure(value: float | None) -> str:
    return "" if value is None else number(value)


def _claims(comparison: Comparison) -> list[str]:
    claims = [one for one in comparison.results if one.claim_agrees is not None]
    wrong = [one for one in claims if one.claim_agrees is False]
    if not claims:
        return []
    named = "; ".join(
        f"{size_text(one.point.size_bytes)} {one.point.collective or ''}: {one.claimed_speedup:g}x, but "
        f"{one.speedup:.3f} by its figures"
        for one in wrong
        if one.speedup is not None
    )
    right = len(claims) - len(wrong)
    summary = f"Of {count_text(len(claims), 'speed-up')} that the log states, {right} agree with its figures"
    return [f"{summary} and {len(wrong)} do not: {named}." if wrong else f"{summary}."]


def _only(comparison: Comparison) -> list[str]:
    return [
        f"Only in {label}: {_points(points)}."
        for label, points in (("A", comparison.only_in_a), ("B", comparison.only_in_b))
        if points
    ]


def _points(points: Sequence[PointKey]) -> str:
    named = [
        " ".join(filter(None, [size_text(point.size_bytes), point.collective, PLACEMENT_WORDS[point.placement]]))
        for point in points[:_MAX_ONLY]
    ]
    more = f" and {len(points) - _MAX_ONLY} more" if len(points) > _MAX_ONLY else ""
    return "; ".join(named) + more


def _differences(comparison: Comparison) -> DataTable | None:
    if not comparison.differences:
        return None
    columns = (
        ColumnHead("setting", is_number=False),
        ColumnHead("A", is_number=False),
        ColumnHead("B", is_number=False),
    )
    rows = tuple((one.what, one.a or "not stated", one.b or "not stated") for one in comparison.differences)
    return DataTable("Settings that differ between A and B", columns, rows)
