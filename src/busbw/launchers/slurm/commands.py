"""Runs Slurm's commands: one function per command, without decisions about the job."""

import subprocess
from collections.abc import Mapping, Sequence

from busbw.errors import BusbwError
from busbw.launchers.slurm import error_text
from busbw.launchers.slurm.status import SQUEUE_FORMAT, JobStatus, parse_scontrol, parse_squeue

_ANSWER_LIMIT_S = 60.0
_STEP_ANSWER_LIMIT_S = 10.0
"""Limit of a query during a Ctrl-C, which has another way to end the job."""
_UNKNOWN_JOB = "Invalid job id"
_ALREADY_ENDED = (_UNKNOWN_JOB, "already completing or completed")
_HEALTHY_STATES = {"idle", "allocated", "mixed", "completing", "planned", "reserved", "drained", "draining"}


class SlurmUnreachableError(BusbwError):
    """Slurm did not answer; it may answer later."""


def submit(words: Sequence[str], environment: Mapping[str, str], *, name: str) -> str:
    """Runs `sbatch --parsable` and returns the job's ID.

    Args:
        words: The command line.
        environment: The complete environment of the command.
        name: Name of the job. A job without an answer in time is canceled by this name.

    Raises:
        BusbwError: Slurm rejected the job. The message is Slurm's, with a remedy.
        SlurmUnreachableError: Slurm did not answer. A job that it accepted is canceled, if Slurm accepts that.
    """
    try:
        done = _run(words, environment)
    except SlurmUnreachableError as error:
        cancel_error = cancel_named(name)
        outcome = (
            f"job {name} may wait or run: {cancel_error}" if cancel_error else f"job {name} is canceled if it exists"
        )
        raise SlurmUnreachableError(
            f"{error.what}; {outcome}", remedy=f"if the job appears later: scancel --name={name}"
        ) from error
    if done.returncode != 0:
        message = error_text.error_line(done.stderr) or f"exit code {done.returncode}"
        raise BusbwError(f"Slurm rejected the job: {message}", remedy=error_text.remedy_for(done.stderr))
    return done.stdout.strip().rpartition("\n")[2].partition(";")[0]


def status(job: str) -> JobStatus | None:
    """Returns the status of a job. None if Slurm no longer knows the job.

    Raises:
        SlurmUnreachableError: Slurm did not answer.
    """
    waiting = _run(["squeue", "--noheader", f"--jobs={job}", f"--format={SQUEUE_FORMAT}"])
    if waiting.returncode == 0 and (found := parse_squeue(waiting.stdout)) and not found.has_ended:
        return found
    shown = _run(["scontrol", "--oneliner", "show", "job", job])
    if shown.returncode == 0:
        return parse_scontrol(shown.stdout)
    if _UNKNOWN_JOB in shown.stderr:
        return None
    raise SlurmUnreachableError(error_text.error_line(shown.stderr), remedy=error_text.remedy_for(shown.stderr))


def cancel(job: str, *, signal: str = "") -> str:
    """Cancels a job, or sends a signal to its steps.

    Returns:
        The error. Empty on success, or if the job has already ended.
    """
    return _run_cancel(["scancel", *([f"--signal={signal}"] if signal else []), job])


def cancel_named(name: str) -> str:
    """Cancels our jobs with this name.

    Returns:
        The error. Empty on success, or if no job has this name.
    """
    return _run_cancel(["scancel", f"--name={name}"])


def step_named(name: str) -> str:
    """Returns the ID of the running step with this name, such as 12.3. Empty if no such step runs.

    Raises:
        SlurmUnreachableError: Slurm did not answer.
    """
    done = _run(["squeue", "--noheader", "--steps", "--format=%i %j"], limit_s=_STEP_ANSWER_LIMIT_S)
    if done.returncode != 0:
        raise SlurmUnreachableError(error_text.error_line(done.stderr), remedy=error_text.remedy_for(done.stderr))
    return next((line.split()[0] for line in done.stdout.splitlines() if line.split()[1:] == [name]), "")


def nodes_down(node_list: str) -> tuple[str, ...]:
    """Returns the failed nodes of a list with Slurm's reason, such as "n2 is down: Not responding"."""
    if not node_list:
        return ()
    output = _run(["sinfo", "--noheader", "--Node", f"--nodes={node_list}", "--format=%N|%T|%E"]).stdout
    found = []
    for line in dict.fromkeys(output.splitlines()):
        name, _, rest = line.partition("|")
        state, _, reason = rest.partition("|")
        if state.rstrip("*~#!%$@^-+") not in _HEALTHY_STATES or state.endswith("*"):
            found.append(f"{name} is {state.rstrip('*')}" + (f": {reason}" if reason not in {"", "none"} else ""))
    return tuple(found)


def read(words: Sequence[str]) -> str:
    """Runs a command of Slurm and returns its stdout.

    Raises:
        BusbwError: The command failed.
    """
    done = _run(words)
    if done.returncode != 0:
        message = error_text.error_line(done.stderr) or f"exit code {done.returncode}"
        raise BusbwError(f"{' '.join(words)}: {message}", remedy=error_text.remedy_for(done.stderr))
    return done.stdout


def _run_cancel(words: Sequence[str]) -> str:
    try:
        done = _run(words)
    except BusbwError as error:
        return error.what
    if done.returncode == 0 or any(sentence in done.stderr for sentence in _ALREADY_ENDED):
        return ""
    return error_text.error_line(done.stderr) or f"exit code {done.returncode}"


def _run(
    words: Sequence[str], environment: Mapping[str, str] | None = None, *, limit_s: float | None = None
) -> "subprocess.CompletedProcess[str]":
    """Runs a command in its own session, so that Ctrl-C does not reach it."""
    limit_s = _ANSWER_LIMIT_S if limit_s is None else limit_s
    try:
        return subprocess.run(
            words,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            start_new_session=True,
            timeout=limit_s,
        )
    except FileNotFoundError as error:
        raise BusbwError(f"{words[0]} not found", remedy="launch on a machine with Slurm's commands") from error
    except OSError as error:
        raise BusbwError(f"cannot run {words[0]}: {error.strerror}", remedy="check its path and permissions") from error
    except subprocess.TimeoutExpired as error:
        raise SlurmUnreachableError(f"{words[0]} did not answer within {limit_s:g} s") from error
