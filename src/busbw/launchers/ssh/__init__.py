"""Starts the job on hosts over ssh. The hosts need only the engine's programs.

Each host has one connection: ssh runs a script (`scripts.start`) that starts the processes of this host. The script
ends with the exit code of the first failed process. A broken connection counts as a lost rank. Before the job starts,
`preflight` checks the hosts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from busbw.errors import BusbwError, ExitCode
from busbw.launchers.job import processes
from busbw.launchers.job.command_start import ExitStatus
from busbw.launchers.job.hosts import HostSlots, in_url, process_count
from busbw.launchers.job.job import Command, Job, LaunchCallbacks, LaunchPlan, process_variables
from busbw.launchers.ssh import preflight, program_copy, scripts
from busbw.launchers.ssh.program_copy import ProgramCopy, require_plain_folder

OPTIONS = (
    ("BatchMode", "yes"),  # no user can answer a prompt
    ("ConnectTimeout", "10"),  # seconds
    ("ServerAliveInterval", "5"),  # detects a lost host within 15 s
    ("ServerAliveCountMax", "3"),
    ("LogLevel", "ERROR"),
)
"""Options of OpenSSH's client. OpenSSH uses the first value of an option, so the user's options override these."""

_JOIN_TIMEOUT_VARIABLE = "BUSBW_JOIN_TIMEOUT_S"
_DEFAULT_JOIN_TIMEOUT_S = 60
"""The engine's default time limit for all processes to join. `render` adds 1 s for each host beyond MAX_CONNECTING."""

SSH_FAILED = 255
"""Exit code of ssh itself; busbw's programs never use it."""


@dataclass(frozen=True)
class SshTarget:
    """The hosts, and the ssh command that reaches them."""

    hosts: tuple[HostSlots, ...]
    """The first host runs process 0."""
    root_address: str
    """Address at which all hosts reach the first one."""
    port: int
    """Port on which process 0 listens."""
    ssh: tuple[str, ...] = ("ssh",)
    programs: tuple[str, ...] = ()
    """Paths or names to try on each host, in this order. Empty: the job's own program."""
    copy: ProgramCopy | None = None
    """Program that is copied to each host and used instead of `programs`. None: the hosts have the program."""


@dataclass(frozen=True)
class SshPlan(LaunchPlan):
    """Launch plan with the checks that run before the job."""

    checks: tuple[Command, ...] = ()
    """One command for each host."""
    copies: tuple[Command, ...] = ()
    """Commands that copy the program, one for each host. Empty: the hosts have it."""

    def text(self) -> str:
        """The copies, the checks and the commands in shell syntax."""
        lines = []
        if self.copies:
            lines += ["# copy of the program to every host:", *(command.text() for command in self.copies)]
        lines += ["# check of every host:", *(check.text() for check in self.checks)]
        return "\n".join([*lines, "# the job:", super().text()])


def render(job: Job, target: SshTarget) -> SshPlan:
    """Returns one command for each host, which reads its script and the token from stdin."""
    shared = _shared_variables(job, target)
    commands, checks, copies, removals = [], [], [], []
    first_process = 0  # number of the first process on the current host
    for node, host in enumerate(target.hosts):
        per_process = [
            process_variables(first_process + local, node=node, local=local, local_size=host.processes)
            for local in range(host.processes)
        ]
        ssh_command = remote_command(target.ssh, host)
        programs = target.programs or (str(job.program),)
        copy_folder = ""
        if target.copy:
            copy_folder = target.copy.folder(job.name, node)
            copied_program = f"{copy_folder}/{PurePath(job.program).name}"
            programs = (copied_program,)
            *ssh_and_host, _ = ssh_command  # without the last word, READ_SCRIPT
            copies.append(program_copy.copy_command(ssh_and_host, target.copy, copied_program, host.name))
            removals.append(program_copy.removal_command(ssh_and_host, copy_folder, host.name))
        script = scripts.start(programs, job.command[1:], shared, per_process, remove=copy_folder)
        commands.append(
            Command(
                ssh_command,
                stdin=f"{script}{job.token}\n",
                label=first_process if host.processes == 1 else host.name,
                interrupt=scripts.INTERRUPT,
            )
        )
        checks.append(Command(ssh_command, stdin=scripts.preflight(programs), label=host.name))
        first_process += host.processes
    return SshPlan(
        tuple(commands),
        token=job.token,
        tolerates_losses=job.tolerates_losses,
        checks=tuple(checks),
        copies=tuple(copies),
        cleanup=tuple(removals),
    )


def _shared_variables(job: Job, target: SshTarget) -> dict[str, str]:
    """Returns the variables that are equal in all processes, without the token."""
    shared = job.shared_variables(
        store=f"tcp://{in_url(target.root_address)}:{target.port}", processes=process_count(target.hosts)
    )
    extra_hosts = len(target.hosts) - preflight.MAX_CONNECTING
    if extra_hosts > 0:
        # The time limit of process 0 begins while ssh still connects to other hosts, MAX_CONNECTING at a time. A limit
        # that the user sets is in `shared` and has priority.
        shared = {_JOIN_TIMEOUT_VARIABLE: str(_DEFAULT_JOIN_TIMEOUT_S + extra_hosts), **shared}
    has_equal_hosts = len({host.processes for host in target.hosts}) == 1
    if job.tolerates_losses and has_equal_hosts:  # process 0 names the hosts of processes that never join
        shared["BUSBW_HOSTS"] = ",".join(host.address for host in target.hosts)
    return shared


def remote_command(ssh: Sequence[str], host: HostSlots) -> tuple[str, ...]:
    """Returns the ssh command that runs the script on stdin on a host."""
    options = [word for name, value in OPTIONS for word in ("-o", f"{name}={value}")]
    return (*ssh, *options, "-T", host.name, scripts.READ_SCRIPT)


def submit(plan: SshPlan, callbacks: LaunchCallbacks) -> int:
    """Copies the program if the plan says so, runs the job to its end, and removes the copies.

    Returns:
        The exit code of the job, as `processes.job_exit_code` decides.

    Raises:
        BusbwError: A host cannot be reached, lacks the program, or has another version than the first host. Also if
            process 0 succeeded but its output did not arrive.
    """
    if not plan.copies:
        return _run_job(plan, callbacks)
    with program_copy.copies_on_hosts(plan.copies, plan.cleanup, callbacks):
        return _run_job(plan, callbacks)


def _run_job(plan: SshPlan, callbacks: LaunchCallbacks) -> int:
    """Checks every host, and runs the job to its end."""
    callbacks.on_status(f"connecting to {len(plan.checks)} hosts" if len(plan.checks) > 1 else "connecting")
    preflight.check(plan.checks, callbacks)
    callbacks.on_status("starting")
    marker_filter = _MarkerFilter(callbacks)
    filtered = replace(callbacks, on_line=marker_filter.forward_line)
    policy = processes.TerminationPolicy(grace_s=processes.GRACE_S, follows_first=plan.tolerates_losses)
    ssh_statuses = processes.run_all(plan.commands, filtered, policy, max_connecting=preflight.MAX_CONNECTING)
    hosts = [str(check.label) for check in plan.checks]  # in the order of the commands
    statuses = [
        _with_lost_connection(host, status, callbacks) for host, status in zip(hosts, ssh_statuses, strict=True)
    ]
    processes.report_crash(statuses, [f"a process on {host}" for host in hosts], callbacks)
    code = processes.job_exit_code(statuses)
    if code == ExitCode.GOOD and not marker_filter.has_seen_mark:
        raise BusbwError(
            f"the output of process 0 on {hosts[0]} did not arrive",
            remedy=f"run `ssh {hosts[0]} /bin/sh` by hand; shell start files may redirect its output",
        )
    return code


def _with_lost_connection(host: str, status: ExitStatus, callbacks: LaunchCallbacks) -> ExitStatus:
    """Reports a broken connection, and replaces ssh's exit code by RANK_LOST. ssh may have printed the reason."""
    if status.code != SSH_FAILED or status.was_terminated:
        return status
    callbacks.print_error(f"the connection to {host} was lost; its processes end once the host notices this")
    return replace(status, code=ExitCode.RANK_LOST)


class _MarkerFilter:
    """Forwards the stdout of process 0, without the lines that the login shell printed before `scripts.MARK`."""

    def __init__(self, callbacks: LaunchCallbacks) -> None:
        self._callbacks = callbacks
        self.has_seen_mark = False

    def forward_line(self, line: bytes) -> None:
        if self.has_seen_mark:
            self._callbacks.on_line(line)
        self.has_seen_mark = self.has_seen_mark or scripts.is_mark(line.decode(errors="replace"))


__all__ = [
    "OPTIONS",
    "ProgramCopy",
    "SshPlan",
    "SshTarget",
    "remote_command",
    "render",
    "require_plain_folder",
    "submit",
]
