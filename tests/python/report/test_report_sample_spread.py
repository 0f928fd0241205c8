"""Scatter: quartiles against the standard library, and what a log does not say is not drawn."""

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from report_pages import svg_root
from sample_logs import STATS, figure

from busbw.report.sample_spread import picture, spread_of

TIMES = st.lists(st.floats(min_value=0.1, max_value=1e6), min_size=2, max_size=50)


@given(TIMES)
def test_one_rank(times: list[float]) -> None:
    found = spread_of(8, [figure(samples_us=(tuple(times),))])
    assert found is not None
    quarter, median, three = statistics.quantiles(times, n=4, method="inclusive")
    assert (found.low_us, found.high_us, found.samples) == (min(times), max(times), len(times))
    assert found.quartiles_us == pytest.approx((quarter, three))
    assert found.median_us == pytest.approx(median)


def test_an_iteration_lasts_until_its_last_rank_has_ended() -> None:
    found = spread_of(8, [figure(samples_us=((1.0, 9.0, 3.0), (4.0, 2.0, 3.5)))])
    assert found is not None
    assert found.values_us == (4.0, 9.0, 3.5)


def test_passes_are_combined_without_skipped_iterations() -> None:
    passes = [
        figure(samples_us=((99.0, 1.0, 2.0),), stats=replace(STATS, samples=2)),
        figure(samples_us=((98.0, 3.0),), stats=replace(STATS, samples=1)),
    ]
    found = spread_of(8, passes)
    assert found is not None
    assert found.values_us == (1.0, 2.0, 3.0)


def test_a_summary_is_enough_but_has_no_quartiles() -> None:
    of_stats = spread_of(8, [figure(stats=STATS)])
    of_table = spread_of(8, [figure(16.0, per_iteration={"min_us": 12.0, "max_us": 24.0})])
    for found in (of_stats, of_table):
        assert found is not None
        assert (found.low_us, found.high_us) == (12, 24)
        assert found.quartiles_us is None
        assert found.values_us == ()
    assert of_table is not None
    assert of_table.median_us is None  # the table has a mean
    made = picture("Scatter", [of_table])
    assert made is not None
    assert "median" not in [entry.label for entry in made.legend]


def test_no_spread_without_data() -> None:
    assert spread_of(8, [figure()]) is None
    assert picture("scatter", []) is None


def test_the_picture() -> None:
    spreads = [
        one for size in (8, 16) if (one := spread_of(size, [figure(samples_us=((1.0, 2.0, 8.0), (1.0, 3.0, 4.0)))]))
    ]
    made = picture("Scatter, in place", spreads)
    assert made is not None
    root = svg_root(made.svg)
    assert root.get("aria-label") == made.alt_text
    assert "1 to 8 us" in made.alt_text
    assert len([one for one in root.iter("rect") if one.get("class") == "box"]) == 2
    dots = [one.get("d") or "" for one in root.iter("path") if one.get("class") == "dots"]
    assert [path.count("M") for path in dots] == [3, 3]


def test_very_many_iterations_are_not_drawn_one_by_one() -> None:
    spread = spread_of(8, [figure(samples_us=(tuple(float(number) for number in range(1, 2000)),))])
    assert spread is not None
    made = picture("Scatter", [spread])
    assert made is not None
    assert 'class="dots"' not in made.svg
    assert "1,999 iterations" in made.note


def test_samples_that_measure_another_time_than_the_row_say_so() -> None:
    """A program of 12.89 us per operation, and 6.98 us on the device: two times of one row."""
    device = figure(12.89, samples_us=((6.98, 7.1),), sample_clock="gated_device_events", device_time_us=6.98)
    program = figure(400.0, samples_us=((399.0, 401.0),), sample_clock="device_events", device_time_us=399.0)
    unknown = figure(12.89, samples_us=((6.98, 7.1),), device_time_us=6.98)
    spreads = [spread_of(size, [one]) for size, one in ((8, device), (1 << 20, program), (16, unknown))]
    made = picture("Scatter", [spread for spread in spreads if spread])
    assert made is not None
    assert "At 8 B: device times, which exclude launches." in made.note
    assert "At 16 B: the log does not state if these times include launches" in made.note
    assert "1 MiB" not in made.note
    plain = picture("Scatter", [one for one in (spread_of(8, [figure(samples_us=((1.0, 2.0),))]),) if one])
    assert plain is not None
    assert plain.note == ""
