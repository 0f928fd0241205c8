"""Tests of -H: ranks put data into each other's buffers correctly, or a library that cannot is refused.

They also run on one GPU that processes share: NCCL 2.30 or later, NCCL_MULTI_RANK_GPU_ENABLE=1.
"""

import pytest

from .machine import Finished, Machine, expect_nothing_wrong

COLLECTIVES = ["all_gather", "alltoall", "broadcast", "gather", "scatter", "sendrecv"]
ENVIRONMENT = 3
USAGE = 2
SIZES = ["--sizes", "8,1000,100003,1M,33M", "-n", 3]


def is_refused(finished: Finished, flag: str, since: str) -> bool:
    """True if the library or machine is refused. Asserts that the message names the flag and a reason."""
    if finished.code == ENVIRONMENT:
        assert flag in finished.stderr, finished
        reasons = [f"{since} or later", f"{flag} (--host_rma_implementation): NCCL reports"]
        assert any(reason in finished.stderr for reason in reasons), finished
        return True
    return False


def expect_puts(finished: Finished, collective: str, contexts: int) -> None:
    """Asserts that the data is right, and that the record states the puts."""
    expect_nothing_wrong(finished, collective)
    (run,) = finished.of_kind("run")
    assert (run["settings"]["one_sided"], run["settings"]["rma_contexts"]) == (True, contexts)


def windows(machine: Machine) -> list[object]:
    """Returns the flags that GPUs need for puts."""
    return ["-R", 2] if machine.on_gpus else []


@pytest.mark.parametrize("way", ["g", "t", "processes"])
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_one_sided(several_ranks: Machine, collective: str, way: str) -> None:
    machine = several_ranks
    finished = machine.run(collective, *machine.ranks(way), *SIZES, "-u", 1, "-m", 2, *windows(machine), "-H", 1)
    if is_refused(finished, "-H 1", "2.29"):
        machine.note("refused: " + finished.sentence())
        return
    expect_puts(finished, collective, 1)


@pytest.mark.parametrize("contexts", [2, 3])
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_several_contexts(several_ranks: Machine, collective: str, contexts: int) -> None:
    machine = several_ranks
    finished = machine.run(collective, *machine.ranks("processes"), *SIZES, *windows(machine), "-H", contexts)
    if not machine.on_gpus:
        assert "use -H 1" in finished.stderr
        return
    if is_refused(finished, f"-H {contexts}", "2.31"):
        machine.note("refused: " + finished.sentence())
        return
    expect_puts(finished, collective, contexts)


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_puts_in_a_graph(several_ranks: Machine, collective: str) -> None:
    machine = several_ranks
    if not machine.on_gpus:
        pytest.skip("this test needs GPUs")
    finished = machine.run(collective, *machine.ranks("processes"), *SIZES, *windows(machine), "-H", 1, "-G", 2)
    if is_refused(finished, "-H 1", "2.30"):
        machine.note("refused: " + finished.sentence())
        return
    expect_puts(finished, collective, 1)


def test_puts_need_windows(several_ranks: Machine) -> None:
    machine = several_ranks
    if not machine.on_gpus:
        pytest.skip("this test needs GPUs")
    for registration in (0, 1):
        finished = machine.run("alltoall", *machine.ranks("processes"), "-b", 8, "-e", 8, "-H", 1, "-R", registration)
        assert finished.code == USAGE, finished
        assert "-H 1 (--host_rma_implementation)" in finished.sentence()
        assert "add -R 2" in finished.sentence()
