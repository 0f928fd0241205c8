"""Tests of -D and -V: kernels on NCCL's device API are correct, and kernels that cannot run are refused with an error.

Kernels with NVLink multicast never run here. Only their refusal is tested.
"""

import pytest

from .machine import Machine, expect_nothing_wrong

KERNELS = [("all_reduce", 1), ("all_reduce", 2), ("alltoall", 1), ("alltoall", 2)]
# Single elements, less than a vector, odd counts, more than one iteration of all threads.
SIZES = ["--sizes", "8,40,1000,100003,1M,33M", "-n", 3]
ENVIRONMENT = 3


@pytest.mark.parametrize(
    ("collective", "number", "way"),
    [(collective, 2, way) for collective in ("all_reduce", "alltoall") for way in ("g", "t", "processes")]
    + [("all_reduce", 1, "g"), ("alltoall", 1, "processes")],
)
def test_sizes(several: Machine, collective: str, number: int, way: str) -> None:
    needs_gpus(several)
    finished = several.run(collective, *several.ranks(way), *SIZES, "-R", 2, "-D", number)
    expect_nothing_wrong(finished, collective)
    (run,) = finished.of_kind("run")
    assert run["settings"]["device_implementation"] == number
    assert run["settings"]["device_cta_count"] == 16


@pytest.mark.parametrize(
    ("number", "operator"), [(2, "sum"), (2, "prod"), (2, "max"), (2, "min"), (2, "avg"), (1, "sum"), (1, "avg")]
)
def test_every_type_and_operator(several: Machine, number: int, operator: str) -> None:
    needs_gpus(several)
    everything = ["-d", "all", "-o", operator, "--sizes", "8,1000,100003,4M", "-n", 1]
    finished = several.run("all_reduce", *several.ranks("t"), *everything, "-R", 2, "-D", number)
    expect_nothing_wrong(finished, "all_reduce")
    assert len({row["dtype"] for row in finished.rows()}) == 12


@pytest.mark.parametrize("number", [1, 2])
def test_every_type_of_alltoall(several: Machine, number: int) -> None:
    needs_gpus(several)
    everything = ["-d", "all", "--sizes", "64,1000,100003,4M", "-n", 1]
    expect_nothing_wrong(several.run("alltoall", *several.ranks("t"), *everything, "-R", 2, "-D", number), "alltoall")


@pytest.mark.parametrize(("collective", "number"), KERNELS)
def test_misaligned(several: Machine, collective: str, number: int) -> None:
    needs_gpus(several)
    misaligned = ["-u", 3, "-d", "all", "--sizes", "64,5000,70000,1M", "-n", 1]
    expect_nothing_wrong(several.run(collective, *several.ranks("t"), *misaligned, "-R", 2, "-D", number), collective)


@pytest.mark.parametrize("ctas", [1, 128])
@pytest.mark.parametrize(("collective", "number"), [("all_reduce", 2), ("alltoall", 1)])
def test_cta_counts(several: Machine, collective: str, number: int, ctas: int) -> None:
    needs_gpus(several)
    finished = several.run(
        collective, *several.ranks("t"), "-b", 1000, "-e", "8M", "-f", 90, "-n", 2, "-R", 2, "-D", number, "-V", ctas
    )
    expect_nothing_wrong(finished, collective)


@pytest.mark.parametrize(("collective", "number"), KERNELS)
def test_in_graphs(several: Machine, collective: str, number: int) -> None:
    needs_gpus(several)
    finished = several.run(collective, *several.ranks("t"), *SIZES, "-R", 2, "-D", number, "-G", 2)
    expect_nothing_wrong(finished, collective)


@pytest.mark.parametrize("number", [3, 4])
def test_multicast_that_is_switched_off(several: Machine, number: int) -> None:
    needs_gpus(several)
    finished = several.run(
        "all_reduce", *several.ranks("t"), "-R", 2, "-D", number, environment={"NCCL_NVLS_ENABLE": "0"}
    )
    assert finished.code == ENVIRONMENT
    assert f"-D {number}" in finished.stderr
    assert "NCCL_NVLS_ENABLE=0" in finished.stderr


@pytest.mark.parametrize("number", [3, 4])
def test_transfers_that_the_gpu_starts(several: Machine, number: int) -> None:
    """Correct if the network supports it, otherwise an error. `outcome.txt` records which it was."""
    needs_gpus(several)
    finished = several.run("alltoall", *several.ranks("t"), *SIZES, "-R", 2, "-D", number)
    if finished.code == 0:
        expect_nothing_wrong(finished, "alltoall")
        several.note(f"alltoall_perf -D {number} ran, and every element was right")
    else:
        several.note(f"alltoall_perf -D {number} was refused: {finished.stderr.strip()}")
        assert finished.code == ENVIRONMENT
        assert f"-D {number}" in finished.stderr
        assert "GIN" in finished.stderr


def needs_gpus(machine: Machine) -> None:
    if not machine.on_gpus:
        pytest.skip("this takes GPUs")
