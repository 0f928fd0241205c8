"""Asks Slurm and tells it things: one function for each command, and nothing that decides."""

import subprocess
from collections.abc import Mapping, Sequence

from busbw.errors import BusbwError
from busbw.launchers.slurm import error_text
from busbw.launchers.slurm.status import SQUEUE_FORMAT, JobStatus, parse_scontrol, parse_squeue

_ANSWERS_WITHIN_S = 60.0
_STEP_WITHIN_S = 10.0
"""The same where a Ctrl-C waits for it, and can be passed on in another way."""
_FORGOTTEN = "Invalid job id"
_ALREADY_ENDED = (_FORGOTTEN, "already completing or completed")
_HEALTHY_STATES = {"idle", "allocated", "mixed", "completing", "planned", "reserved", "drained", "draining"}


class SlurmUnreachableError(BusbwError):
    """Slurm could not be asked; it may answer later."""


def submit(words: Sequence[str], environment: Mapping[str, str], *, name: str) -> str:
    """Runs `sbatch --parsable` and returns the job's id.

    Args:
        words: The command.
        environment: All of its variables.
        name: The job's, by which it is cancelled where sbatch does not say in time that there is one.

    Raises:
        BusbwError: Slurm refused the job; in its own words, with a remedy.
        NoAnswerError: It does not answer; a job that it took is cancelled, if it hears that.
    """
    try:
        done = _run(words, environment)
    except SlurmUnreachableError as error:
        why_not = cancel_named(name)
        told = f"job {name} may wait or run: {why_not}" if why_not else f"a job {name} of which Slurm knew is cancelled"
        raise SlurmUnreachableError(
            f"{error.what}; {told}", remedy=f"should it come later: scancel --name={name}"
        ) from error
    if done.returncode != 0:
        said = error_text.error_line(done.stderr) or f"exit code {done.returncode}"
        raise BusbwError(f"Slurm took no job: {said}", remedy=error_text.remedy_for(done.stderr))
    return done.stdout.strip().rpartition("\n")[2].partition(";")[0]


def status(job: str) -> JobStatus | None:
    """What Slurm knows of a job; None where it has forgotten it.

    Raises:
        NoAnswerError: It does not answer.
    """
    waiting = _run(["squeue", "--noheader", f"--jobs={job}", f"--format={SQUEUE_FORMAT}"])
    if waiting.returncode == 0 and (found := parse_squeue(waiting.stdout)) and not found.has_ended:
        return found
    kept = _run(["scontrol", "--oneliner", "show", "job", job])
    if kept.returncode == 0:
        return parse_scontrol(kept.stdout)
    if _FORGOTTEN in kept.stderr:
        return None
    raise SlurmUnreachableError(error_text.error_line(kept.stderr), remedy=error_text.remedy_for(kept.stderr))


def cancel(job: str, *, signal: str = "") -> str:
    """Cancels a job, or sends a signal to its steps.

    Returns:
        Why it did not work; empty where it did, or where there is nothing left to cancel.
    """
    return _tell(["scancel", *([f"--signal={signal}"] if signal else []), job])


def cancel_named(name: str) -> str:
    """Cancels our jobs of that name.

    Returns:
        Why it did not work; empty where it did, or where there is none.
    """
    return _tell(["scancel", f"--name={name}"])


def step_named(name: str) -> str:
    """The id of the running step of that name, 12.3; empty where there is none.

    Raises:
        NoAnswerError: Slurm does not answer.
    """
    done = _run(["squeue", "--noheader", "--steps", "--format=%i %j"], limit_s=_STEP_WITHIN_S)
    if done.returncode != 0:
        raise SlurmUnreachableError(error_text.error_line(done.stderr), remedy=error_text.remedy_for(done.stderr))
    return next((line.split()[0] for line in done.stdout.splitlines() if line.split()[1:] == [name]), "")


def nodes_down(node_list: str) -> tuple[str, ...]:
    """Those of the nodes that do not work, each with Slurm's words: n2 is down: Not responding."""
    if not node_list:
        return ()
    said = _run(["sinfo", "--noheader", "--Node", f"--nodes={node_list}", "--format=%N|%T|%E"]).stdout
    found = []
    for line in dict.fromkeys(said.splitlines()):
        name, _, rest = line.partition("|")
        state, _, reason = rest.partition("|")
        if state.rstrip("*~#!%$@^-+") not in _HEALTHY_STATES or state.endswith("*"):
            found.append(f"{name} is {state.rstrip('*')}" + (f": {reason}" if reason not in {"", "none"} else ""))
    return tuple(found)


def read(words: Sequence[str]) -> str:
    """What one of Slurm's commands prints.

    Raises:
        BusbwError: It failed.
    """
    done = _run(words)
    if done.returncode != 0:
        said = error_text.error_line(done.stderr) or f"exit code {done.returncode}"
        raise BusbwError(f"{' '.join(words)}: {said}", remedy=error_text.remedy_for(done.stderr))
    return done.stdout


def _tell(words: Sequence[str]) -> str:
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
    """A session of its own keeps a Ctrl-C from it; a signal to us waits until it has answered."""
    limit_s = _ANSWERS_WITHIN_S if limit_s is None else limit_s
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
        raise BusbwError(f"there is no {words[0]} here", remedy="run it where Slurm's commands are") from error
    except OSError as error:
        raise BusbwError(f"cannot start {words[0]}: {error.strerror}", remedy="look at its file") from error
    except subprocess.TimeoutExpired as error:
        raise SlurmUnreachableError(f"{words[0]} did not answer within {limit_s:g} s") from error
