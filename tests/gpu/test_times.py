"""Tests of time, device time and launch time, of each rank's arrival and clocks, and of times per iteration with -G."""

import pytest

from .machine import Machine

pytestmark = pytest.mark.alone  # other tests would use the processors that launch

WAYS = ["g", "t", "processes"]
TIMED = ["-c", 0, "-n", 40, "-w", 5]


@pytest.mark.parametrize("way", WAYS)
def test_a_small_message_has_three_times(several: Machine, way: str) -> None:
    finished = several.run("all_reduce", *several.ranks(way), "--sizes", "1K,4K", *TIMED, "--report-times", 1)
    assert finished.code == 0, finished
    assert finished.stdout.count("# Times: ") == 4
    for row in finished.rows():
        if not several.on_gpus:
            assert row["device_time_us"] is row["launch_time_us"] is None
            continue
        # After the gate opens, times include neither launches nor waits for other ranks.
        assert 0 < row["device_time_us"] <= row["time_us"] * 1.1, row
        assert 0 < row["launch_time_us"] <= row["time_us"] * 1.1, row
        for name in ("rank_device_times_us", "rank_launch_times_us", "rank_arrivals_us"):
            assert len(row[name]) == several.count, row
        assert min(row["rank_arrivals_us"]) == 0, row
        # All ranks begin and end at the same time.
        assert max(row["rank_device_times_us"]) < 1.2 * min(row["rank_device_times_us"]), row


def test_a_large_message_takes_what_the_device_takes(several: Machine, gpus: Machine) -> None:
    (row,) = gpus.run("all_reduce", *gpus.ranks("g"), "--sizes", "256M", "--placement", "in", *TIMED).rows()
    assert row["device_time_us"] == pytest.approx(row["time_us"], rel=0.05)
    assert row["launch_time_us"] < row["time_us"] / 4


def test_waiting_leaves_no_device_time(gpus: Machine) -> None:
    for blocking in (1, 2, 3):
        (row,) = gpus.run(
            "all_reduce", *gpus.ranks("g"), "--sizes", "1K", "--placement", "in", "-z", blocking, *TIMED
        ).rows()
        assert row["device_time_us"] is None
        assert row["launch_time_us"] > 0


@pytest.mark.parametrize("way", WAYS)
def test_graphs_have_a_time_for_each_iteration(several: Machine, gpus: Machine, way: str) -> None:
    finished = gpus.run("all_reduce", *gpus.ranks(way), "--sizes", "1K", "-n", 10, "-G", 4, "-I", 1)
    assert finished.code == 0, finished
    for row in finished.rows():
        assert row["stats"]["samples"] == 40
        assert [len(samples) for samples in row["samples_us"]] == [40] * gpus.count
        assert all(sample > 0 for samples in row["samples_us"] for sample in samples)
        assert row["check"]["wrong_elements"] == 0
        # Graphs with timestamps begin together, so no rank waits for another rank's launch.
        assert row["rank_arrivals_us"] == []
        # A graph of 10 operations has almost no launch time.
        assert row["device_time_us"] <= row["time_us"] * 1.1, row


def test_clocks_are_told(gpus: Machine) -> None:
    finished = gpus.run("all_reduce", *gpus.ranks("t"), "--sizes", "1K,64M", *TIMED)
    (run,) = finished.of_kind("run")
    most_mhz = [rank["most_clock_mhz"] for rank in run["ranks"]]
    for row in finished.rows():
        assert [clock["most_mhz"] for clock in row["rank_clocks"]] == most_mhz
        for clock in row["rank_clocks"]:
            assert 0 < clock["after_mhz"] <= clock["most_mhz"]
