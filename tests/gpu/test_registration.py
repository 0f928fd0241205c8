"""Tests of -R, -x and -M: registered buffers and policies keep data correct, and the memory report has figures."""

import pytest

from busbw.collectives import COLLECTIVES

from .machine import Machine, expect_nothing_wrong

SMALL = ["-b", 8, "-e", "16M", "-f", 128, "-n", 5]


@pytest.mark.parametrize("way", ["g", "t", "processes"])
@pytest.mark.parametrize("registration", [1, 2])
def test_registered_buffers(gpus: Machine, registration: int, way: str) -> None:
    finished = gpus.run("all_reduce", *gpus.ranks(way), *SMALL, "-R", registration)
    expect_nothing_wrong(finished, "all_reduce")
    (run,) = finished.of_kind("run")
    assert run["settings"]["local_register"] == registration


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_program_with_symmetric_windows(gpus: Machine, collective: str) -> None:
    expect_nothing_wrong(gpus.run(collective, *gpus.ranks("t"), *SMALL, "-R", 2), collective)


@pytest.mark.parametrize("registration", [1, 2])
def test_every_type_and_operator_in_registered_buffers(several: Machine, gpus: Machine, registration: int) -> None:
    everything = ["-d", "all", "-o", "all", "--sizes", "8,100003,1M", "-n", 1]
    expect_nothing_wrong(gpus.run("all_reduce", *gpus.ranks("t"), *everything, "-R", registration), "all_reduce")


def test_registered_and_misaligned(gpus: Machine) -> None:
    expect_nothing_wrong(gpus.run("all_reduce", *gpus.ranks("t"), *SMALL, "-u", 3, "-R", 2), "all_reduce")


@pytest.mark.parametrize("registration", [1, 2])
def test_registered_and_in_graphs(gpus: Machine, registration: int) -> None:
    expect_nothing_wrong(gpus.run("all_reduce", *gpus.ranks("g"), *SMALL, "-G", 2, "-R", registration), "all_reduce")


@pytest.mark.parametrize("registration", [1, 2])
def test_registered_in_groups(several: Machine, registration: int) -> None:
    if several.count < 4 or not several.on_gpus:
        pytest.skip("this takes four GPUs")
    split = {"NCCL_TESTS_SPLIT": "MOD 2"}
    finished = several.run("all_reduce", *several.ranks("processes"), *SMALL, "-R", registration, environment=split)
    expect_nothing_wrong(finished, "all_reduce")
    assert {row["group"] for row in finished.rows()} == {0, 1}


@pytest.mark.parametrize("policy", [0, 1, 2])
def test_policies(gpus: Machine, policy: int) -> None:
    """Policy 2 moves data without multiprocessors if buffers are in symmetric windows."""
    for collective in ("all_gather", "alltoall"):
        finished = gpus.run(collective, *gpus.ranks("t"), *SMALL, "-x", policy, "-R", 2)
        expect_nothing_wrong(finished, collective)
    (run,) = finished.of_kind("run")
    assert run["settings"]["cta_policy"] == policy


@pytest.mark.alone
@pytest.mark.parametrize("way", ["g", "processes"])
def test_memory_report(gpus: Machine, way: str) -> None:
    finished = gpus.run("all_reduce", *gpus.ranks(way), "-b", "64M", "-e", "64M", "-n", 2, "-M", 1)
    expect_nothing_wrong(finished, "all_reduce")
    (line,) = [line for line in finished.stdout.splitlines() if line.startswith("# GPU memory usage")]
    for share in ("Initialization", "User-Allocated", "Collective", "Total"):
        assert share in line
    assert "N/A" not in line
    (end,) = finished.of_kind("end")
    assert [memory["rank"] for memory in end["memory"]] == list(range(gpus.count))
    for memory in end["memory"]:
        # Two buffers of 64 MiB with their guards, and the memory of NCCL.
        assert memory["buffer_bytes"] >= 2 * (64 << 20)
        assert memory["buffer_bytes"] < 2 * (64 << 20) + (64 << 20)
        assert memory["library_bytes"] > 0
