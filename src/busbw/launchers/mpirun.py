"""Starts the job by an MPI's own launcher: mpirun of Open MPI, MPICH or Intel MPI. The programs need no MPI."""

import re
import signal
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Literal

from busbw.errors import SIGNALLED, BusbwError, ExitCode
from busbw.launchers.job import processes, shell
from busbw.launchers.job.child_processes import ExitStatus
from busbw.launchers.job.hosts import HostSlots, total
from busbw.launchers.job.job import Command, Job, LaunchCallbacks, LaunchPlan

Family = Literal["openmpi", "mpich"]
"""Whose command line mpirun has, by the engine's names of launchers; that of Intel MPI and others is MPICH's."""

_OPEN_MPI = re.compile(r"\((?:Open MPI|OpenRTE|PRRTE)\) \d")
_HYDRA = re.compile(r"HYDRA build details|Intel\(R\) MPI Library|MPICH Version|MVAPICH", re.IGNORECASE)

_ENDED = re.compile(rb"<busbw process (\d+) ended with (\d+)>\n?")
"""What the shell around each program says on stderr: if mpirun had the exit code, it would end the others at once."""

_ENDED_BY_US = (SIGNALLED + signal.SIGTERM, SIGNALLED + signal.SIGKILL)
"""How mpirun ends when it is interrupted again."""

_TOO_EARLY = SIGNALLED + signal.SIGUSR1
"""How it ends when it is interrupted before it heeds that signal."""

_REMEDIES = (
    (r"run as root", "start it as another user, or add --allow-run-as-root"),
    (r"not enough slots|--oversubscribe", "name more --hosts or fewer processes, or add --oversubscribe"),
)


@dataclass(frozen=True)
class MpirunTarget:
    """The hosts, and how this mpirun is told of them."""

    family: Family
    hosts: tuple[HostSlots, ...]
    """The first one has process 0."""
    store: str
    """Where the processes meet: `tcp://HOST:PORT` on the first host, or `file:///FOLDER` that all of them see."""
    mpirun: tuple[str, ...] = ("mpirun",)
    programs: tuple[str, ...] = ()
    """Where the program may be on a host, in order; the job's own where it is empty."""
    bind_to: str = "none"
    as_root: bool = False
    oversubscribe: bool = False
    extra_words: tuple[str, ...] = ()
    """Further words for mpirun."""


def family_of(version: str) -> Family | None:
    """Whose mpirun it is that says this when it is asked for its version; None where nobody knows."""
    if _OPEN_MPI.search(version):
        return "openmpi"
    return "mpich" if _HYDRA.search(version) else None


def render(job: Job, where: MpirunTarget) -> LaunchPlan:
    """One command; the values of variables, such as the token, are in its environment and never on its command line."""
    variables = {**job.shared_variables(store=where.store), "BUSBW_LAUNCHER": where.family, "BUSBW_TOKEN": job.token}
    del variables["BUSBW_SIZE"]  # the launcher's own count says it
    script = wrapped(where.programs or (str(job.program),))
    words = _open_mpi(where, tuple(variables)) if where.family == "openmpi" else _hydra(where)
    command = Command(
        (*where.mpirun, *words, *where.extra_words, "/bin/sh", "-c", script, "sh", *job.command[1:]),
        environment=tuple(variables.items()),
        interrupt=signal.SIGUSR1,
    )
    return LaunchPlan((command,), token=job.token, remarks=_remarks(where))


def _open_mpi(where: MpirunTarget, variables: Sequence[str]) -> tuple[str, ...]:
    """As versions 4 and 5 have it. Slots are filled in the order of the hosts, so process 0 is on the first."""
    return (
        *("--host", ",".join(f"{host.name}:{host.processes}" for host in where.hosts)),
        *("-np", str(total(where.hosts))),
        *("--map-by", "slot"),
        *("--bind-to", where.bind_to),
        *(("--oversubscribe",) if where.oversubscribe else ()),
        *(("--allow-run-as-root",) if where.as_root else ()),
        *(word for name in variables for word in ("-x", name)),
    )


def _hydra(where: MpirunTarget) -> tuple[str, ...]:
    """As MPICH has it. By default its processes get the whole environment."""
    return (
        # Within an allocation it would have the scheduler start them, which knows no node of that name.
        *(("-launcher", "fork") if [host.name for host in where.hosts] == ["localhost"] else ()),
        *("-hosts", ",".join(f"{host.name}:{host.processes}" for host in where.hosts)),
        *("-np", str(total(where.hosts))),
        *("-bind-to", where.bind_to),
    )


def _remarks(where: MpirunTarget) -> tuple[str, ...]:
    if where.family == "openmpi" and where.as_root:
        return ("Open MPI starts nothing for root unless it is told to: --allow-run-as-root is added.",)
    return ()


def wrapped(programs: Sequence[str]) -> str:
    """The shell around each program.

    mpirun ends all others when one process fails, before process 0 has said what it knows; and at an interrupt Open MPI
    shows nothing any more. So this shell ends well whatever happened and says how the program ended, and it takes a
    SIGUSR1, which every mpirun hands on, for an interrupt. The program gets that signal too, and ignores it.
    """
    lines = [
        *shell.find_program(programs),
        f'if [ -z "$program" ]; then code={ExitCode.ENVIRONMENT:d}',
        '  echo "busbw: $(uname -n) lacks the program; install busbw there, or give --program-path" >&2; else',
        "trap '' USR1",
        *shell.run_forwarding_signals('"$program" "$@"', {"USR1 INT": "INT", "TERM": "TERM"}),
        "fi",
        'echo "<busbw process ${OMPI_COMM_WORLD_RANK-$PMI_RANK} ended with $code>" >&2',
    ]
    return "\n".join(lines)


def submit(rendered: LaunchPlan, watch: LaunchCallbacks) -> int:
    """Runs it and stays until it has ended; the exit code is process 0's.

    Raises:
        BusbwError: mpirun ended without having started the job; its own words are in the sentence.
    """
    listener = MpirunOutput(watch)
    watch.on_status("starting by mpirun")
    ended = processes.run_all(
        rendered.commands,
        replace(watch, on_line=listener.line, on_error=listener.error),
        processes.TerminationPolicy(end_signal=signal.SIGTERM, should_end=listener.is_over),
    )[0]
    return listener.exit_code(ended.code)


class MpirunOutput:
    """Takes out of what mpirun prints how each process ended."""

    def __init__(self, watch: LaunchCallbacks, *, now_s: Callable[[], float] = monotonic) -> None:
        self._watch = watch
        self._now_s = now_s
        self._codes: dict[int, int] = {}
        self._said: deque[str] = deque(maxlen=40)
        self._failed_s: float | None = None
        self._has_begun = False

    def line(self, line: bytes) -> None:
        """Takes a line of stdout."""
        self._has_begun = True
        self._watch.on_line(line)

    def error(self, line: bytes, who: int | str | None) -> None:
        """Takes a line of stderr."""
        for process, code in _ENDED.findall(line):
            self._codes[int(process)] = int(code)
            if int(code) and self._failed_s is None:
                self._failed_s = self._now_s()
        rest = _ENDED.sub(b"", line)
        if rest.strip() or not line.strip():
            self._said.append(rest.decode(errors="replace"))
            if self._watch.on_error:
                self._watch.on_error(rest, who)

    def is_over(self) -> bool:
        """Whether one has failed and the others had their time to notice."""
        return self._failed_s is not None and self._now_s() - self._failed_s > processes.GRACE_S

    def exit_code(self, mpirun_code: int) -> int:
        """The job's, where mpirun ended with that one.

        Raises:
            BusbwError: No process has begun.
        """
        if 0 in self._codes or any(self._codes.values()):
            others = [code for process, code in self._codes.items() if process]
            first = ExitStatus(self._codes[0]) if 0 in self._codes else ExitStatus(0, was_terminated=True)
            return processes.job_exit_code([first, *map(ExitStatus, others)])
        if mpirun_code in _ENDED_BY_US:
            return mpirun_code
        if mpirun_code == _TOO_EARLY:
            return ExitCode.INTERRUPTED
        if self._has_begun:
            return ExitCode.RANK_LOST
        raise BusbwError(
            f"mpirun ended with exit code {mpirun_code} before a process had begun", remedy=remedy("".join(self._said))
        )


def remedy(said: str) -> str:
    """What to do about what mpirun said."""
    return next((what for pattern, what in _REMEDIES if re.search(pattern, said)), "what it said stands above")
