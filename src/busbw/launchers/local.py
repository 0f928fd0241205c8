"""Starts the job on this machine: as one process, or as several processes that connect over the loopback interface."""

import signal
from dataclasses import dataclass

from busbw.errors import UsageError
from busbw.launchers.job import processes
from busbw.launchers.job.job import Command, Job, LaunchCallbacks, LaunchPlan, process_variables

MAX_PROCESSES = 512
"""Maximum number of processes on one machine. Each process connects to every other one.

On two processors, 512 processes join in 19 s and use 5 MB each. 1024 processes do not join within the engine's limit
of 60 s."""


@dataclass(frozen=True)
class LocalTarget:
    """Settings of a local job with several processes."""

    port: int = 0
    """Free port on which process 0 listens. 0 is valid only for a single process, which does not listen."""


def render(job: Job, target: LocalTarget | None = None) -> LaunchPlan:
    """Returns one command for each process. A single process needs no rendezvous: it starts its ranks itself.

    Raises:
        UsageError: The job has more than MAX_PROCESSES processes.
    """
    if job.processes > MAX_PROCESSES:
        raise UsageError(
            f"{job.processes} processes on one machine need {job.processes * (job.processes - 1) // 2:,} connections; "
            f"the limit is {MAX_PROCESSES} processes",
            remedy="start fewer processes with more ranks each (-t)",
        )
    if job.processes == 1:
        return LaunchPlan((Command(job.command, job.environment),))
    port = (target or LocalTarget()).port
    shared = {**job.shared_variables(store=f"tcp://127.0.0.1:{port}"), "BUSBW_TOKEN": job.token}
    commands = [
        Command(
            job.command,
            tuple((shared | process_variables(process, node=0, local=process, local_size=job.processes)).items()),
            label=process,
        )
        for process in range(job.processes)
    ]
    return LaunchPlan(tuple(commands), token=job.token, tolerates_losses=job.tolerates_losses)


def submit(plan: LaunchPlan, callbacks: LaunchCallbacks | None = None) -> int:
    """Runs the plan to its end and returns the exit code. Without callbacks the commands inherit busbw's output."""
    # The processes get `end_signal` if busbw dies, and several processes on a second interrupt. If busbw dies, it is
    # their first signal, and after SIGTERM the engine still writes its rows. A second SIGTERM ends the engine at once.
    if len(plan.commands) == 1:
        policy = processes.TerminationPolicy(end_signal=signal.SIGTERM)
        return processes.run_all(plan.commands, callbacks, policy)[0].code
    if callbacks:
        callbacks.on_status(f"starting {len(plan.commands)} processes")
    policy = processes.TerminationPolicy(
        grace_s=processes.GRACE_S, follows_first=plan.tolerates_losses, end_signal=signal.SIGTERM
    )
    statuses = processes.run_all(plan.commands, callbacks, policy)
    processes.report_crash(statuses, [f"process {command.label}" for command in plan.commands], callbacks)
    return processes.job_exit_code(statuses)
