"""Removes the names of hosts, files and communicators from a trace, for sharing views of it."""

from dataclasses import replace
from pathlib import Path

from busbw.traces.model import Trace


def redact_trace(trace: Trace) -> Trace:
    """Returns the trace with `host-1`, `file-1` and `communicator-1` for names, also in its problems."""
    hosts = dict.fromkeys(rank.host for rank in trace.ranks if rank.host)
    host_names = {host: f"host-{number}" for number, host in enumerate(hosts, start=1)}
    sources = dict.fromkeys(rank.source for rank in trace.ranks if rank.source)
    names = {source: f"file-{number}" for number, source in enumerate(sources, start=1)}
    names |= {Path(source).name: name for source, name in names.items()}
    names |= {host.partition(".")[0]: name for host, name in host_names.items()} | host_names
    communicators = [one.name and f"communicator-{number}" for number, one in enumerate(trace.communicators, start=1)]
    names |= {one.name: name for one, name in zip(trace.communicators, communicators, strict=True) if name}
    names[trace.name] = "trace"
    problems = list(trace.problems)
    for name in sorted(filter(None, names), key=len, reverse=True):
        problems = [problem.replace(name, names[name]) for problem in problems]
    return replace(
        trace,
        name="trace",
        ranks=tuple(
            replace(rank, host=host_names.get(rank.host, ""), pid=None, source=names.get(rank.source, ""))
            for rank in trace.ranks
        ),
        communicators=tuple(
            replace(one, name=name) for one, name in zip(trace.communicators, communicators, strict=True)
        ),
        problems=tuple(problems),
    )
