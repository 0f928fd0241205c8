"""Names in a trace and in its problems."""

from dataclasses import replace

from synthetic_traces import make_trace

from busbw.traces.redact import redact_trace


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
