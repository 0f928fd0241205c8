"""Copies the program to a new private folder on every host before a job, verifies it, and removes it afterwards.

Each host gets its own connection, with the program as stdin. The folder is new, so no other user can have prepared it.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from busbw.errors import UsageError
from busbw.launchers.job.command_start import ExitStatus
from busbw.launchers.job.job import Command, LaunchCallbacks
from busbw.launchers.job.processes import TerminationPolicy
from busbw.launchers.ssh import preflight, scripts
from busbw.units import plain

_FOLDER = re.compile(r"/[A-Za-z0-9/._-]*\Z")
"""A folder that every shell takes without quotes."""
_COPY_LIMIT_S = 600.0
"""Time limit for all copies, counted from the start of the last one."""
_REMOVAL_LIMIT_S = 30.0


@dataclass(frozen=True)
class ProgramCopy:
    """The program to copy, and its destination."""

    source: Path
    """File on this machine."""
    sha256: str
    """Hexadecimal hash of the file."""
    parent: str
    """Folder on the hosts in which the new folder is made."""

    def folder(self, job_name: str, node: int) -> str:
        """Returns the new folder. Its name has the node's number, because two hosts may be one machine."""
        return f"{self.parent.rstrip('/')}/{job_name}-{node}"


def require_plain_folder(text: str) -> str:
    """Returns the folder.

    Raises:
        UsageError: It is not absolute, or contains characters that a shell interprets.
    """
    if not _FOLDER.match(text):
        raise UsageError(
            f'--copy-to "{text}" is not an absolute folder of letters, digits, ".", "_" and "-"',
            remedy="use a folder such as /tmp",
        )
    return text


def copy_command(ssh_command: Sequence[str], copy: ProgramCopy, path: str, host: str) -> Command:
    """Returns the command that copies the program to this path on a host.

    Args:
        ssh_command: The ssh command with its options and the host.
        copy: The program.
        path: Path of the copy. Its folder must not exist.
        host: Name of the host, for messages.
    """
    folder = path.rpartition("/")[0]
    steps = " && ".join(
        [
            f"mkdir -m 700 {folder}",
            f"cat >{path}",
            f"chmod 700 {path}",
            f"set -- $(sha256sum {path})",
            f'{{ [ "$1" = {copy.sha256} ] || {{ echo the copy has another checksum; false; }}; }}',
        ]
    )
    # The steps contain no secret, so they may be on the command line. The quoting works in sh, csh and fish.
    # The mark shows that the login has succeeded. The empty line ends a line that the start files may leave open.
    # `run_on_hosts` returns only stderr, and start files mostly print on stdout.
    remote = f"exec /bin/sh -c 'exec 1>&2; echo; echo {scripts.MARK}; {steps}'"
    # This shell runs ssh ($@) with the program's file ($0) as stdin.
    return Command(("/bin/sh", "-c", 'exec "$@" <"$0"', str(copy.source), *ssh_command, remote), label=host)


def removal_command(ssh_command: Sequence[str], folder: str, host: str) -> Command:
    """Returns the command that removes the folder of the copy on a host. A missing folder is no error."""
    return Command((*ssh_command, f"rm -rf {folder}"), label=host)


@contextmanager
def copies_on_hosts(
    copies: Sequence[Command], removals: Sequence[Command], callbacks: LaunchCallbacks
) -> Iterator[None]:
    """Copies the program to all hosts, several at a time, and removes the copies at the end of the context.

    A copy is removed from each host on which the copying began, also if the copying or the context failed.

    Raises:
        BusbwError: A host cannot be reached, or the copy failed or differs.
        KeyboardInterrupt: The copy was interrupted.
    """
    begun_hosts: set[str] = set()
    try:
        callbacks.on_status("copying the program")
        policy = preflight.interruptible_policy(_COPY_LIMIT_S)
        results = preflight.run_on_hosts(copies, callbacks, policy, on_mark=begun_hosts.add)
        preflight.require_ready([_parse_copy(host, status, lines) for host, status, lines in results])
        yield
    finally:
        if begun_hosts:
            remove_from_hosts([command for command in removals if str(command.label) in begun_hosts], callbacks)


def remove_from_hosts(commands: Sequence[Command], callbacks: LaunchCallbacks) -> None:
    """Removes the copies from these hosts. Reports those that may remain."""
    results = preflight.run_on_hosts(commands, callbacks, TerminationPolicy(limit_s=_REMOVAL_LIMIT_S))
    for command, (host, status, _) in zip(commands, results, strict=True):
        if status.code:
            callbacks.print_error(f"the copy of the program on {host} may remain; run there: {command.words[-1]}")


def _parse_copy(host: str, status: ExitStatus, lines: Sequence[str]) -> preflight.HostCheck:
    """Interprets the exit status and the output of one copy."""
    output = [plain(line.strip()) for line in lines if line.strip()]
    if unreached := preflight.connection_problem(host, status, output, _COPY_LIMIT_S):
        return unreached
    if not status.code:
        return preflight.HostCheck(host)
    # The last line is the message of the step that failed. If it is the mark, that step printed nothing.
    reason = f"exit code {status.code}" if scripts.is_mark(output[-1]) else output[-1]
    return preflight.HostCheck(
        host, f"cannot copy the program ({reason})", "choose a writable folder with --copy-to, or install busbw there"
    )
