"""Finds several jobs in logs of the Inspector, because consecutive jobs without Slurm write to one directory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from busbw.traces.importers.recording import open_recording, read_lines

Process = tuple[str, int | None]
"""Host and process id."""
_MIN_PAUSE_US = 10_000_000
"""Minimum time between the last record of a job and the first one of the next job.

Processes of one job, of which each writes once at its end, are closer together."""


class _Communicator(msgspec.Struct):
    id: str


class _Writing(msgspec.Struct):
    """Process and time of the writing of a record."""

    hostname: str = ""
    pid: int | None = None
    dump_timestamp_us: int = 0


class _Record(msgspec.Struct):
    header: _Communicator
    metadata: _Writing


@dataclass(eq=False)
class _Job:
    """Processes that communicators connect."""

    processes: set[Process] = field(default_factory=set)
    first_us: int = 0
    last_us: int = 0


def find_older_processes(paths: Sequence[Path]) -> set[Process]:
    """Returns the processes of all jobs but the newest one of each host. Empty if the logs have one job."""
    jobs = _list_jobs(paths)
    older = [job for job in jobs if any(_is_older(job, other) for other in jobs)]
    return set().union(*(job.processes for job in older))


def _is_older(job: _Job, other: _Job) -> bool:
    """Returns true if the other job began on a host of this job after the end of this job."""
    hosts, other_hosts = ({host for host, _ in one.processes} for one in (job, other))
    return not hosts.isdisjoint(other_hosts) and other.first_us - job.last_us > _MIN_PAUSE_US


def _list_jobs(paths: Sequence[Path]) -> list[_Job]:
    """Returns the jobs. Records without a time are ignored."""
    jobs: dict[Process, _Job] = {}
    job_by_id: dict[str, _Job] = {}
    for record in _records(paths):
        time_us = record.metadata.dump_timestamp_us
        process = record.metadata.hostname, record.metadata.pid
        job = jobs.setdefault(process, _Job({process}, time_us, time_us))
        job.first_us, job.last_us = min(job.first_us, time_us), max(job.last_us, time_us)
        connected = job_by_id.setdefault(record.header.id, job)
        if connected is not job:
            connected.processes |= job.processes
            connected.first_us = min(connected.first_us, job.first_us)
            connected.last_us = max(connected.last_us, job.last_us)
            jobs.update(dict.fromkeys(job.processes, connected))
            job_by_id.update({known: connected for known, one in job_by_id.items() if one is job})
    return list(set(jobs.values()))


def _records(paths: Sequence[Path]) -> Iterator[_Record]:
    decode = msgspec.json.Decoder(_Record).decode
    for path in paths:
        with open_recording(path) as file:
            for line in read_lines(file):
                try:
                    record = decode(line)
                except (msgspec.MsgspecError, ValueError, RecursionError):
                    continue  # a later pass counts damaged lines
                if record.metadata.dump_timestamp_us > 0:
                    yield record
