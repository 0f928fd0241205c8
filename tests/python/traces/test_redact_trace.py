"""Names in a trace and in its problems."""

import shutil
from dataclasses import replace
from pathlib import Path

import foreign_recordings
import pytest
from synthetic_traces import make_trace

from busbw.traces.read import read_trace
from busbw.traces.redact import redact_trace
from busbw.traces.write import write_trace


def test_names_are_replaced_only_as_names() -> None:
    trace = make_trace(ranks=2, partitions=[[(0, 1)]], steps=2)
    problems = (
        "rank.trace: 1 record left out on n1.cluster.example, not on n12",
        "ranks 0 and 1 have the same place in communicator of",
        "2 ranks of 4 not recorded: 2, 3",
    )
    ranks = tuple(replace(rank, host="n1.cluster.example", source="jobs/rank.trace") for rank in trace.ranks)
    communicators = tuple(replace(one, name="of") for one in trace.communicators)
    redacted = redact_trace(replace(trace, name="ranks", ranks=ranks, communicators=communicators, problems=problems))
    assert redacted.problems == (
        "file-1: 1 record left out on host-1, not on n12",
        "ranks 0 and 1 have the same place in communicator communicator-1",
        "2 ranks of 4 not recorded: 2, 3",
    )
    assert redacted.name == "trace"
    assert {(rank.host, rank.source) for rank in redacted.ranks} == {("host-1", "file-1")}


@pytest.mark.parametrize("is_own_format", [False, True])
def test_names_of_files_that_are_left_out_are_replaced(tmp_path: Path, is_own_format: bool) -> None:
    trace = make_trace(ranks=2, steps=2)
    if is_own_format:
        write_trace(trace, tmp_path / "job")
        (tmp_path / "job" / "secret.trace").write_bytes(b"short")
    else:
        (tmp_path / "job").mkdir()
        path, _ = foreign_recordings.write_flight_dumps(trace, tmp_path / "job", is_pickle=False)
        shutil.copy(path, tmp_path / "job" / "secret_rank_0")
    read = read_trace(tmp_path / "job")
    assert any("secret" in problem for problem in read.problems)
    (problem,) = (problem for problem in redact_trace(read).problems if "left out" in problem)
    assert "file-3" in problem
    assert "secret" not in problem
