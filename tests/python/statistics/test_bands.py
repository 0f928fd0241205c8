"""Which sizes are judged together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.statistics.bands import band_of, find_plateau_start


@pytest.mark.parametrize(
    ("size", "plateau", "band"),
    [
        (8, 1 << 20, "latency"),
        (8192, 1 << 20, "latency"),
        (8193, 1 << 20, "middle"),
        ((1 << 20) - 1, 1 << 20, "middle"),
        (1 << 20, 1 << 20, "plateau"),
        (1 << 30, None, "middle"),
        (8192, 16, "latency"),
    ],
)
def test_the_band_of_a_size(size: int, plateau: int | None, band: str) -> None:
    assert band_of(size, plateau) == band


def test_the_plateau_begins_at_nine_tenths_of_the_best() -> None:
    curve = [(4096, 1.0), (1 << 20, 50.0), (1 << 24, 89.0), (1 << 26, 91.0), (1 << 28, 100.0), (1 << 30, 60.0)]
    assert find_plateau_start(curve) == 1 << 26


def test_small_sizes_have_no_plateau() -> None:
    assert find_plateau_start([(8, 1.0), (8192, 2.0)]) is None
    assert find_plateau_start([]) is None


@given(st.lists(st.tuples(st.integers(8193, 1 << 40), st.floats(0.1, 1000)), min_size=1))
def test_the_best_size_is_on_the_plateau(curve: list[tuple[int, float]]) -> None:
    begin = find_plateau_start(curve)
    assert begin is not None
    assert begin <= min(size for size, busbw in curve if busbw == max(value for _, value in curve))
