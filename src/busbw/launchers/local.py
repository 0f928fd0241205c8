"""Starts the job on this machine, as a process of its own."""

from busbw import engine
from busbw.launchers.job import Job, Rendered, Watch


def render(job: Job) -> Rendered:
    """The program with its arguments; ranks are its own threads and processes."""
    return Rendered((str(job.program), *job.arguments, "--records", str(job.records)))


def submit(rendered: Rendered, watch: Watch | None = None) -> int:
    """Runs it to its end and returns its exit code. Without a watch its stdout goes to ours, byte for byte."""
    if watch is None:
        return engine.run(rendered.command)
    return engine.run(rendered.command, on_line=watch.on_line, on_wait=watch.on_wait)
