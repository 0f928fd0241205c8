"""Starts the job with mpirun of Open MPI, MPICH or Intel MPI. The programs need no MPI.

mpirun starts a shell script for each process (`wrapper_script`). The script prints the program's exit code on stderr,
from which `MpirunOutput` decides the exit code of the job. `MpirunOutput` also decides when mpirun must be ended.

mpirun gets SIGUSR1 as the interrupt: every mpirun forwards it, and after SIGINT, Open MPI forwards no more output. The
script turns SIGUSR1 into SIGINT for its program.
"""

import re
import signal
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Literal

from busbw.errors import SIGNALLED, BusbwError, ExitCode
from busbw.launchers.job import processes, shell
from busbw.launchers.job.command_start import ExitStatus
from busbw.launchers.job.grace_period import GracePeriod
from busbw.launchers.job.hosts import HostSlots, process_count
from busbw.launchers.job.job import Command, Job, LaunchCallbacks, LaunchPlan

Family = Literal["openmpi", "mpich"]
"""Command line syntax of mpirun, named like the engine's launchers. Intel MPI and others use MPICH's syntax."""

_OPEN_MPI = re.compile(r"\((?:Open MPI|OpenRTE|PRRTE)\) \d")
"""In `mpirun --version`. PRRTE is the launcher of Open MPI 5."""
_MPICH = re.compile(r"HYDRA build details|Intel\(R\) MPI Library|MPICH Version|MVAPICH", re.IGNORECASE)
"""In `mpirun --version`. Hydra is the launcher of MPICH and Intel MPI."""

START_LIMIT_S = 300.0
"""Time for mpirun to start all processes. mpirun itself waits without limit for a host that does not answer. After the
start, the engine's own limits apply."""

_PROCESS_EVENT = re.compile(rb"<busbw process (\d+) (?:started|ended with (\d+))>\n?")
"""Line that the wrapper script prints on stderr before and after its program. The wrapper itself exits with 0, because
mpirun would end all other processes after a nonzero exit code."""

_TERMINATED_CODES = (SIGNALLED + signal.SIGTERM, SIGNALLED + signal.SIGKILL)
"""Exit codes of mpirun after a second interrupt (`end_signal` in `submit`) and after a third one."""

_INTERRUPTED_CODES = (SIGNALLED + signal.SIGINT, SIGNALLED + signal.SIGTERM)
"""Exit codes of a process that mpirun ended because another process crashed."""
_EARLY_INTERRUPT_CODE = SIGNALLED + signal.SIGUSR1
"""Exit code of mpirun after an interrupt that arrives before it handles SIGUSR1."""

_REMEDIES = (
    (r"run as root", "start as another user, or add --allow-run-as-root"),
    (r"not enough slots|--oversubscribe", "add hosts, start fewer processes, or add --oversubscribe"),
)
"""Patterns in messages of mpirun, and the remedy for each."""


@dataclass(frozen=True)
class MpirunTarget:
    """The hosts, and the options of mpirun."""

    family: Family
    hosts: tuple[HostSlots, ...]
    """The first host runs process 0."""
    store: str
    """Rendezvous store: `tcp://HOST:PORT` on the first host, or `file:///FOLDER` that all hosts share."""
    mpirun: tuple[str, ...] = ("mpirun",)
    programs: tuple[str, ...] = ()
    """Paths or names to try on each host, in this order. Empty: the job's own program."""
    bind_to: str = "none"
    """Value of mpirun's option `--bind-to`, such as none, core or numa."""
    as_root: bool = False
    """True to let Open MPI run as root."""
    oversubscribe: bool = False
    extra_words: tuple[str, ...] = ()
    """Additional command line words for mpirun."""


@dataclass(frozen=True)
class MpirunPlan(LaunchPlan):
    """The command of mpirun, and the number of processes that report their end."""

    process_count: int = 0


def family_of(version_text: str) -> Family | None:
    """Detects the syntax from the output of `mpirun --version`. None if it is unknown."""
    if _OPEN_MPI.search(version_text):
        return "openmpi"
    return "mpich" if _MPICH.search(version_text) else None


def render(job: Job, target: MpirunTarget) -> MpirunPlan:
    """Returns one command. The values of variables, such as the token, are in its environment, not in its words."""
    variables = {**job.shared_variables(store=target.store), "BUSBW_LAUNCHER": target.family, "BUSBW_TOKEN": job.token}
    del variables["BUSBW_SIZE"]  # mpirun sets the number of processes
    script = wrapper_script(target.programs or (str(job.program),))
    is_open_mpi = target.family == "openmpi"
    options = _open_mpi_options(target, tuple(variables)) if is_open_mpi else _mpich_options(target)
    command = Command(
        (*target.mpirun, *options, *target.extra_words, "/bin/sh", "-c", script, "sh", *job.command[1:]),
        environment=tuple(variables.items()),
        interrupt=signal.SIGUSR1,
    )
    count = process_count(target.hosts)
    return MpirunPlan((command,), token=job.token, remarks=_remarks(target), process_count=count)


def _open_mpi_options(target: MpirunTarget, variables: Sequence[str]) -> tuple[str, ...]:
    """Options of Open MPI 4 and 5. Slots are filled in the order of the hosts, so the first host runs process 0."""
    return (
        *("--host", ",".join(f"{host.name}:{host.processes}" for host in target.hosts)),
        *("-np", str(process_count(target.hosts))),
        *("--map-by", "slot"),
        *("--bind-to", target.bind_to),
        *(("--oversubscribe",) if target.oversubscribe else ()),
        *(("--allow-run-as-root",) if target.as_root else ()),
        *(word for name in variables for word in ("-x", name)),
    )


def _mpich_options(target: MpirunTarget) -> tuple[str, ...]:
    """Options of MPICH, which passes its whole environment to the processes by default."""
    return (
        # Within an allocation MPICH uses the scheduler, which knows no node called localhost.
        *(("-launcher", "fork") if [host.name for host in target.hosts] == ["localhost"] else ()),
        *("-hosts", ",".join(f"{host.name}:{host.processes}" for host in target.hosts)),
        *("-np", str(process_count(target.hosts))),
        *("-bind-to", target.bind_to),
    )


def _remarks(target: MpirunTarget) -> tuple[str, ...]:
    if target.family == "openmpi" and target.as_root:
        return ("Open MPI refuses to run as root by default: --allow-run-as-root is added.",)
    return ()


def wrapper_script(programs: Sequence[str]) -> str:
    """Returns the shell script of each process. It runs the first of `programs` that exists on the host.

    mpirun ends all processes when one of them fails, before process 0 has printed its results. Therefore the script
    always exits with 0, and prints the start and the exit code of the program instead. The program ignores SIGUSR1,
    because it receives the signal too.
    """
    rank = "${OMPI_COMM_WORLD_RANK-$PMI_RANK}"
    lines = [
        f'echo "<busbw process {rank} started>" >&2',
        *shell.find_program(programs),
        f'if [ -z "$program" ]; then code={ExitCode.ENVIRONMENT:d}',
        '  echo "busbw: $(uname -n) has no such program; install busbw there, or set --program-path" >&2; else',
        "trap '' USR1",
        *shell.run_forwarding_signals('"$program" "$@"', {"USR1 INT": "INT", "TERM": "TERM"}),
        "fi",
        f'echo "<busbw process {rank} ended with $code>" >&2',
    ]
    return "\n".join(lines)


def submit(plan: MpirunPlan, callbacks: LaunchCallbacks) -> int:
    """Runs the plan until mpirun has ended and returns the exit code of the job.

    Raises:
        BusbwError: mpirun ended without any output or exit code of the job, or did not start all processes in time.
    """
    output = MpirunOutput(callbacks, plan.process_count)
    callbacks.on_status("starting by mpirun")
    status = processes.run_all(
        plan.commands,
        replace(callbacks, on_line=output.forward_line, on_error=output.forward_error_line),
        processes.TerminationPolicy(end_signal=signal.SIGTERM, should_end=output.should_end),
    )[0]
    code = output.exit_code(status.code)
    return status.interrupt_code if status.interrupt_code and code in _TERMINATED_CODES else code


class MpirunOutput:
    """Forwards the output of mpirun without the wrapper script's lines, and interprets these lines.

    Also limits the time of the start and of the end (`should_end`), and decides the exit code of the job.
    """

    def __init__(
        self, callbacks: LaunchCallbacks, process_count: int, *, now_s: Callable[[], float] = monotonic
    ) -> None:
        self._callbacks = callbacks
        self._process_count = process_count
        self._process_codes: dict[int, int] = {}
        """Exit codes of the ended processes, by process number."""
        self._stderr_lines: deque[str] = deque(maxlen=40)
        """Last lines of stderr. `find_remedy` searches them for a known error."""
        self._now_s = now_s
        self._started: set[int] = set()
        """Numbers of the processes that the wrapper script has started."""
        self._start_deadline_s: float | None = None
        """Time until which all processes must start. None before the first check."""
        self._has_start_timeout = False
        self._grace = GracePeriod(processes.GRACE_S, now_s)
        self._has_lost_process = False
        self._has_output = False

    def forward_line(self, line: bytes) -> None:
        """Forwards a line of stdout."""
        self._has_output = True
        self._callbacks.on_line(line)

    def forward_error_line(self, line: bytes, source: int | str | None) -> None:
        """Stores the starts and exit codes in a line of stderr, and forwards the rest of the line."""
        for process, code in _PROCESS_EVENT.findall(line):
            self._started.add(int(process))
            if code:
                self._process_codes[int(process)] = int(code)
        remaining = _PROCESS_EVENT.sub(b"", line)
        has_only_events = bool(line.strip()) and not remaining.strip()
        if not has_only_events:
            self._stderr_lines.append(remaining.decode(errors="replace"))
            self._callbacks.emit_error(remaining, source)

    def should_end(self) -> bool:
        """True if mpirun must be ended: processes did not start in time, or did not end within the grace period.

        Also stores the reason for `exit_code`, and reports a lost process. If all processes have succeeded, mpirun
        itself may take any time to end.
        """
        if not self._process_codes:
            is_overdue = self._is_start_deadline_over()
            self._has_start_timeout = self._has_start_timeout or is_overdue
            return is_overdue
        has_failed = any(self._process_codes.values())
        have_all_succeeded = not has_failed and len(self._process_codes) == self._process_count
        if have_all_succeeded:
            return False
        self._grace.update(self._process_codes.values(), is_paused=self._callbacks.is_backlogged())
        if self._grace.is_over and not has_failed:
            self._has_lost_process = True
            self._callbacks.emit_error(self._grace.lost_message)
        return self._grace.is_over

    def _is_start_deadline_over(self) -> bool:
        # Output proves that all processes have started: they have joined the job before.
        if self._has_output or len(self._started) == self._process_count:
            return False
        if self._start_deadline_s is None:
            self._start_deadline_s = self._now_s() + START_LIMIT_S
        return self._now_s() > self._start_deadline_s

    def exit_code(self, mpirun_code: int) -> int:
        """Returns the exit code of the job: from the codes of process 0 or of failed processes, else from mpirun's.

        Raises:
            BusbwError: The job has no output, and neither a code of process 0 nor a failure. Or not all processes have
                started in time.
        """
        if self._has_start_timeout:
            missing_count = self._process_count - len(self._started)
            raise BusbwError(
                f"mpirun has not started {missing_count} of {self._process_count} processes in {START_LIMIT_S:g} s",
                remedy="start `hostname` with the same mpirun and hosts, and look for the host that does not answer",
            )
        if self._has_lost_process:
            return ExitCode.RANK_LOST
        if 0 in self._process_codes or any(self._process_codes.values()):
            return self._exit_code_of_processes()
        if mpirun_code in _TERMINATED_CODES:
            return mpirun_code
        if mpirun_code == _EARLY_INTERRUPT_CODE:
            return ExitCode.INTERRUPTED
        if self._has_output:  # the job ran, but process 0 reported no exit code
            return ExitCode.RANK_LOST
        moment = "the job had output" if self._started else "any process started"
        raise BusbwError(
            f"mpirun ended with exit code {mpirun_code} before {moment}",
            remedy=find_remedy("".join(self._stderr_lines)),
        )

    def _exit_code_of_processes(self) -> int:
        """Returns the exit code of the job from the exit codes that its processes reported. Reports a crash."""
        others = {process: ExitStatus(code) for process, code in self._process_codes.items() if process}
        first_code = self._process_codes.get(0)
        if first_code is None:
            # Process 0 reported no code. A process that counts as terminated leaves the decision to a failed one.
            first_status = ExitStatus(0, was_terminated=True)
        else:
            # After a crash, mpirun interrupts process 0, perhaps before process 0 has noticed the loss.
            was_interrupted = first_code in _INTERRUPTED_CODES and any(map(processes.has_crashed, others.values()))
            first_status = ExitStatus(first_code, was_terminated=was_interrupted)
        statuses = [first_status, *others.values()]
        processes.report_crash(statuses, [f"process {process}" for process in (0, *others)], self._callbacks)
        return processes.job_exit_code(statuses)


def find_remedy(stderr_text: str) -> str:
    """Returns the remedy for the error in the stderr of mpirun."""
    return next((remedy for pattern, remedy in _REMEDIES if re.search(pattern, stderr_text)), "see its message above")
