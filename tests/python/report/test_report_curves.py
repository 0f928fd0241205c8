"""Curves: every point is where its value is, and what is drawn is also said in words."""

import json

import pytest
from report_pages import numbers_of, svg_root

from busbw.report import axes
from busbw.report.curves import Curve, CurvePlot, RangeCurve, picture

SIZES = [1 << power for power in range(3, 31)]


def sight(**changes: object) -> CurvePlot:
    fields: dict[str, object] = {
        "title": "Bus bandwidth",
        "unit": "GB/s",
        "lines": [
            Curve("out of place", {size: 1e-9 * size**1.2 for size in SIZES}),
            Curve("in <place>", {size: 2e-9 * size**1.2 for size in SIZES[:5]}),
        ],
        "expected": RangeCurve("healthy", {size: (1e-10 * size, 2e-10 * size, 4e-10 * size) for size in SIZES}),
        "reference": Curve("reference: there", {8: 1.0, 1 << 40: 1.0}),
    }
    return CurvePlot(**{**fields, **changes})  # type: ignore[arg-type]


def test_every_point_lies_in_the_frame_in_the_order_of_its_values() -> None:
    made = picture(sight())
    assert made is not None
    lines = [one.get("d") or "" for one in svg_root(made.svg).iter("path") if one.get("class") == "line"]
    points = numbers_of(lines[0])
    assert len(points) == len(SIZES)
    assert points == sorted(points)
    assert [y for _, y in points] == sorted((y for _, y in points), reverse=True)
    for path in lines:
        for x, y in numbers_of(path):
            assert axes.LEFT <= x <= axes.RIGHT
            assert axes.TOP <= y <= axes.BOTTOM


def test_the_range_encloses_the_typical_curve() -> None:
    made = picture(sight())
    assert made is not None
    assert made.log_svg is not None  # the small values coincide on the linear axis
    paths = {one.get("class"): one.get("d") or "" for one in svg_root(made.log_svg).iter("path")}
    around, middle = numbers_of(paths["range"]), numbers_of(paths["typical"])
    upper, lower = around[: len(SIZES)], around[len(SIZES) :][::-1]
    for (_, above), (_, between), (_, below) in zip(upper, middle, lower, strict=True):
        assert above < between < below  # paper is measured downwards


def test_heights_on_the_linear_axis_are_in_the_ratio_of_the_values() -> None:
    values = {8: 100.0, 16: 50.0, 32: 25.0}
    made = picture(sight(lines=[Curve("measured", values)], expected=None, reference=None))
    assert made is not None
    (line,) = [one.get("d") or "" for one in svg_root(made.svg).iter("path") if one.get("class") == "line"]
    heights = [axes.BOTTOM - y for _, y in numbers_of(line)]
    assert heights[0] / heights[2] == pytest.approx(4, rel=0.01)
    assert heights[1] / heights[2] == pytest.approx(2, rel=0.01)


def test_only_bandwidth_has_a_linear_axis() -> None:
    made = picture(sight(unit="us"))
    assert made is not None
    assert made.log_svg is None


def test_the_text_of_each_size_has_all_figures() -> None:
    made = picture(sight())
    assert made is not None
    root = svg_root(made.svg)
    said = json.loads(root.get("data-says") or "")
    assert len(said) == len((root.get("data-at") or "").split()) == len(SIZES)
    assert said[0].startswith("8 B: out of place ")
    for word in ("in <place>", "healthy", "reference 1", "GB/s"):
        assert word in said[0]
    assert "reference" not in said[1]


def test_the_picture_has_a_text_alternative_and_a_legend() -> None:
    made = picture(sight())
    assert made is not None
    assert svg_root(made.svg).get("aria-label") == made.alt_text
    assert [entry.label for entry in made.legend] == ["out of place", "in <place>", "healthy", "reference: there"]


def test_lines_differ_in_more_than_color() -> None:
    lines = [Curve(f"line {number}", {8: 1.0 + number, 16: 2.0 + number}) for number in range(6)]
    made = picture(sight(lines=lines, expected=None, reference=None))
    assert made is not None
    marks = [one.get("d") or "" for one in svg_root(made.svg).iter("path") if one.get("class") == "mark"]
    shapes = {"".join(letter for letter in mark if letter.isalpha()) + mark.partition("l")[2] for mark in marks}
    assert len(shapes) == 6


def test_nothing_to_draw() -> None:
    assert picture(sight(lines=[Curve("empty", {})])) is None


@pytest.mark.parametrize("expected", [None, RangeCurve("healthy", {64: (1.0, 2.0, 3.0)})])
def test_a_single_size(expected: RangeCurve | None) -> None:
    made = picture(sight(lines=[Curve("one", {64: 2.0})], expected=expected, reference=None))
    assert made is not None
    svg_root(made.svg)
