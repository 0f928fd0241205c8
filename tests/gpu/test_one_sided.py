"""Tests of -H: ranks put data into each other's buffers correctly, or NCCL before 2.29 is refused."""

import pytest

from .machine import Machine, expect_nothing_wrong

COLLECTIVES = ["all_gather", "alltoall", "broadcast", "gather", "scatter", "sendrecv"]
ENVIRONMENT = 3


@pytest.mark.parametrize("way", ["g", "t", "processes"])
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_one_sided(several: Machine, collective: str, way: str) -> None:
    windows = ["-R", 2] if several.on_gpus else []
    sizes = ["--sizes", "8,1000,100003,1M,33M", "-n", 3, "-u", 1, "-m", 2]
    finished = several.run(collective, *several.ranks(way), *sizes, *windows, "-H", 1)
    if finished.code == ENVIRONMENT:
        assert "-H 1 (--one_sided)" in finished.stderr
        assert "2.29 or later" in finished.stderr
        return
    expect_nothing_wrong(finished, collective)
    (run,) = finished.of_kind("run")
    assert run["settings"]["one_sided"]
