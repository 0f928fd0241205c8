"""Tests of comm_ops: calls with their functions, checks, timers of nccl-tests, and settings of the record.

They also run on one GPU that processes share: NCCL 2.30 or later, NCCL_MULTI_RANK_GPU_ENABLE=1.
"""

import re
from statistics import median

import pytest

from .machine import Finished, Machine

FUNCTIONS = {
    "init": {"ncclCommInitRankScalable", "ncclCommInitRank"},
    "split": {"ncclCommSplit"},
    "shrink": {"ncclCommShrink"},
    "grow": {"ncclCommGrow"},
}
"""Functions of each test that may create its communicator. NCCL before 2.23 has no ncclCommInitRankScalable."""
ITERATIONS = 3
FIXED = ["-s", "fixed", "-i", ITERATIONS]


def calls(finished: Finished, test: str) -> list[str]:
    """Returns the calls that have a row for `test`, without the rendezvous, which only some tests have."""
    names = [row["lifecycle"]["call"] for row in finished.rows() if row["lifecycle"]["test"] == test]
    return [name for name in names if name != "rendezvous"]


def is_missing(finished: Finished, test: str) -> bool:
    """True if the library lacks the function of the test, which the header then says."""
    return f"has no ncclComm{test.capitalize()}; use NCCL 2." in finished.stdout


def timer_counts(finished: Finished) -> dict[str, int]:
    """Returns the number of calls in the SUMMARY line of each timer."""
    lines = re.findall(r"^SUMMARY: Comm size +\d+, +(.+): Max .* Collectives +(\d+)$", finished.stdout, re.MULTILINE)
    counts = {name: int(count) for name, count in lines}
    assert len(counts) == len(lines), finished.stdout
    return counts


@pytest.mark.parametrize("way", ["g", "t", "processes"])
@pytest.mark.parametrize("flags", [[], ["-S"], ["-a"]], ids=["plain", "shared", "aborted"])
def test_communicators_are_created_used_and_ended(several_ranks: Machine, way: str, flags: list[str]) -> None:
    machine = several_ranks
    tests = ["split", "shrink"] if flags == ["-S"] else list(FUNCTIONS)  # only these two share resources
    finished = machine.run("comm_ops", ",".join(tests), *machine.ranks(way), *FIXED, *flags)
    assert (finished.code, finished.stderr) == (0, ""), finished
    ends = ["abort"] if flags == ["-a"] else ["finalize", "destroy"]
    if not machine.on_gpus:
        ends = [end for end in ends if end == "destroy"]  # the host backend has no other end
    for test in tests:
        expected = ["create", "first_all_reduce", "next_all_reduce", *ends]
        assert calls(finished, test) == ([] if is_missing(finished, test) else expected), test
    (run,) = finished.of_kind("run")
    assert (run["settings"]["share"], run["settings"]["abort"]) == (flags == ["-S"], flags == ["-a"])
    for row in finished.rows():
        assert row["time_us"] > 0, row
        assert len(row["rank_times_us"]) == len(row["samples_us"]) == row["ranks"], row
        assert all(len(samples) == ITERATIONS for samples in row["samples_us"]), row
        if row["lifecycle"]["call"].endswith("all_reduce"):
            assert (row["check"]["state"], row["check"]["wrong_elements"]) == ("checked", 0), row
        if machine.on_gpus and row["lifecycle"]["call"] == "create":
            assert row["lifecycle"]["function"] in FUNCTIONS[row["lifecycle"]["test"]], row
        if machine.on_gpus and row["lifecycle"]["call"].endswith("all_reduce"):
            assert 0 < row["launch_time_us"] <= row["time_us"], row
    machine.note(
        ", ".join(
            f"{row['collective']}: {median(time_us for rank_us in row['samples_us'] for time_us in rank_us):.0f} us"
            for row in finished.rows()
        )
    )


@pytest.mark.parametrize("test", list(FUNCTIONS))
def test_summary_lines_count_the_calls_of_nccl_tests(several_ranks: Machine, test: str) -> None:
    machine = several_ranks
    finished = machine.run("comm_ops", test, *machine.ranks("processes"), *FIXED, "-A", "-F", 1, "-b", 0)
    if is_missing(finished, test):
        assert not timer_counts(finished)
        return
    assert (finished.code, finished.stderr) == (0, ""), finished
    counts = timer_counts(finished)
    ends = ITERATIONS if test == "init" else ITERATIONS + 1  # the parent communicator ends once
    # On GPUs, a split or a shrink needs no rendezvous.
    may_lack_rendezvous = test in {"split", "shrink"}
    assert counts.pop(f"{test} rendezvous", ITERATIONS if may_lack_rendezvous else 0) == ITERATIONS
    if not machine.on_gpus:
        assert counts[f"{test} destroy"] == ends
        return
    creations = [count for name, count in counts.items() if name.removeprefix("NCCL ") in FUNCTIONS[test]]
    assert creations == [ITERATIONS]
    assert counts["NCCL ncclAllReduce"] == counts["(CUDA) Stream Synchronize"] == 2 * ITERATIONS
    assert counts["NCCL ncclCommFinalize"] == counts["NCCL ncclCommDestroy"] == ends
    assert len(counts) == 5, counts


def test_each_rank_may_be_a_root(several_ranks: Machine) -> None:
    machine = several_ranks
    finished = machine.run("comm_ops", "init", *machine.ranks("processes"), *FIXED, "-R", 1)
    if finished.code == 3:
        assert "ncclCommInitRankScalable" in finished.stderr or "2.23" in finished.stderr, finished
        return
    assert (finished.code, finished.stderr) == (0, ""), finished
    note = "Scalable Comm Initialization was performed with a root for every 1 ranks"
    assert (note in finished.stdout) == machine.on_gpus


def test_a_sweep_halves_the_ranks(several_ranks: Machine) -> None:
    machine = several_ranks
    finished = machine.run("comm_ops", "init", *machine.ranks("processes"), "-i", 1)
    assert (finished.code, finished.stderr) == (0, ""), finished
    created = [row["ranks"] for row in finished.rows() if row["lifecycle"]["call"] == "create"]
    assert created == sorted(created, reverse=True)
    assert (created[0], created[-1]) == (machine.count, 1)
