"""Tests of the shape of a sweep."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from busbw.statistics.fit import features, fit, half_bandwidth_bytes

SIZES = [8 << (2 * step) for step in range(15)]


def sweep(latency_us: float, gbps: float) -> list[tuple[int, float]]:
    """A machine that is exactly as the postal model has it; busbw is algbw."""
    return [(size, latency_us + size / gbps / 1e3) for size in SIZES]


@given(st.floats(0.5, 500), st.floats(0.1, 1000))
def test_the_parameters_of_a_sweep_are_found(latency_us: float, gbps: float) -> None:
    found = fit(sweep(latency_us, gbps), 1.0)
    assume(SIZES[-1] / gbps / 1e3 > latency_us)  # otherwise no size shows the bandwidth
    assert found is not None
    assert found.latency_us == pytest.approx(latency_us, rel=1e-3)
    assert found.bandwidth_gbps == pytest.approx(gbps, rel=1e-3)
    assert found.half_bytes == pytest.approx(latency_us * gbps * 1e3, rel=1e-2)
    assert found.error < 1e-3


def test_one_outlier_has_little_effect() -> None:
    points = sweep(10, 100)
    points[7] = (points[7][0], 8 * points[7][1])
    found = fit(points, 1.0)
    assert found is not None
    assert found.latency_us == pytest.approx(10, rel=0.1)
    assert found.bandwidth_gbps == pytest.approx(100, rel=0.1)


def test_the_factor_makes_busbw_of_it() -> None:
    found = fit(sweep(10, 100), 1.75)
    assert found is not None
    assert found.bandwidth_gbps == pytest.approx(175, rel=1e-3)


@pytest.mark.parametrize(
    "points", [[], [(8, 1.0)], [(8, 1.0), (16, 1.1)], [(8, 3.0)] * 5, [(0, 1.0), (8, 0.0), (16, 1.0), (32, 1.0)]]
)
def test_too_few_points_have_no_fit(points: list[tuple[int, float]]) -> None:
    assert fit(points, 1.0) is None


def test_time_that_does_not_grow_has_no_bandwidth() -> None:
    assert fit([(8, 4.0), (8 << 10, 3.0), (8 << 20, 2.0)], 1.0) is None


def test_a_fit_never_has_a_negative_latency() -> None:
    found = fit([(1 << 20, 1.0), (1 << 21, 4.0), (1 << 22, 16.0)], 1.0)
    assert found is not None
    assert found.latency_us is None  # a missing value is never zero
    assert found.half_bytes is None


def test_large_sizes_with_noise_do_not_show_the_latency() -> None:
    noise = (1.004, 1.0, 1.006, 0.998, 1.001, 0.995)
    points = [(size << 28, (20 + (size << 28) / 300e3) * share) for size, share in zip(SIZES[:6], noise, strict=True)]
    found = fit(points, 1.0)
    assert found is not None
    assert found.latency_us is None
    assert found.half_bytes is None
    assert found.bandwidth_gbps == pytest.approx(300, rel=0.01)
    assert found.error < 0.01


def test_the_half_bandwidth_size_lies_where_half_is_reached() -> None:
    points = sweep(10, 100)
    half = half_bandwidth_bytes([(size, size / time / 1e3) for size, time in points])
    # t = 10 us + s/100 GB/s reaches 50 GB/s at s = 1 MB; two sizes a factor of 4 apart bound how well that is found.
    assert half is not None
    assert 0.5e6 < half < 2e6


def test_a_curve_that_begins_high_has_no_half_size() -> None:
    assert half_bandwidth_bytes([(8, 60.0), (16, 100.0)]) is None
    assert half_bandwidth_bytes([(8, 60.0), (16, 40.0), (32, 100.0)]) is None  # a dip after half was reached
    assert half_bandwidth_bytes([(8, 1.0)]) is None
    assert half_bandwidth_bytes([]) is None


@given(st.floats(1, 100), st.floats(1, 500))
def test_a_smooth_sweep_has_no_features(latency_us: float, gbps: float) -> None:
    assert features(sweep(latency_us, gbps), 1.0) == ()


def slower(points: list[tuple[int, float]], sizes: list[int], times: float) -> list[tuple[int, float]]:
    return [(size, time * times if size in sizes else time) for size, time in points]


def test_one_slow_size_is_a_dip() -> None:
    found = features(slower(sweep(10, 100), [SIZES[12]], 1.5), 1.0)
    assert [(one.kind, one.size_bytes) for one in found] == [("dip", SIZES[12])]
    assert "only one size" in found[0].likely
    assert "again at larger ones" in found[0].evidence


def test_several_dips_are_not_explained_as_the_only_one() -> None:
    found = features(slower(sweep(10, 100), [SIZES[11], SIZES[13]], 2.0), 1.0)
    dips = [one for one in found if one.kind == "dip"]
    assert [one.size_bytes for one in dips] == [SIZES[11], SIZES[13]]
    assert {one.likely for one in dips} == {
        "one of 2 sizes that dip: an unsteady measurement, or a poor choice of protocol"
    }


def test_all_larger_sizes_are_a_cliff() -> None:
    found = features(slower(sweep(10, 100), SIZES[12:], 2.0), 1.0)
    assert [(one.kind, one.size_bytes) for one in found] == [("cliff", SIZES[12])]
    assert found[0].depth == pytest.approx(0.5, abs=0.05)


def test_a_drop_at_the_last_size_is_named() -> None:
    found = features(slower(sweep(10, 100), SIZES[-1:], 1.5), 1.0)
    assert [one.kind for one in found] == ["dip"]
    assert "only the largest size" in found[0].likely


def test_several_sizes_point_at_the_library() -> None:
    found = features(slower(sweep(10, 100), SIZES[11:13], 2.0), 1.0)
    assert len(found) == 1
    assert "algorithm or protocol" in found[0].likely


def test_a_switch_of_protocol_is_a_step() -> None:
    # 22 us up to 512 KiB, then 37.65: the figures of a published sweep on 8 GPUs.
    times = {18: 22.00, 19: 23.57, 20: 37.65, 21: 45.95, 22: 70.01}
    found = features([(1 << power, time) for power, time in times.items()], 1.75)
    assert [(one.kind, one.size_bytes) for one in found] == [("step", 1 << 20)]
    assert "23.57 to 37.65" in found[0].evidence


def test_a_spike_is_not_a_switch() -> None:
    # 63 us between sizes of 46: published, and gone in the other placement.
    found = features([(256, 45.95), (512, 45.97), (1024, 63.32), (2048, 45.98), (4096, 45.85)], 31 / 32)
    assert [(one.kind, one.size_bytes) for one in found] == [("dip", 1024)]
    assert "only one size" in found[0].likely
