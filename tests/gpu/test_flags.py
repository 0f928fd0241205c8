"""Do the flags that change how operations are issued keep data right and say what they should?"""

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
    """Under NCCL_TESTS_SPLIT, of ranks that lie apart."""
    if several.count < 4:
        pytest.skip("this takes four GPUs")
    split = {"NCCL_TESTS_SPLIT": "MOD 2"}
    finished = several.run("all_reduce", *several.ranks("processes"), *SMALL, environment=split)
    expect_nothing_wrong(finished, "all_reduce")
    assert {row["group"] for row in finished.rows()} == {0, 1}


def test_one_gpu(machine: Machine) -> None:
    finished = machine.run("all_reduce", "-t", 1, "-b", "1M", "-e", "4M", "-f", 2, "-n", 3)
    expect_nothing_wrong(finished, "all_reduce")
    assert "# One rank: nothing crosses a link, so busbw is 0" in finished.stdout
    assert {row["busbw_gbps"] for row in finished.rows()} == {0}
