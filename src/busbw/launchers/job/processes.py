"""Runs commands of a launcher to their end: ONE WAY of starting a program, of passing on signals, of reading pipes."""

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from busbw.errors import SIGNALLED, BusbwError, ExitCode
from busbw.launchers.job.child_processes import ChildProcesses, ExitStatus, TerminationPolicy, raise_open_file_limit
from busbw.launchers.job.job import Command, LaunchCallbacks, PrivateFile

GRACE_S = 15.0
"""How long processes may take to end by themselves after one has failed: they notice a lost one within 10 s."""
_ORDERLY = {SIGNALLED + number for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE)}
"""Exit codes of signals that the engine heeds, and of a reader that went away."""


def run(command: Command, watch: LaunchCallbacks | None = None) -> int:
    """Runs one command to its end and returns its exit code; without a watch its output goes where ours goes."""
    return run_all([command], watch)[0].code


def run_all(
    commands: Sequence[Command],
    watch: LaunchCallbacks | None = None,
    rules: TerminationPolicy | None = None,
    *,
    at_a_time: int | None = None,
) -> list[ExitStatus]:
    """Runs commands at once, to their end.

    Each gets a session of its own, so that a Ctrl-C reaches it once, from here, and not twice. Interrupts, hang-ups and
    stops are passed on, and this function waits for the end of all whatever comes. Where there are several commands, or
    one that is interrupted in another way than by a signal, the second interrupt ends them at once, and the third kills
    them. One that came too late to end a command takes effect here afterwards, so that it is never lost.

    Args:
        commands: The first one's stdout is the job's.
        watch: Without it the output of the commands goes where ours goes; without `on_error` their stderr does.
        rules: When and how they are ended; without any they end by themselves.
        at_a_time: No more than so many of them have yet to say something when the next one is started.

    Returns:
        How each ended, in their order.

    Raises:
        BusbwError: One cannot be started; those that were are ended.
    """
    raise_open_file_limit(len(commands))
    with ChildProcesses(watch, rules or TerminationPolicy()) as children:
        for command in commands:
            if at_a_time is not None:
                children.wait_for_slot(at_a_time)
            children.start(command)
        children.run_to_end()
    return children.ended()


@contextmanager
def written_files(files: Sequence[PrivateFile]) -> Iterator[None]:
    """Writes files that only their owner may read, and removes them in the end.

    Raises:
        BusbwError: One cannot be written, or is there already.
    """
    with ExitStack() as undo:
        for file in files:
            try:
                descriptor = os.open(file.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(descriptor, "w") as stream:
                    undo.callback(file.path.unlink, missing_ok=True)
                    stream.write(file.text)
            except OSError as error:
                raise BusbwError(
                    f"cannot write {file.path}: {error.strerror}", remedy="name a folder where you may write"
                ) from error
        yield


def job_exit_code(ended: Sequence[ExitStatus]) -> int:
    """The exit code of a job of several processes: that of process 0, which knows how the run went.

    Where it was ended from here, or thinks that all is well, the first other that failed by itself decides. One that
    was killed or crashed is a lost rank.
    """
    first = ended[0]
    if not first.code or first.was_terminated:
        first = next((each for each in ended if each.code and not each.was_terminated), first)
    return ExitCode.RANK_LOST if _crashed(first) else first.code


def killed_message(ended: Sequence[ExitStatus]) -> str:
    """What to say where nobody is left who could have said it: all were killed or have crashed. Empty otherwise."""
    if not all(map(_crashed, ended)):
        return ""
    names = dict.fromkeys(_signal_name(each.code - SIGNALLED) for each in ended)
    return (
        f"every process was killed or crashed ({', '.join(names)}); look at dmesg or the memory limit where it was "
        "SIGKILL, or else repeat it with NCCL_DEBUG=INFO and report both"
    )


def _crashed(each: ExitStatus) -> bool:
    return each.code > SIGNALLED and each.code not in _ORDERLY and not each.was_terminated


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


__all__ = [
    "GRACE_S",
    "ExitStatus",
    "TerminationPolicy",
    "job_exit_code",
    "killed_message",
    "run",
    "run_all",
    "written_files",
]
