"""Logs of NCCL with several jobs, or with repeated text."""

import re
from pathlib import Path

import pytest

from busbw.traces.importers import IMPORTERS
from busbw.traces.model import Trace

(NCCL_LOG,) = (importer for importer in IMPORTERS if importer.name == "NCCL log")
SECOND = 1_000_000


def log_of_process(
    pid: int, rank: int, counts: list[int], *, identity: str, gpu: int | None = None, start_us: int | None = None
) -> str:
    """Returns the log of a process with one communicator of 2 ranks, and a call for each count."""
    gpu = rank if gpu is None else gpu
    head = f"n1:{pid}:{pid} [{gpu}] NCCL INFO "
    init = f"ncclCommInitRank comm 0xa{gpu} rank {rank} nranks 2 cudaDev {gpu} nvmlDev {gpu} busId {gpu}b000"
    lines = [f"{head}{init} commId {identity} - Init {state}" for state in ("START", "COMPLETE")]
    for number, count in enumerate(counts):
        time_us = None if start_us is None else start_us + number
        time = "" if time_us is None else f"[2026-11-29 10:00:{time_us // SECOND:02}.{time_us % SECOND:06}] "
        lines.append(
            f"{time}{head}AllReduce: opCount {number:x} sendbuff 0x70 recvbuff 0x70 count {count} datatype 7 op 0"
            f" root 0 comm 0xa{gpu} [nranks=2] stream 0x5"
        )
    return "\n".join(lines) + "\n"


def job(first_pid: int, counts: list[int], identity: str, start_us: int | None = None, first_gpu: int = 0) -> list[str]:
    return [
        log_of_process(first_pid + rank, rank, counts, identity=identity, gpu=first_gpu + rank, start_us=start_us)
        for rank in range(2)
    ]


def read_files(folder: Path, *texts: str) -> Trace:
    paths = [folder / f"{number:02}.log" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    return NCCL_LOG.read(paths)


def counts_of(trace: Trace) -> dict[int, list[int]]:
    return {rank.rank: rank.operations["count"].tolist() for rank in trace.ranks}


OLDER, NEWER = [1, 2, 3], [7, 8]
OLDER_IS_OUT = "the log has several jobs; 6 calls of 2 processes of older jobs are left out"


@pytest.mark.parametrize("has_times", [False, True])
@pytest.mark.parametrize("is_one_file", [False, True])
def test_only_the_newest_job_is_read(tmp_path: Path, has_times: bool, is_one_file: bool) -> None:
    older = job(10, OLDER, "0x1", 0 if has_times else None)
    newer = job(90, NEWER, "0x2", 30 * SECOND if has_times else None)
    texts = [*older, *newer]
    trace = read_files(tmp_path, *(["".join(texts)] if is_one_file else texts))
    assert counts_of(trace) == {0: NEWER, 1: NEWER}
    assert (trace.size, len(trace.communicators)) == (2, 1)
    assert OLDER_IS_OUT in trace.problems


@pytest.mark.parametrize("fraction", [r"\.\d{6}", r"(?!)"])
def test_times_decide_which_job_is_the_newest(tmp_path: Path, fraction: str) -> None:
    """Also times of whole seconds."""
    texts = [*job(90, NEWER, "0x2", 30 * SECOND), *job(10, OLDER, "0x1", 0)]
    trace = read_files(tmp_path, *(re.sub(fraction, "", text) for text in texts))
    assert counts_of(trace) == {0: NEWER, 1: NEWER}
    assert OLDER_IS_OUT in trace.problems


def test_a_restart_that_calls_nothing_does_not_hide_the_job(tmp_path: Path) -> None:
    trace = read_files(tmp_path, *job(10, OLDER, "0x1"), *job(90, [], "0x2"))
    assert counts_of(trace) == {0: OLDER, 1: OLDER}


@pytest.mark.parametrize(("first_gpu", "start_us"), [(2, 30 * SECOND), (0, 1)])
def test_separate_communicators_can_be_one_job(tmp_path: Path, first_gpu: int, start_us: int) -> None:
    """Their processes use other GPUs, or they call at the same time."""
    trace = read_files(tmp_path, *job(10, OLDER, "0x1", 0), *job(90, NEWER, "0x2", start_us, first_gpu))
    assert [len(rank.operations) for rank in trace.ranks] == [3, 3, 2, 2]
    assert not any("several jobs" in problem for problem in trace.problems)


def test_repeated_text_counts_once(tmp_path: Path) -> None:
    text = "".join(job(10, OLDER, "0x1", 0))
    trace = read_files(tmp_path, text + text)
    assert counts_of(trace) == {0: OLDER, 1: OLDER}
    assert "6 calls are left out, because the log repeats the text of their process" in trace.problems
