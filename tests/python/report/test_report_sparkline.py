"""A configuration at a glance."""

from report_pages import numbers_of, svg_root

from busbw.report.sparkline import sparkline


def test_the_largest_size_in_words() -> None:
    made = sparkline({8: 0.001, 1 << 30: 391.44}, {1 << 30: (376.6, 480.0, 524.9)})
    assert made is not None
    assert made.text == "391 GB/s at 1 GiB (healthy 377 to 525)"


def test_heights_are_in_proportion() -> None:
    made = sparkline({8: 100.0, 16: 50.0, 32: 25.0}, {})
    assert made is not None
    assert made.text == "25 GB/s at 32 B"
    paths = {one.get("class"): one.get("d") or "" for one in svg_root(made.svg).iter("path")}
    heights = [36 - y for _, y in numbers_of(paths["line"])]
    assert heights[0] == 2 * heights[1] == 4 * heights[2]
    assert "range" not in paths


def test_nothing_measured() -> None:
    assert sparkline({}, {8: (1.0, 2.0, 3.0)}) is None
