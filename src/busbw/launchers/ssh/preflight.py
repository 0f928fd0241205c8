"""Checks the hosts before a job starts: login works, the program exists, and its versions are equal on all hosts."""

import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from busbw.errors import BusbwError
from busbw.launchers.job import shell
from busbw.launchers.job.command_start import ExitStatus
from busbw.launchers.job.hosts import HostSlots
from busbw.launchers.job.job import Command, LaunchCallbacks
from busbw.launchers.job.processes import TerminationPolicy, run_all
from busbw.launchers.ssh import scripts
from busbw.units import count_text, names_text, plain

_LIMIT_S = 60.0
"""Time limit for all checks, counted from the start of the last one."""
_MAX_NAMED_HOSTS = 3
"""Maximum number of hosts that a message names."""
MAX_CONNECTING = 8
"""Maximum number of connections in setup at a time. sshd rejects some beyond ten (MaxStartups 10:30:100), and a bastion
receives the connections to all hosts."""

_CONNECTION_REMEDIES = (
    (r"Could not resolve hostname|Name or service not known", "correct the name, or use its address"),
    (r"REMOTE HOST IDENTIFICATION HAS CHANGED", "if the host changed, remove its old key: ssh-keygen -R HOST"),
    (r"Host key verification failed", "connect once with `ssh HOST` to accept its key"),
    (r"Permission denied", "install your key with ssh-copy-id HOST, or load it with ssh-add"),
    (r"Too many authentication failures", "choose the key: --ssh 'ssh -o IdentitiesOnly=yes -i KEY'"),
    (r"Connection refused", "start its sshd, or set the port: --ssh 'ssh -p PORT'"),
    (r"timed out|No route to host|Network is unreachable", "check that the host is up and reachable"),
    (
        r"kex_exchange_identification|Connection (?:closed|reset)",
        "check the sshd log of the host or bastion: MaxStartups may be below 8",
    ),
)
"""Patterns in messages of ssh, and the remedy for each. HOST stands for the host's name."""


@dataclass(frozen=True)
class HostCheck:
    """Result of the check of one host."""

    host: str
    problem: str = ""
    """Empty if the host is ready."""
    remedy: str = ""
    versions: tuple[str, ...] = ()
    """Lines of `--version` except that of the GPU backend. Empty if the host is not ready."""

    @property
    def reason(self) -> str:
        """Problem and remedy."""
        return f"{self.problem}; {self.remedy.replace('HOST', self.host)}"


class HostsNotReadyError(BusbwError):
    """One or more hosts cannot start a job."""

    def __init__(self, problem: str, *, remedy: str, failed: Sequence[HostCheck]) -> None:
        super().__init__(problem, remedy=remedy)
        self.failed = tuple(failed)


def check(checks: Sequence[Command], callbacks: LaunchCallbacks) -> None:
    """Checks all hosts, several at a time.

    Raises:
        BusbwError: One or more hosts are not ready. The message names them and a remedy.
        KeyboardInterrupt: The check was interrupted.
    """
    results = run_on_hosts(checks, callbacks, interruptible_policy(_LIMIT_S))
    require_ready([parse_check(host, status, lines) for host, status, lines in results])


def run_on_hosts(
    commands: Sequence[Command],
    callbacks: LaunchCallbacks,
    policy: TerminationPolicy,
    *,
    on_mark: Callable[[str], None] = lambda _host: None,
) -> list[tuple[str, ExitStatus, list[str]]]:
    """Runs one command for each host, several at a time. Returns host, exit status and lines of stderr for each.

    Args:
        commands: Commands with the name of the host as their label (`Command.label`).
        callbacks: Receive statuses.
        policy: Termination policy.
        on_mark: Called with the name of the host when it prints `scripts.MARK`: its login has succeeded.
    """
    hosts = [str(command.label) for command in commands]
    lines: dict[str, list[str]] = {host: [] for host in hosts}

    def keep_line(line: bytes, label: int | str | None) -> None:
        host, text = str(label), line.decode(errors="replace")
        lines[host].append(text)
        if scripts.is_mark(text):
            on_mark(host)

    statuses = run_all(
        commands,
        replace(callbacks, on_line=lambda _line: None, on_error=keep_line),
        policy,
        max_connecting=MAX_CONNECTING,
    )
    return [(host, status, lines[host]) for host, status in zip(hosts, statuses, strict=True)]


def interruptible_policy(limit_s: float) -> TerminationPolicy:
    """Returns the policy of commands before the job: an interrupt raises KeyboardInterrupt."""
    return TerminationPolicy(on_interrupt=_raise_interrupted, limit_s=limit_s)


def _raise_interrupted() -> None:
    raise KeyboardInterrupt


def require_ready(results: Sequence[HostCheck]) -> None:
    """Raises HostsNotReadyError if a host is not ready, and BusbwError if two hosts have different versions."""
    if failed := [result for result in results if result.problem]:
        raise _not_ready_error(failed)
    reference = results[0]
    for result in results[1:]:
        if result.versions != reference.versions:
            expected, different = _first_difference(reference.versions, result.versions)
            raise BusbwError(
                f"{reference.host} has {expected} and {result.host} has {different}",
                remedy="install the same version on all hosts, or set --program-path",
            )


def _not_ready_error(failed: Sequence[HostCheck]) -> HostsNotReadyError:
    """Returns the error with the first problem, the hosts that have this problem, and the number of other hosts."""
    first = failed[0]
    hosts = [result.host for result in failed if (result.problem, result.remedy) == (first.problem, first.remedy)]
    other_count = len(failed) - len(hosts)
    others = f" (and {count_text(other_count, 'host')} for other reasons)" if other_count else ""
    return HostsNotReadyError(
        f"{names_text(hosts, _MAX_NAMED_HOSTS)}: {first.problem}{others}",
        remedy=first.remedy.replace("HOST", first.host),
        failed=failed,
    )


def _first_difference(expected: Sequence[str], actual: Sequence[str]) -> tuple[str, str]:
    """Returns the first pair of different lines. Without such a pair, returns all lines of each side."""
    for expected_line, actual_line in zip(expected, actual, strict=False):
        if expected_line != actual_line:
            return expected_line, actual_line
    return ", ".join(expected) or "no version", ", ".join(actual) or "no version"


def parse_check(host: str, status: ExitStatus, lines: Sequence[str]) -> HostCheck:
    """Interprets the exit status and the output of one check.

    Args:
        host: Name of the host.
        status: Exit status of ssh.
        lines: Lines of stderr: those of ssh itself, then the mark and those of the script on the host.
    """
    output = [plain(line.strip()) for line in lines if line.strip()]
    if unreached := connection_problem(host, status, output, _LIMIT_S):
        return unreached
    mark_index = next(index for index, line in enumerate(output) if scripts.is_mark(line))
    # The script prints "program PATH", then the lines of `--version`.
    program, *versions = output[mark_index + 1 :] or [""]
    # Without the line "program PATH", this code is from the script. With it, the code is that of `--version`.
    if status.code == shell.PROGRAM_MISSING and not program.startswith("program "):
        problem = "the program is neither at the path of the launching machine nor in the PATH of the host"
        return HostCheck(host, problem, "install busbw there, or set --program-path")
    if status.code:
        last = f": {versions[-1]}" if versions else ""
        problem = f"{program.removeprefix('program ')} --version ends with exit code {status.code}{last}"
        return HostCheck(host, problem, "reinstall busbw there, or set --program-path")
    # Hosts may differ in the GPU backend. The engine itself checks whether the job needs this backend.
    return HostCheck(host, versions=tuple(line for line in versions if not line.startswith("backend nccl")))


def connection_problem(host: str, status: ExitStatus, output: Sequence[str], limit_s: float) -> HostCheck | None:
    """Returns the problem if the script on the host did not begin, or did not end in time. None otherwise.

    Args:
        host: Name of the host.
        status: Exit status of ssh.
        output: Lines of stderr.
        limit_s: Time limit of the command.
    """
    if status.was_terminated:
        return HostCheck(
            host, f"no answer in {limit_s:g} s", "run `ssh HOST` by hand and find the prompt that it waits at"
        )
    if any(map(scripts.is_mark, output)):
        return None
    for pattern, remedy in _CONNECTION_REMEDIES:
        for line in output:
            if re.search(pattern, line):
                return HostCheck(host, f"ssh cannot connect ({line})", remedy)
    last = output[-1] if output else f"exit code {status.code}, without a message"
    return HostCheck(
        host, f"ssh cannot start a shell there ({last})", "run `ssh HOST /bin/sh` by hand and fix its error"
    )


def resolve_host_name(ssh: Sequence[str], host: HostSlots) -> str:
    """Resolves an alias of the ssh configuration to the host's name.

    Returns the typed name without its user if `ssh -G` fails.
    """
    try:
        completed = subprocess.run([*ssh, "-G", host.name], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return host.address
    match = re.search(r"^hostname (\S+)$", completed.stdout, re.MULTILINE)
    return match[1] if match else host.address
