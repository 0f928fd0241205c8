"""Tests that every element of every program, type, operator and placement is correct, and that wrong ones are named."""

import pytest

from busbw.collectives import COLLECTIVES

from .machine import ONLY_ROOT_HAS_A_RESULT, UNCHECKED_IN_PLACE, Finished, Machine, expect_nothing_wrong

EVERYTHING = ["-d", "all", "-o", "all", "-n", 1]
# Sizes below and above a tile of the data streams, and sizes with no common divisor.
SIZES = ["--sizes", "8,1000,100003,1M"]
TYPES = 12
FLOAT8 = 2
"""Types that older GPUs do not reduce and older versions of NCCL lack."""
OPERATORS = 6
REDUCING = {"all_reduce", "reduce_scatter", "reduce"}


def ways(count: int) -> list[str]:
    return ["g", "t", "processes", *(["tg"] if count >= 4 else [])]


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_type_operator_and_placement(several: Machine, collective: str) -> None:
    way = ways(several.count)[COLLECTIVES.index(collective) % len(ways(several.count))]
    finished = several.run(collective, *several.ranks(way), *EVERYTHING, *SIZES)
    expect_nothing_wrong(finished, collective)
    rows = finished.rows()
    types = TYPES - FLOAT8 if "-d all skips f8e4m3 and f8e5m2" in finished.stdout else TYPES
    assert len({row["dtype"] for row in rows}) == types
    if collective in REDUCING:
        assert len({(row["dtype"], row["redop"]) for row in rows}) == types * OPERATORS
    assert {row["placement"] for row in rows} == {"in_place", "out_of_place"}


@pytest.mark.parametrize(
    ("collective", "way"),
    [("all_reduce", "g"), ("all_reduce", "t"), ("all_reduce", "processes"), ("reduce_scatter", "g"), ("alltoall", "t")],
)
def test_large_data(several: Machine, collective: str, way: str) -> None:
    largest = ["-b", "4M", "-e", "256M" if several.on_gpus else "4M", "-f", 64]
    expect_nothing_wrong(several.run(collective, *several.ranks(way), *largest, "-n", 2), collective)


def test_more_than_4_gib(gpus: Machine) -> None:
    """Counts and offsets beyond 32 bits."""
    sizes = ["-b", "5G", "-e", "5G", "-n", 1, "-d", "int8"]
    expect_nothing_wrong(gpus.run("all_gather", *gpus.ranks("t"), *sizes), "all_gather")


@pytest.mark.parametrize("collective", ["broadcast", "reduce", "gather", "scatter"])
def test_every_root(several: Machine, collective: str) -> None:
    finished = several.run(collective, *several.ranks("g"), "-r", "all", "-b", "1K", "-e", "64K", "-f", 64, "-n", 1)
    expect_nothing_wrong(finished, collective)
    assert {row["root"] for row in finished.rows()} == set(range(several.count))


@pytest.mark.parametrize("unaligned", [1, 3])
def test_misaligned_buffers(several: Machine, unaligned: int) -> None:
    finished = several.run(
        "all_reduce", *several.ranks("t"), "-u", unaligned, "-d", "all", "--sizes", "24,5000,70000", "-n", 1
    )
    expect_nothing_wrong(finished, "all_reduce")


# ---- wrong on purpose ------------------------------------------------------------------------------------------------


def expect_exactly(finished: Finished, collective: str, rank: int, index: int) -> None:
    """Asserts exit code 1, and exactly this one wrong element in every checked row."""
    assert finished.code == 1, finished
    for row in finished.rows():
        if row["placement"] == "in_place" and collective in UNCHECKED_IN_PLACE:
            continue
        check = row["check"]
        assert (check["state"], check["wrong_elements"], check["wrong_ranks"]) == ("checked", 1, 1), row
        (wrong,) = check["first_wrong"]
        assert (wrong["rank"], wrong["index"], wrong["place"]) == (rank, index, "receive buffer"), row


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_one_flipped_bit_is_named(several: Machine, collective: str) -> None:
    """For every type and operator.

    Where a kernel finds a difference the host compares all that belongs there, by its own definition: that it finds one
    element means that the device's data and the host's are the same, bit for bit.
    """
    bad = 0 if collective in ONLY_ROOT_HAS_A_RESULT else several.count - 1
    way = ways(several.count)[COLLECTIVES.index(collective) % 3]
    fault = f"flip:rank={bad},index=5,bit=3"
    finished = several.run(collective, *several.ranks(way), *EVERYTHING, "--sizes", "20000", "--fault", fault)
    expect_exactly(finished, collective, bad, 5)
    assert f"rank {bad}, receive buffer, index 5: expected " in finished.stdout


def test_a_write_past_the_end_is_named(several: Machine) -> None:
    finished = several.run(
        "all_reduce", *several.ranks("g"), "-b", 100, "-e", 100, "-n", 1, "--fault", "overrun:rank=1"
    )
    assert finished.code == 1
    for row in finished.rows():
        (wrong,) = row["check"]["first_wrong"]
        assert (wrong["rank"], wrong["place"], wrong["index"]) == (1, "guard after the receive buffer, byte", 0)
