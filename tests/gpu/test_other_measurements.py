"""Tests of measurements besides the table of a collective: other traffic, and uneven counts."""

import pytest

from .machine import Machine, expect_nothing_wrong


@pytest.mark.alone
@pytest.mark.parametrize("way", ["t", "processes"])
@pytest.mark.parametrize("neighbor", ["alltoall -b 16M -e 16M", "compute:matmul", "memory:copy"])
def test_time_next_to_a_neighbor(several_ranks: Machine, neighbor: str, way: str) -> None:
    """Also on one GPU that processes share (NCCL 2.30 or later, NCCL_MULTI_RANK_GPU_ENABLE=1)."""
    machine = several_ranks
    finished = machine.run("all_reduce", *machine.ranks(way), "--sizes", "64K,16M", "-n", 20, "--with", neighbor)
    expect_nothing_wrong(finished, "all_reduce")
    for row in finished.rows():
        together = row["together"]
        assert together["neighbor_operations"] > 0, row
        if together["time_us"] is None:  # the neighbor was idle for too long, so its cost is unknown
            assert together["active_percent"] < 90, row
            continue
        assert together["time_us"] == pytest.approx(row["time_us"] * together["ratio_to_alone"], rel=1e-3)
    machine.note(
        ", ".join(
            f"{row['size_bytes']} B {row['placement']}: {row['together']['ratio_to_alone']}" for row in finished.rows()
        )
    )


@pytest.mark.alone
@pytest.mark.parametrize("pattern", ["zipf:1.2", "hot:1", "zipf:0,seed=7"])
def test_uneven_counts(several_ranks: Machine, pattern: str) -> None:
    """Also on one GPU that processes share."""
    machine = several_ranks
    finished = machine.run("alltoallv", *machine.ranks("processes"), "--sizes", "1M,64M", "-n", 10, "--skew", pattern)
    expect_nothing_wrong(finished, "alltoallv")
    for row in finished.rows():
        skew = row["skew"]
        assert skew["imbalance"] >= 1, row
        time_at_balanced_rate = skew["balanced_time_us"] * skew["imbalance"]
        assert skew["bound_us"] == pytest.approx(min(row["time_us"], time_at_balanced_rate), rel=1e-3)
        assert skew["ratio_to_bound"] == pytest.approx(row["time_us"] / skew["bound_us"], rel=1e-3)
        assert skew["ratio_to_bound"] >= 1, row
    machine.note(", ".join(f"{row['size_bytes']} B: {row['skew']['ratio_to_bound']}" for row in finished.rows()))
