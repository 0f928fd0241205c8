"""Ranges of CPUs, against sets of numbers, and rates, against figures worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.topology.cpu_ranges import format_ranges, parse_ranges, set_bits
from busbw.topology.sources.link_rates import NVLINK_GBPS, pcie_gbps, pcie_generation


@given(st.sets(st.integers(0, 5000)))
def test_what_is_written_is_read_again(numbers: set[int]) -> None:
    assert parse_ranges(format_ranges(numbers)) == tuple(sorted(numbers))


@given(st.sets(st.integers(0, 300)))
def test_ranges_are_as_few_as_can_be(numbers: set[int]) -> None:
    starts = {number for number in numbers if number - 1 not in numbers}
    assert len([part for part in format_ranges(numbers).split(",") if part]) == len(starts)


@pytest.mark.parametrize("text", ["N/A", "4-2", "0-99999999", "1 2", "-1", "0x3", "٣"])
def test_what_is_no_range_is_refused(text: str) -> None:
    assert parse_ranges(text) is None


@given(st.sets(st.integers(0, 255)))
def test_a_mask_of_words_says_which_bits_are_set(numbers: set[int]) -> None:
    mask = sum(1 << number for number in numbers)
    words = [mask >> shift & (2**64 - 1) for shift in range(0, 256, 64)]
    assert set_bits(words) == tuple(sorted(numbers))


# By hand: 2.5 GT/s x 8/10 x 1 / 8; 8 x 128/130 x 16 / 8; the same doubled; 64 x 242/256 x 16 / 8.
@pytest.mark.parametrize(
    ("generation", "width", "gbps"), [(1, 1, 0.25), (2, 16, 8.0), (3, 16, 15.75), (5, 16, 63.02), (6, 16, 121.0)]
)
def test_what_a_pcie_link_carries(generation: int, width: int, gbps: float) -> None:
    assert pcie_gbps(generation, width) == gbps


@pytest.mark.parametrize(("generation", "width"), [(None, 16), (5, None), (0, 16), (7, 16), (5, 0)])
def test_an_unknown_link_has_no_rate(generation: int | None, width: int | None) -> None:
    assert pcie_gbps(generation, width) is None


def test_generations_by_the_kernels_words() -> None:
    assert [pcie_generation(rate) for rate in (2.5, 5.0, 8.0, 16.0, 32.0, 64.0, 7.0)] == [1, 2, 3, 4, 5, 6, None]


# Both directions of all links together, as the data sheets have it.
@pytest.mark.parametrize(
    ("version", "links", "both_gbps"),
    [("1.0", 4, 160), ("2.0", 6, 300), ("3.0", 12, 600), ("4.0", 18, 900), ("5.0", 18, 1800)],
)
def test_links_add_up_to_the_data_sheets(version: str, links: int, both_gbps: float) -> None:
    assert 2 * links * NVLINK_GBPS[version] == both_gbps
