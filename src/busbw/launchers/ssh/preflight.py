"""A look at the hosts before a job starts: whether each lets us in, has the program, and in one version."""

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace

from busbw.errors import BusbwError
from busbw.launchers.job import shell
from busbw.launchers.job.child_processes import ExitStatus
from busbw.launchers.job.hosts import HostSlots
from busbw.launchers.job.job import Command, LaunchCallbacks
from busbw.launchers.job.processes import TerminationPolicy, run_all
from busbw.launchers.ssh import scripts
from busbw.units import count_text, plain

_LIMIT_S = 60.0
_MAX_NAMED = 3
AT_A_TIME = 8
"""Connections that are being made at once. sshd turns some away from the tenth on (MaxStartups 10:30:100), and a
bastion gets those of all hosts."""

_CAUSES = (
    (r"Could not resolve hostname|Name or service not known", "correct the name, or give its address"),
    (r"REMOTE HOST IDENTIFICATION HAS CHANGED", "if that is right, remove its old key with ssh-keygen -R HOST"),
    (r"Host key verification failed", "connect once by hand with ssh HOST to accept its key"),
    (r"Permission denied", "let your key in with ssh-copy-id HOST, or load it with ssh-add"),
    (r"Too many authentication failures", "name the key: --ssh 'ssh -o IdentitiesOnly=yes -i KEY'"),
    (r"Connection refused", "start its sshd, or name the port: --ssh 'ssh -p PORT'"),
    (r"timed out|No route to host|Network is unreachable", "see whether it is up and reachable from here"),
    (
        r"kex_exchange_identification|Connection (?:closed|reset)",
        "look at the log of its sshd or its bastion's, which broke it off: MaxStartups may be too low for 8 at once",
    ),
)


@dataclass(frozen=True)
class HostCheck:
    """What was found on one host."""

    host: str
    problem: str = ""
    remedy: str = ""
    versions: tuple[str, ...] = ()


def check(checks: Sequence[Command], watch: LaunchCallbacks) -> None:
    """Looks at all hosts, several at once.

    Raises:
        BusbwError: Something is wrong with one or several; names them and what to do.
        KeyboardInterrupt: It was interrupted.
    """
    said: dict[str, list[str]] = {str(command.process): [] for command in checks}

    def listen(line: bytes, host: int | str | None) -> None:
        said[str(host)].append(line.decode(errors="replace"))

    ended = run_all(
        checks,
        replace(watch, on_line=lambda _line: None, on_error=listen),
        TerminationPolicy(on_interrupt=_raise_interrupted, limit_s=_LIMIT_S),
        at_a_time=AT_A_TIME,
    )
    require_ready([parse_check(host, each, said[host]) for host, each in zip(said, ended, strict=True)])


def _raise_interrupted() -> None:
    raise KeyboardInterrupt


def require_ready(looks: Sequence[HostCheck]) -> None:
    """Raises where a host is not ready, or has other versions than the first."""
    if bad := [look for look in looks if look.problem]:
        same = [look.host for look in bad if look.problem == bad[0].problem and look.remedy == bad[0].remedy]
        named = ", ".join(same[:_MAX_NAMED]) + (
            f" and {len(same) - _MAX_NAMED} more" if len(same) > _MAX_NAMED else ""
        )
        count = len(bad) - len(same)
        others = f" (and {count_text(count, 'host')} for other reasons)" if count else ""
        raise BusbwError(f"{named}: {bad[0].problem}{others}", remedy=bad[0].remedy.replace("HOST", bad[0].host))
    first = looks[0]
    for look in looks[1:]:
        if look.versions != first.versions:
            ours, theirs = _difference(first.versions, look.versions)
            raise BusbwError(
                f"{first.host} has {ours} and {look.host} has {theirs}",
                remedy="install the same version on all hosts, or name it with --program-path",
            )


def _difference(ours: Sequence[str], theirs: Sequence[str]) -> tuple[str, str]:
    for one, other in zip(ours, theirs, strict=False):
        if one != other:
            return one, other
    return ", ".join(ours) or "no version", ", ".join(theirs) or "no version"


def parse_check(host: str, ended: ExitStatus, lines: Sequence[str]) -> HostCheck:
    """What an attempt says of its host.

    Args:
        host: Its name.
        ended: How ssh ended.
        lines: What came on stderr: of ssh itself, and behind the mark of the host.
    """
    said = [plain(line.strip()) for line in lines if line.strip()]
    if ended.was_terminated:
        return HostCheck(host, f"no answer in {_LIMIT_S:g} s", "log in by hand with ssh HOST and see what it waits for")
    if not any(map(scripts.is_mark, said)):
        for pattern, remedy in _CAUSES:
            if line := next((line for line in said if re.search(pattern, line)), ""):
                return HostCheck(host, f"ssh cannot connect ({line})", remedy)
        last = said[-1] if said else f"exit code {ended.code}, without a word"
        return HostCheck(host, f"ssh cannot start a shell there ({last})", "see whether ssh HOST /bin/sh works by hand")
    program, *versions = said[[*map(scripts.is_mark, said)].index(True) + 1 :] or [""]
    if ended.code == shell.PROGRAM_MISSING and not program.startswith("program "):
        trouble = "the program is neither where it is here nor in the PATH"
        return HostCheck(host, trouble, "install busbw there, or give --program-path")
    if ended.code:
        last = f": {versions[-1]}" if versions else ""
        trouble = f"{program.removeprefix('program ')} --version ends with exit code {ended.code}{last}"
        return HostCheck(host, trouble, "install busbw there again, or name another with --program-path")
    # Which hosts have the GPU engine, and with which headers, is the engine's affair: it knows what the job takes.
    return HostCheck(host, versions=tuple(line for line in versions if not line.startswith("backend nccl")))


def known_name(ssh: Sequence[str], host: HostSlots) -> str:
    """The name of a host that ssh may know under an alias; as it was typed where ssh cannot be asked."""
    try:
        done = subprocess.run([*ssh, "-G", host.name], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return host.address
    found = re.search(r"^hostname (\S+)$", done.stdout, re.MULTILINE)
    return found[1] if found else host.address
