"""Finds several jobs in logs of NCCL, such as a job and its restart, so that only the newest one is read.

Two sets of processes are different jobs if no communicator connects them, both use the same GPU, and one set made its
last call before the first call of the other set.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from busbw.support.nccl_log_lines import COMMUNICATOR, HEADER
from busbw.traces.importers.nccl_communicators import Process
from busbw.traces.importers.nccl_times import parse_coarse_time_ns
from busbw.traces.importers.recording import open_recording, read_lines

_HEADER = re.compile(HEADER)


class _Position(NamedTuple):
    """Position of a call. Positions are compared by times if both have one, otherwise by their order in the logs."""

    time_ns: int
    """0: unknown."""
    file_and_line: tuple[int, int]

    def is_before(self, other: "_Position") -> bool:
        if self.time_ns and other.time_ns:
            return self.time_ns < other.time_ns
        return self.file_and_line < other.file_and_line


@dataclass(eq=False)
class _Job:
    """Processes that communicators connect."""

    processes: set[Process] = field(default_factory=set)
    gpus: set[tuple[bytes, str]] = field(default_factory=set)
    """Host and PCI address of each GPU."""
    first: _Position | None = None
    """First call. None: no call."""
    last: _Position | None = None


def find_older_processes(paths: Sequence[Path]) -> set[Process]:
    """Returns the processes of all jobs but the newest one of each GPU. Empty if the logs have one job."""
    jobs = _list_jobs(paths)
    jobs_by_gpu: dict[tuple[bytes, str], list[_Job]] = defaultdict(list)
    for job in jobs:
        for gpu in job.gpus:
            jobs_by_gpu[gpu].append(job)
    if all(len(sharing) == 1 for sharing in jobs_by_gpu.values()):
        return set()
    _find_calls(paths, jobs)
    older: set[Process] = set()
    for sharing in jobs_by_gpu.values():
        older.update(*(job.processes for job in sharing if any(_is_older(job, other) for other in sharing)))
    return older


def _is_older(job: _Job, other: _Job) -> bool:
    """Returns true if the other job began after the end of this job. A job without calls is older than any other."""
    if other.first is None or other is job:
        return False
    return job.last is None or job.last.is_before(other.first)


def _list_jobs(paths: Sequence[Path]) -> Iterable[_Job]:
    """Returns the jobs, from the messages about communicators with an id and a PCI address."""
    jobs: dict[Process, _Job] = {}
    job_by_id: dict[str, _Job] = {}
    for header, line, _ in _messages(paths, b" - Init "):
        match = COMMUNICATOR.search(line.decode(errors="replace"))
        identity = (match["split_id"] or match["id"]) if match else None
        if match is None or not identity or not match["bus"]:
            continue
        process = header["host"] or b"", header["pid"] or b""
        job = jobs.setdefault(process, _Job(processes={process}))
        job.gpus.add((process[0], match["bus"]))
        connected = job_by_id.setdefault(identity, job)
        if connected is not job:
            connected.processes |= job.processes
            connected.gpus |= job.gpus
            jobs.update(dict.fromkeys(job.processes, connected))
            job_by_id.update({known: connected for known, one in job_by_id.items() if one is job})
    return set(jobs.values())


def _find_calls(paths: Sequence[Path], jobs: Iterable[_Job]) -> None:
    """Stores the first and the last call of each job."""
    job_by_process = {process: job for job in jobs for process in job.processes}
    for header, line, file_and_line in _messages(paths, b": opCount "):
        job = job_by_process.get((header["host"] or b"", header["pid"] or b""))
        if job:
            position = _Position(parse_coarse_time_ns(line[: header.start()]), file_and_line)
            if job.first is None or position.is_before(job.first):
                job.first = position
            if job.last is None or job.last.is_before(position):
                job.last = position


def _messages(paths: Sequence[Path], part: bytes) -> Iterator[tuple[re.Match[bytes], bytes, tuple[int, int]]]:
    """Yields header, line, and number of file and line, of the messages with this part."""
    for file_number, path in enumerate(paths):
        with open_recording(path) as file:
            for line_number, line in enumerate(read_lines(file)):
                if part in line and (header := _HEADER.search(line)):
                    yield header, line, (file_number, line_number)
