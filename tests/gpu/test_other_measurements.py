"""Tests of measurements besides the table of a collective: other traffic, and uneven counts."""

import pytest

from .machine import Machine, expect_nothing_wrong


@pytest.mark.alone
@pytest.mark.parametrize("neighbor", ["alltoall -b 16M -e 16M", "compute:matmul", "memory:copy"])
def test_time_next_to_a_neighbor(several: Machine, neighbor: str) -> None:
    finished = several.run("all_reduce", *several.ranks("t"), "--sizes", "64K,16M", "-n", 20, "--with", neighbor)
    expect_nothing_wrong(finished, "all_reduce")
    for row in finished.rows():
        together = row["together"]
        assert together["neighbor_operations"] > 0, row
        if together["time_us"] is None:  # the neighbor was idle for too long, so its cost is unknown
            assert together["active_percent"] < 90, row
            continue
        assert together["time_us"] == pytest.approx(row["time_us"] * together["ratio_to_alone"], rel=1e-3)
    several.note(
        ", ".join(
            f"{row['size_bytes']} B {row['placement']}: {row['together']['ratio_to_alone']}" for row in finished.rows()
        )
    )


@pytest.mark.alone
@pytest.mark.parametrize("pattern", ["zipf:1.2", "hot:1", "zipf:0,seed=7"])
def test_uneven_counts(several: Machine, pattern: str) -> None:
    finished = several.run("alltoallv", *several.ranks("processes"), "--sizes", "1M,64M", "-n", 10, "--skew", pattern)
    expect_nothing_wrong(finished, "alltoallv")
    for row in finished.rows():
        skew = row["skew"]
        assert skew["imbalance"] >= 1, row
        assert skew["bound_us"] == pytest.approx(skew["balanced_time_us"] * skew["imbalance"], rel=1e-3)
        assert skew["ratio_to_bound"] == pytest.approx(row["time_us"] / skew["bound_us"], rel=1e-3)
    several.note(", ".join(f"{row['size_bytes']} B: {row['skew']['ratio_to_bound']}" for row in finished.rows()))
