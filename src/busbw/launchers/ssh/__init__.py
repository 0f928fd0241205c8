"""Starts the job on hosts that are reached by ssh: one connection to each host, and nothing but the programs on it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from busbw.errors import BusbwError, ExitCode
from busbw.launchers.job import processes
from busbw.launchers.job.child_processes import ExitStatus
from busbw.launchers.job.hosts import HostSlots, in_url, total
from busbw.launchers.job.job import Command, Job, LaunchCallbacks, LaunchPlan, process_variables
from busbw.launchers.ssh import preflight, scripts

OPTIONS = (
    ("BatchMode", "yes"),  # nobody could answer a question
    ("ConnectTimeout", "10"),
    ("ServerAliveInterval", "5"),  # a host that is gone is noticed within 15 s
    ("ServerAliveCountMax", "3"),
    ("LogLevel", "ERROR"),
)
"""Of OpenSSH's client; the first of several settings of an option counts, so what a user gives goes before these."""

_JOIN_TIMEOUT = "BUSBW_JOIN_TIMEOUT_S"
_JOIN_TIMEOUT_S = 60
"""The engine's own (rendezvous/world.cpp), for hosts that are connected to at once; a second more for each other."""

LOST = 255
"""The exit code of ssh itself; no program of ours has it."""


@dataclass(frozen=True)
class SshTarget:
    """The hosts, and how they are reached."""

    hosts: tuple[HostSlots, ...]
    """The first one has process 0."""
    root_address: str
    """By which all of them reach the first one."""
    port: int
    """Where process 0 listens there."""
    ssh: tuple[str, ...] = ("ssh",)
    programs: tuple[str, ...] = ()
    """Where the program may be on a host, in order; the job's own where it is empty."""


@dataclass(frozen=True)
class SshPlan(LaunchPlan):
    """With what is looked at before anything starts."""

    checks: tuple[Command, ...] = ()

    def text(self) -> str:
        """What would be run: the checks, and then the commands, a few connections at a time."""
        looks = "\n".join(check.text() for check in self.checks)
        return f"# a look at every host:\n{looks}\n# the job:\n{super().text()}"


def render(job: Job, where: SshTarget) -> SshPlan:
    """One command for each host; the script and the token go in by stdin."""
    programs = where.programs or (str(job.program),)
    common = job.shared_variables(
        store=f"tcp://{in_url(where.root_address)}:{where.port}", processes=total(where.hosts)
    )
    if (later := len(where.hosts) - preflight.AT_A_TIME) > 0:
        # Process 0 waits for all from its own start on, while the others' connections are made a few at a time.
        common = {_JOIN_TIMEOUT: str(_JOIN_TIMEOUT_S + later), **common}
    commands, checks, first = [], [], 0
    for node, host in enumerate(where.hosts):
        ranks = range(first, first + host.processes)
        places = [process_variables(rank, node=node, local=rank - first, local_size=host.processes) for rank in ranks]
        script = scripts.start(programs, job.command[1:], common, places)
        words = remote_words(where.ssh, host)
        commands.append(
            Command(
                words,
                stdin=f"{script}{job.token}\n",
                process=first if host.processes == 1 else host.name,
                interrupt=scripts.INTERRUPT,
            )
        )
        checks.append(Command(words, stdin=scripts.preflight(programs), process=host.name))
        first += host.processes
    return SshPlan(tuple(commands), token=job.token, checks=tuple(checks))


def remote_words(ssh: Sequence[str], host: HostSlots) -> tuple[str, ...]:
    """The command line that runs a script on a host."""
    options = [word for name, value in OPTIONS for word in ("-o", f"{name}={value}")]
    return (*ssh, *options, "-T", host.name, scripts.READ_SCRIPT)


def submit(rendered: SshPlan, watch: LaunchCallbacks) -> int:
    """Looks at every host, then starts the job and stays until it has ended; the exit code is process 0's.

    Raises:
        BusbwError: A host cannot be reached, has no program, or has one of another version than the first host; or
            nothing came of process 0, which says that all is well.
    """
    watch.on_status(f"connecting to {len(rendered.checks)} hosts" if len(rendered.checks) > 1 else "connecting")
    preflight.check(rendered.checks, watch)
    watch.on_status("starting")
    after_mark = _MarkerFilter(watch)
    inner = replace(watch, on_line=after_mark.take)
    rules = processes.TerminationPolicy(grace_s=processes.GRACE_S)
    ended = processes.run_all(rendered.commands, inner, rules, at_a_time=preflight.AT_A_TIME)
    code = processes.job_exit_code(
        [_exit_status(command, each, watch) for command, each in zip(rendered.commands, ended, strict=True)]
    )
    if code == ExitCode.GOOD and not after_mark.has_come:
        host = rendered.commands[0].words[-2]
        raise BusbwError(
            f"nothing of what process 0 on {host} said came through",
            remedy=f"look at what ssh {host} /bin/sh does with a script's output; its shell's start files may take it",
        )
    return code


def _exit_status(command: Command, ended: ExitStatus, watch: LaunchCallbacks) -> ExitStatus:
    """A connection that broke is a lost rank; ssh has said why, if it knew."""
    if ended.code != LOST or ended.was_terminated:
        return ended
    if watch.on_error:
        host = command.words[-2]
        watch.on_error(f"busbw: the connection to {host} was lost; its processes end with it\n".encode(), None)
    return replace(ended, code=ExitCode.RANK_LOST)


class _MarkerFilter:
    """Drops what a login shell printed before our first line."""

    def __init__(self, watch: LaunchCallbacks) -> None:
        self._watch = watch
        self.has_come = False

    def take(self, line: bytes) -> None:
        if self.has_come:
            self._watch.on_line(line)
        self.has_come = self.has_come or scripts.is_mark(line.decode(errors="replace"))
