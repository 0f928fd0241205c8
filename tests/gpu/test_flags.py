"""Tests that flags for the issue of operations keep data correct and print the expected lines."""

import pytest

from .machine import Machine, expect_nothing_wrong

SMALL = ["--sizes", "8,4K,1M", "-n", 10]


@pytest.mark.parametrize("way", ["g", "t", "processes"])
@pytest.mark.parametrize(
    "flags",
    [["-G", 1], ["-G", 3, "-I", 1, "-m", 2], ["-z", 1], ["-z", 3, "-I", 1], ["-y", 1], ["-C", 1, "-a", 3]],
    ids=lambda flags: "".join(map(str, flags)),
)
def test_ways_of_issuing(gpus: Machine, way: str, flags: list[object]) -> None:
    finished = gpus.run("all_reduce", *gpus.ranks(way), *SMALL, *flags)
    expect_nothing_wrong(finished, "all_reduce")
    assert len(finished.rows()) == 6
    for row in finished.rows():
        assert row["time_us"] > 0


@pytest.mark.parametrize("collective", ["alltoall", "hypercube", "sendrecv", "reduce_scatter"])
def test_graphs_of_other_collectives(gpus: Machine, collective: str) -> None:
    expect_nothing_wrong(gpus.run(collective, *gpus.ranks("g"), *SMALL, "-G", 2), collective)


def test_two_groups(several: Machine) -> None:
    """With NCCL_TESTS_SPLIT, groups of non-adjacent ranks."""
    if several.count < 4:
        pytest.skip("this takes four GPUs")
    split = {"NCCL_TESTS_SPLIT": "MOD 2"}
    finished = several.run("all_reduce", *several.ranks("processes"), *SMALL, environment=split)
    expect_nothing_wrong(finished, "all_reduce")
    assert {row["group"] for row in finished.rows()} == {0, 1}


@pytest.mark.parametrize("way", ["g", "t", "processes"])
def test_parallel_initialisation(gpus: Machine, way: str) -> None:
    expect_nothing_wrong(gpus.run("all_reduce", *gpus.ranks(way), *SMALL, "-p", 1), "all_reduce")


def test_the_first_gpu_can_be_named(several: Machine, gpus: Machine) -> None:
    """NCCL_TESTS_DEVICE: ranks take GPUs from this one on, without wrapping around to the first."""
    second = {"NCCL_TESTS_DEVICE": "1"}
    tiny = ["-b", 8, "-e", 8, "-n", 1]
    taken = []
    for count, environment in ((gpus.count, {}), (gpus.count - 1, second)):
        finished = gpus.run("all_reduce", "-g", count, *tiny, environment=environment)
        expect_nothing_wrong(finished, "all_reduce")
        (run,) = finished.of_kind("run")
        taken.append([rank["bus_id"] for rank in run["ranks"]])
    assert taken[1] == taken[0][1:]
    refused = gpus.run("all_reduce", "-g", gpus.count, *tiny, environment=second)
    assert refused.code == 3, refused
    assert f"GPUs 1 to {gpus.count} are needed" in refused.sentence()


def test_one_gpu(machine: Machine) -> None:
    finished = machine.run("all_reduce", "-t", 1, "-b", "1M", "-e", "4M", "-f", 2, "-n", 3)
    expect_nothing_wrong(finished, "all_reduce")
    assert "# One rank: nothing crosses a link, so busbw is 0" in finished.stdout
    assert {row["busbw_gbps"] for row in finished.rows()} == {0}
