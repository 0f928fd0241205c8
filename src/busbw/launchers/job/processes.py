"""Runs the commands of a launcher to their end, and decides the exit code of the job.

All launchers except Kubernetes and Slurm's batch jobs run a job through this module. It starts programs, forwards
signals and reads pipes (`child_processes`). Short queries of other programs do not use this module.
"""

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from busbw.errors import SIGNALLED, BusbwError, ExitCode
from busbw.launchers.job.child_processes import ChildProcesses, TerminationPolicy
from busbw.launchers.job.command_start import ExitStatus, raise_open_file_limit
from busbw.launchers.job.job import Command, LaunchCallbacks, PrivateFile

GRACE_S = 15.0
"""Usual limit of a `GracePeriod`.

The other processes learn of an ended process from its closed connections. A process that is only silent, such as a
stopped one, does not begin this period: the engine declares that process lost after at most 30 s
(`engine/run/launched_run.cpp`).
"""
_ORDERLY_CODES = {SIGNALLED + number for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE)}
"""Exit codes of signals that are no crash: signals that the engine handles, and SIGPIPE after the reader closed."""


def run_all(
    commands: Sequence[Command],
    callbacks: LaunchCallbacks | None = None,
    policy: TerminationPolicy | None = None,
    *,
    max_connecting: int | None = None,
) -> list[ExitStatus]:
    """Runs commands in parallel until all have ended.

    Each command has its own session, so that Ctrl-C reaches it once, through this function. SIGINT, SIGTERM and SIGHUP
    are forwarded; Ctrl-Z stops all commands. A custom interrupt (`Command.interrupt`, `TerminationPolicy.on_interrupt`)
    replaces the forwarded signal. With a custom interrupt or several commands, a second signal ends the commands at
    once, and a third signal kills them.

    Without a custom interrupt, a received signal also ends this process if no command ended by a signal.

    Args:
        commands: The stdout of the first command is the job's.
        callbacks: None: the commands inherit busbw's output. Without `on_error` they inherit its stderr.
        policy: Termination policy. None: a command that ends has no effect on the others.
        max_connecting: Maximum number of commands that connect at the same time; others start later. A command
            connects until its first output, as ssh does, for at most 10 s. None: all start at once.

    Returns:
        The exit statuses, in the order of the commands.

    Raises:
        BusbwError: A command cannot be started. The commands that run are killed.
    """
    raise_open_file_limit(len(commands))
    with ChildProcesses(callbacks, policy or TerminationPolicy()) as children:
        for command in commands:
            if max_connecting is not None:
                children.wait_for_slot(max_connecting)
            children.start(command)
        children.run_to_end()
    return children.statuses()


@contextmanager
def written_files(files: Sequence[PrivateFile]) -> Iterator[None]:
    """Writes files that only their owner may read, and removes them on exit.

    Raises:
        BusbwError: A file exists or cannot be written.
    """
    with ExitStack() as cleanup:
        for file in files:
            try:
                descriptor = os.open(file.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(descriptor, "w") as stream:
                    cleanup.callback(file.path.unlink, missing_ok=True)
                    stream.write(file.text)
            except OSError as error:
                raise BusbwError(
                    f"cannot write {file.path}: {error.strerror}", remedy="choose a writable folder"
                ) from error
        yield


def job_exit_code(statuses: Sequence[ExitStatus]) -> int:
    """Returns the exit code of a job with several processes.

    Usually process 0 decides, because process 0 summarizes the run. If process 0 succeeded or was terminated by busbw,
    the first other process that failed by itself decides. A killed or crashed process counts as a lost rank. If no
    process failed by itself before a second signal, the code is that of the interrupt.
    """
    decisive = statuses[_decisive_index(statuses)]
    has_failed = decisive.code != ExitCode.GOOD and not decisive.was_terminated
    interrupt_codes = [status.interrupt_code for status in statuses if status.interrupt_code]
    return interrupt_codes[0] if interrupt_codes and not has_failed else rank_lost_if_crashed(decisive)


def rank_lost_if_crashed(status: ExitStatus) -> int:
    """Returns RANK_LOST for a command that was killed or crashed, otherwise the exit code of the command."""
    return ExitCode.RANK_LOST if has_crashed(status) else status.code


def crash_message(statuses: Sequence[ExitStatus], names: Sequence[str]) -> str:
    """Error message if a killed or crashed process decides the exit code of the job. Empty otherwise.

    Also empty if another process ended with RANK_LOST, because that process has named the lost one.

    Args:
        statuses: Exit statuses of the commands.
        names: Name of the process or processes of each command, such as "process 0".
    """
    decisive = _decisive_index(statuses)
    was_named = any(status.code == ExitCode.RANK_LOST for status in statuses)
    if was_named or not has_crashed(statuses[decisive]):
        return ""
    subject, crashed = names[decisive], [statuses[decisive]]
    if len(statuses) > 1 and all(map(has_crashed, statuses)):
        subject, crashed = "every process", list(statuses)
    signal_names = dict.fromkeys(_signal_name(status.code - SIGNALLED) for status in crashed)
    return (
        f"{subject} was killed or crashed ({', '.join(signal_names)}); after SIGKILL check dmesg and the memory limit, "
        "otherwise repeat with NCCL_DEBUG=INFO and report its output"
    )


def report_crash(statuses: Sequence[ExitStatus], names: Sequence[str], callbacks: LaunchCallbacks | None) -> None:
    """Passes `crash_message` to the callback for stderr. An empty message is not passed."""
    if callbacks and (message := crash_message(statuses, names)):
        callbacks.print_error(message)


def _decisive_index(statuses: Sequence[ExitStatus]) -> int:
    """Index of the status that decides the exit code of the job."""
    if statuses[0].code and not statuses[0].was_terminated:
        return 0
    failed = (index for index, status in enumerate(statuses) if status.code and not status.was_terminated)
    return next(failed, 0)


def has_crashed(status: ExitStatus) -> bool:
    """True if a signal ended the command, except one that the engine handles or that this process sent."""
    return status.code > SIGNALLED and status.code not in _ORDERLY_CODES and not status.was_terminated


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


__all__ = [
    "GRACE_S",
    "ExitStatus",
    "TerminationPolicy",
    "crash_message",
    "job_exit_code",
    "rank_lost_if_crashed",
    "report_crash",
    "run_all",
    "written_files",
]
