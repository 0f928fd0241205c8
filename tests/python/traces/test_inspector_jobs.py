"""Logs of NCCL's Inspector in one directory, written by several jobs."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from busbw.traces.importers import IMPORTERS
from busbw.traces.model import Trace

(INSPECTOR,) = (importer for importer in IMPORTERS if importer.name == "NCCL Inspector")
SECOND = 1_000_000


def write_job(folder: Path, first_pid: int, identity: str, sizes: Sequence[int], end_us: int, host: str = "n1") -> None:
    """Writes the logs of 2 ranks with one communicator. The last record is written at `end_us`, one per second."""
    for rank in range(2):
        lines = []
        for number, size in enumerate(sizes):
            time_us = 1790000000 * SECOND + end_us - (len(sizes) - 1 - number) * SECOND
            values = {"coll": "AllReduce", "coll_sn": number, "coll_msg_size_bytes": size, "coll_exec_time_us": 5}
            lines.append(
                {
                    "header": {"id": identity, "rank": rank, "n_ranks": 2},
                    "metadata": {"hostname": host, "pid": first_pid + rank, "dump_timestamp_us": time_us},
                    "coll_perf": values,
                }
            )
        (folder / f"{host}-pid{first_pid + rank}.log").write_text("\n".join(map(json.dumps, lines)))


def read(folder: Path) -> Trace:
    return INSPECTOR.read(sorted(folder.iterdir()))


@pytest.mark.parametrize("first_pids", [(10, 90), (90, 10)])
def test_only_the_newest_job_of_a_host_is_read(tmp_path: Path, first_pids: tuple[int, int]) -> None:
    write_job(tmp_path, first_pids[0], "0x1", [8192, 16384], 0)
    write_job(tmp_path, first_pids[1], "0x2", [32768], 60 * SECOND)
    trace = read(tmp_path)
    assert [rank.operations["count"].tolist() for rank in trace.ranks] == [[32768], [32768]]
    assert (trace.size, len(trace.communicators)) == (2, 1)
    problem = "the files are of several jobs; 4 operations of 2 processes of older jobs are left out"
    assert problem in trace.problems


@pytest.mark.parametrize(("host", "end_us"), [("n2", 60 * SECOND), ("n1", 2 * SECOND)])
def test_separate_communicators_can_be_one_job(tmp_path: Path, host: str, end_us: int) -> None:
    """They are on other hosts, or end at about the same time."""
    write_job(tmp_path, 10, "0x1", [8192, 16384], 0)
    write_job(tmp_path, 90, "0x2", [32768], end_us, host)
    assert [len(rank.operations) for rank in read(tmp_path).ranks] == [2, 2, 1, 1]
