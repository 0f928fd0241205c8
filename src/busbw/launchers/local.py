"""Starts the job on this machine: as one process, or as several that find each other over the loopback interface."""

import signal
from dataclasses import dataclass

from busbw.launchers.job import processes
from busbw.launchers.job.job import Command, Job, LaunchCallbacks, LaunchPlan, as_pairs, process_variables


@dataclass(frozen=True)
class LocalTarget:
    """How the processes find each other."""

    port: int = 0
    """Where process 0 listens; a free one. Not needed for a single process."""


def render(job: Job, where: LocalTarget | None = None) -> LaunchPlan:
    """A single process is the program with its arguments; its ranks are its own threads and processes."""
    if job.processes == 1:
        return LaunchPlan((Command(job.command, job.environment),))
    port = (where or LocalTarget()).port
    world = {**job.shared_variables(store=f"tcp://127.0.0.1:{port}"), "BUSBW_TOKEN": job.token}
    commands = [
        Command(
            job.command,
            as_pairs({**world, **process_variables(process, local=process, local_size=job.processes)}),
            process=process,
        )
        for process in range(job.processes)
    ]
    return LaunchPlan(tuple(commands), token=job.token)


def submit(rendered: LaunchPlan, watch: LaunchCallbacks | None = None) -> int:
    """Runs it to its end and returns its exit code. Without a watch its stdout goes to ours, byte for byte."""
    if len(rendered.commands) == 1:
        # An orderly end keeps the rows, and the engine's own processes go with it.
        return processes.run_all(rendered.commands, watch, processes.TerminationPolicy(end_signal=signal.SIGTERM))[
            0
        ].code
    if watch:
        watch.on_status(f"starting: {len(rendered.commands)} processes meet each other")
    ended = processes.run_all(rendered.commands, watch, processes.TerminationPolicy(grace_s=processes.GRACE_S))
    if watch and watch.on_error and (sentence := processes.killed_message(ended)):
        watch.on_error(f"busbw: {sentence}\n".encode(), None)
    return processes.job_exit_code(ended)
