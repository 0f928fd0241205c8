"""Tests that data are correct for any assignment of ranks to threads and processes, also several GPUs per thread."""

import pytest

from .machine import Machine, expect_nothing_wrong

SIZES = ["--sizes", "8,5000,1M", "-n", 7]


@pytest.mark.parametrize("flags", [[], ["-G", 2]], ids=lambda flags: "".join(map(str, flags)))
def test_ping_pong_of_one_thread(gpus: Machine, flags: list[object]) -> None:
    """One rank of a pair sends first and the other receives first, with the same number of calls."""
    if gpus.count % 2:
        pytest.skip("this takes pairs of GPUs")
    finished = gpus.run("sendrecv", *gpus.ranks("g"), *SIZES, "--ping-pong", 1, *flags)
    expect_nothing_wrong(finished, "sendrecv")


def test_steps_that_depend_on_each_other(gpus: Machine) -> None:
    """-g must not start the steps of a hypercube as one group. -m does, as in nccl-tests: several cubes at once."""
    if gpus.count not in (2, 4, 8, 16):
        pytest.skip("this takes a power of two of GPUs")
    for flags in (["-m", 3], ["-z", 2], ["-G", 1, "-m", 2]):
        expect_nothing_wrong(gpus.run("hypercube", *gpus.ranks("g"), *SIZES, *flags), "hypercube")


def test_threads_of_several_gpus(gpus: Machine) -> None:
    if gpus.count < 4:
        pytest.skip("this takes four GPUs")
    for flags in (["-y", 1, "-u", 1], ["-G", 2, "-I", 1], ["-z", 3, "-C", 1], ["-m", 4, "-a", 3]):
        finished = gpus.run("alltoallv", *gpus.ranks("tg"), *SIZES, *flags)
        expect_nothing_wrong(finished, "alltoallv")


def test_processes_of_several_gpus_in_groups(gpus: Machine) -> None:
    """Each process is a separate group, and all processes are one group."""
    if gpus.count < 4:
        pytest.skip("this takes four GPUs")
    ranks = ["--processes", 2, "-g", gpus.count // 2]
    for environment, groups in (({"NCCL_TESTS_SPLIT": "MOD 2"}, {0, 1}), ({}, {0})):
        finished = gpus.run("all_gather", *ranks, *SIZES, environment=environment)
        expect_nothing_wrong(finished, "all_gather")
        assert {row["group"] for row in finished.rows()} == groups


def test_the_null_stream_cannot_be_recorded(gpus: Machine) -> None:
    finished = gpus.run("all_reduce", *gpus.ranks("g"), "-y", 1, "-G", 1)
    assert finished.code == 2
    assert "null stream" in finished.sentence()
