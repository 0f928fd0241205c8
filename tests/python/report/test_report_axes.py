"""Axes of pictures: order, ends, and labels that are round and few."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.report import axes
from busbw.report.axes import LEFT, RIGHT, Scale, number, short_size, size_scale, size_ticks, value_scale, value_ticks

POSITIVE = st.floats(min_value=1e-6, max_value=1e9)
SIZES = st.lists(st.integers(min_value=1, max_value=1 << 45), min_size=1, max_size=40)


def test_a_decade_is_as_long_as_the_next() -> None:
    scale = Scale(1, 1000, 0, 300)
    assert [scale(value) for value in (1, 10, 100, 1000)] == pytest.approx([0, 100, 200, 300])


@given(SIZES)
def test_sizes_lie_within_the_frame_in_order(sizes: list[int]) -> None:
    scale = size_scale(sizes)
    places = [scale(size) for size in sorted(set(sizes))]
    assert places == sorted(places)
    assert all(LEFT <= place <= RIGHT for place in places)


@given(st.lists(POSITIVE, min_size=1, max_size=20))
def test_larger_values_lie_higher_and_within_the_frame(values: list[float]) -> None:
    scale = value_scale(values)
    places = [scale(value) for value in sorted(values)]
    assert places == sorted(places, reverse=True)
    assert all(axes.TOP <= place <= axes.BOTTOM for place in places)


@given(st.lists(POSITIVE, min_size=1, max_size=20))
def test_a_linear_axis_begins_at_zero_and_has_even_labels(values: list[float]) -> None:
    scale = axes.linear_value_scale(values)
    assert scale(0.0) == axes.BOTTOM
    for value in values:
        height = (axes.BOTTOM - scale(value)) / (axes.BOTTOM - axes.TOP)
        assert height == pytest.approx(value / scale.high)
        assert 0 <= height <= 1
    ticks = value_ticks(scale)
    assert ticks[0] == 0
    assert 3 <= len(ticks) <= 8
    steps = [after - before for before, after in pairwise(ticks)]
    assert steps == pytest.approx([steps[0]] * len(steps))


@given(SIZES)
def test_size_labels_are_few_and_powers_of_two_within_the_range(sizes: list[int]) -> None:
    ticks = size_ticks(sizes)
    assert 1 <= len(ticks) <= 7
    assert all(min(sizes) <= tick <= max(sizes) for tick in ticks)
    assert len(ticks) == 1 or all(tick.bit_count() == 1 for tick in ticks)


@given(POSITIVE, st.floats(min_value=1.0, max_value=1e9))
def test_value_labels_are_few_distinct_and_within_the_range(low: float, ratio: float) -> None:
    scale = value_scale([low, low * ratio])
    ticks = value_ticks(scale)
    assert 1 <= len(ticks) <= 7
    assert ticks == sorted(set(ticks))
    assert all(scale.low * (1 - 1e-9) <= tick <= scale.high * (1 + 1e-9) for tick in ticks)
    assert len({number(tick) for tick in ticks}) == len(ticks)


def test_labels_around_one_are_evenly_apart() -> None:
    ticks = value_ticks(Scale(0.86, 1.16, 0, 1))
    assert ticks == pytest.approx([0.9, 0.95, 1.0, 1.05, 1.1, 1.15])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.00071, "0.00071"),
        (1, "1"),
        (12.75, "12.75"),
        (391.41, "391.4"),
        (41145.0, "41,145"),
        (1e9, "1e+09"),
        (2e-6, "2e-06"),
    ],
)
def test_figures(value: float, text: str) -> None:
    assert number(value) == text


@given(st.floats(min_value=1e-4, max_value=9e6))
def test_figures_keep_four_digits(value: float) -> None:
    assert math.isclose(float(number(value).replace(",", "")), value, rel_tol=5.1e-4)


def test_short_sizes() -> None:
    assert [short_size(size) for size in (8, 65536, 1 << 20, 16 << 30, 1 << 40)] == ["8 B", "64K", "1M", "16G", "1T"]


@pytest.mark.parametrize("high", [350.0, 70.0, 3.5, 7.0, 14.0, 20.0, 2.0001])
def test_a_linear_axis_has_at_most_seven_labels(high: float) -> None:
    ticks = value_ticks(Scale(0.0, high, 0, 1, is_linear=True))
    assert 3 <= len(ticks) <= 7
    assert ticks[0] == 0
