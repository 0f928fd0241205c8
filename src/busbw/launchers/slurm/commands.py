"""Runs Slurm's commands.

The callers decide about the job, with one exception: `submit` cancels a job if sbatch does not answer.
"""

import subprocess
from collections.abc import Mapping, Sequence

from busbw.errors import BusbwError
from busbw.launchers.slurm import error_text
from busbw.launchers.slurm.status import SQUEUE_FORMAT, JobStatus, parse_scontrol, parse_squeue

_ANSWER_LIMIT_S = 60.0
"""Time limit of a command."""
_STEP_ANSWER_LIMIT_S = 10.0
"""Time limit of `find_step` after Ctrl-C. It is short because the job can also be ended through srun."""
_UNKNOWN_JOB_MESSAGE = "Invalid job id"
_ENDED_MESSAGES = (_UNKNOWN_JOB_MESSAGE, "already completing or completed")
_HEALTHY_STATES = {"idle", "allocated", "mixed", "completing", "planned", "reserved", "drained", "draining"}
"""Node states that do not end the jobs of a node."""
_STATE_SUFFIXES = "*~#!%$@^-+"
"""Characters that sinfo appends to a node's state. An asterisk at the end means that the node does not respond."""


class SlurmUnreachableError(BusbwError):
    """Slurm did not answer; it may answer later."""


def submit(command_line: Sequence[str], environment: Mapping[str, str], *, name: str) -> str:
    """Runs `sbatch --parsable` and returns the job's ID.

    Args:
        command_line: The sbatch command.
        environment: The complete environment of the command.
        name: Name of the job. A job without an answer in time is canceled by this name.

    Raises:
        BusbwError: Slurm rejected the job. The message is Slurm's, with a remedy.
        SlurmUnreachableError: Slurm did not answer. A job that it accepted is canceled, if Slurm accepts that.
    """
    try:
        result = _run(command_line, environment)
    except SlurmUnreachableError as error:
        cancel_error = cancel_named(name)
        outcome = f"job {name} is canceled if it exists"
        if cancel_error:
            outcome = f"job {name} may wait or run: {cancel_error}"
        raise SlurmUnreachableError(
            f"{error.problem}; {outcome}", remedy=f"if the job appears later: scancel --name={name}"
        ) from error
    if result.returncode != 0:
        message = error_text.last_errors(result.stderr) or f"exit code {result.returncode}"
        raise BusbwError(f"Slurm rejected the job: {message}", remedy=error_text.remedy_for(result.stderr))
    last_line = result.stdout.strip().rpartition("\n")[2]  # "12", or "12;cluster"
    return last_line.partition(";")[0]


def status(job: str) -> JobStatus | None:
    """Returns the status of a job from squeue, or from scontrol if the job has ended. None if Slurm no longer knows it.

    Raises:
        SlurmUnreachableError: Slurm did not answer.
    """
    squeue = _run(["squeue", "--noheader", f"--jobs={job}", f"--format={SQUEUE_FORMAT}"])
    if squeue.returncode == 0 and (job_status := parse_squeue(squeue.stdout)) and not job_status.has_ended:
        return job_status
    scontrol = _run(["scontrol", "--oneliner", "show", "job", job])
    if scontrol.returncode == 0:
        return parse_scontrol(scontrol.stdout)
    if _UNKNOWN_JOB_MESSAGE in scontrol.stderr:
        return None
    raise SlurmUnreachableError(error_text.last_errors(scontrol.stderr), remedy=error_text.remedy_for(scontrol.stderr))


def cancel(job: str, *, signal: str = "") -> str:
    """Cancels the job or step with this ID.

    With `signal`, sends this signal to the step, or to all steps of the job, and cancels nothing.

    Returns:
        The error. Empty on success, or if the job has already ended.
    """
    return _run_cancel(["scancel", *([f"--signal={signal}"] if signal else []), job])


def cancel_named(name: str) -> str:
    """Cancels the user's jobs with this name.

    Returns:
        The error. Empty on success, or if no job has this name.
    """
    return _run_cancel(["scancel", f"--name={name}"])


def find_step(name: str) -> str:
    """Returns the ID of the running step with this name, such as 12.3. Empty if no such step runs.

    Raises:
        SlurmUnreachableError: Slurm did not answer.
    """
    result = _run(["squeue", "--noheader", "--steps", "--format=%i %j"], limit_s=_STEP_ANSWER_LIMIT_S)
    if result.returncode != 0:
        raise SlurmUnreachableError(error_text.last_errors(result.stderr), remedy=error_text.remedy_for(result.stderr))
    return next((line.split()[0] for line in result.stdout.splitlines() if line.split()[1:] == [name]), "")


def nodes_down(node_list: str) -> tuple[str, ...]:
    """Returns a text such as "n2 is down: Not responding", with Slurm's reason, for each failed node of the list."""
    if not node_list:
        return ()
    output = _run(["sinfo", "--noheader", "--Node", f"--nodes={node_list}", "--format=%N|%T|%E"]).stdout
    failed = []
    for line in dict.fromkeys(output.splitlines()):  # sinfo repeats a node for each of its partitions
        name, _, state_and_reason = line.partition("|")
        state, _, reason = state_and_reason.partition("|")
        is_silent = state.endswith("*")
        if is_silent or state.rstrip(_STATE_SUFFIXES) not in _HEALTHY_STATES:
            shown_state = state.rstrip("*")  # keeps the suffixes for power and reboot, which are evidence
            reason_text = "" if reason in {"", "none"} else f": {reason}"
            failed.append(f"{name} is {shown_state}{reason_text}")
    return tuple(failed)


def run_for_output(command_line: Sequence[str]) -> str:
    """Runs a command of Slurm and returns its stdout.

    Raises:
        BusbwError: The command failed.
    """
    result = _run(command_line)
    if result.returncode != 0:
        message = error_text.last_errors(result.stderr) or f"exit code {result.returncode}"
        raise BusbwError(f"{' '.join(command_line)}: {message}", remedy=error_text.remedy_for(result.stderr))
    return result.stdout


def _run_cancel(command_line: Sequence[str]) -> str:
    """Runs scancel and returns its error. Empty on success, or if the job has already ended."""
    try:
        result = _run(command_line)
    except BusbwError as error:
        return error.problem
    if result.returncode == 0 or any(message in result.stderr for message in _ENDED_MESSAGES):
        return ""
    return error_text.last_errors(result.stderr) or f"exit code {result.returncode}"


def _run(
    command_line: Sequence[str], environment: Mapping[str, str] | None = None, *, limit_s: float | None = None
) -> "subprocess.CompletedProcess[str]":
    """Runs a command in its own session, so that Ctrl-C does not reach it."""
    limit_s = _ANSWER_LIMIT_S if limit_s is None else limit_s
    try:
        return subprocess.run(
            command_line,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            start_new_session=True,
            timeout=limit_s,
        )
    except FileNotFoundError as error:
        raise BusbwError(f"{command_line[0]} not found", remedy="launch on a machine with Slurm's commands") from error
    except OSError as error:
        raise BusbwError(
            f"cannot run {command_line[0]}: {error.strerror}", remedy="check its path and permissions"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise SlurmUnreachableError(f"{command_line[0]} did not answer within {limit_s:g} s") from error
