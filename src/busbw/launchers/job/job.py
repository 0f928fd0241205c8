"""Data that all launchers share: the job, the launch plan with its commands, and the callbacks.

A job is one run of the engine. It consists of processes, and each process has one or more ranks.
"""

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.engine import EACH_NODE, FLOWS, LOST_HOSTS_VARIABLE
from busbw.support.secret_variables import may_be_secret, redacted_variables

if TYPE_CHECKING:
    from busbw.launchers.machine_types.machine_type import MachineType

TOKEN_PLACEHOLDER = "<token>"
"""Placeholder for the token in every text shown to a user."""

RECORDS_ON_STDOUT = "-"
"""Value of the engine's `--records`. Stdout then mixes record lines, which begin with `{`, and table lines."""


@dataclass(frozen=True)
class Job:
    """One run of an engine program, by one or more processes."""

    program: str | Path
    """Path, or bare name that is searched on the node of the process."""
    arguments: tuple[str, ...]
    """Flags of the engine, without `--records`, which `command` adds to a measurement."""
    records: Path | None = None
    """New file that the engine writes. None: process 0 prints the records on stdout."""
    name: str = "busbw"
    """Unique among the jobs of its owner. At most 40 lower-case letters, digits and dashes; the first is a letter."""
    nodes: int = 1
    """Number of nodes. Not used if the launcher's target states the number of processes of each host."""
    processes_per_node: int = 1
    """Processes on each node. Not used if the launcher's target states the number of processes of each host."""
    ranks_per_process: int = 1
    """Threads times GPUs per thread, equal to `-t` times `-g` in the arguments."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables of every process in addition to the launcher's, such as those of `--env`."""
    machine_type: "MachineType | None" = None
    """Machine type of the nodes, if set: devices, memory, scheduler options. `environment` already contains its
    variables."""
    token: str = field(default="", repr=False)
    """Shared secret of the processes. It is passed by environment, private file, Secret or stdin. It is never on a
    command line, which every user of a machine can read."""

    @property
    def tolerates_losses(self) -> bool:
        """True for a search (`busbw find`): it continues if a process other than process 0 is lost or cannot start."""
        return self.arguments[:1] == (FLOWS,)

    @property
    def is_for_each_node(self) -> bool:
        """True if the job runs a command on each node instead of a measurement."""
        return self.arguments[:1] == (EACH_NODE,)

    @property
    def names_nodes(self) -> bool:
        """True if the results name nodes: those of `busbw doctor` and `busbw find`."""
        return self.is_for_each_node or self.tolerates_losses

    @property
    def processes(self) -> int:
        """Number of processes, unless the launcher's target states the number of processes of each host."""
        return self.nodes * self.processes_per_node

    @property
    def command(self) -> tuple[str, ...]:
        """Command line of each process."""
        words = (str(self.program), *self.arguments)
        if self.is_for_each_node:
            return words
        return (*words, "--records", str(self.records or RECORDS_ON_STDOUT))

    @property
    def secrets(self) -> dict[str, str]:
        """Variables of `environment` that may be secret. Launchers pass them on like the token."""
        return {name: value for name, value in self.environment if may_be_secret(name, value)}

    @property
    def plain_environment(self) -> dict[str, str]:
        """Variables of `environment` that are not secret."""
        return {name: value for name, value in self.environment if name not in self.secrets}

    def without_secrets(self) -> "Job":
        """Returns the job for a dry run, which shows no secret of `environment`."""
        return replace(self, environment=redacted_variables(self.environment))

    def with_lost_hosts(self, lost: Mapping[str, str]) -> "Job":
        """Returns the job with a variable that tells process 0 on which hosts nothing can start.

        Args:
            lost: Reason by the name of the host.
        """
        return replace(self, environment=(*self.environment, (LOST_HOSTS_VARIABLE, json.dumps(lost))))

    def shared_variables(self, *, store: str, processes: int | None = None) -> dict[str, str]:
        """Returns `environment` with BUSBW_LAUNCHER, BUSBW_SIZE and BUSBW_RENDEZVOUS, which are equal in all processes.

        BUSBW_LAUNCHER is `busbw`, so each process takes its number from `process_variables`. The token is not included,
        because each launcher passes it in its own way.

        Args:
            store: Rendezvous store: `tcp://HOST:PORT` or `file:///FOLDER`.
            processes: Number of processes. None: nodes times processes per node.
        """
        size = self.processes if processes is None else processes
        return {**dict(self.environment), "BUSBW_LAUNCHER": "busbw", "BUSBW_SIZE": str(size), "BUSBW_RENDEZVOUS": store}


def process_variables(process: int, *, node: int, local: int, local_size: int) -> dict[str, str]:
    """Returns the variables that differ between the processes of a job.

    Args:
        process: Number of the process in the job.
        node: Number of the process's node.
        local: Number of the process on its node.
        local_size: Number of processes on its node.
    """
    values = {"BUSBW_RANK": process, "BUSBW_LOCAL_RANK": local, "BUSBW_LOCAL_SIZE": local_size, "BUSBW_NODE": node}
    return {name: str(value) for name, value in values.items()}


@dataclass(frozen=True)
class PrivateFile:
    """A temporary file that exists while the commands run. Only its owner may read it."""

    path: Path
    text: str = field(repr=False)


@dataclass(frozen=True)
class Command:
    """One command to run."""

    words: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Variables of the command in addition to the environment of busbw."""
    unset: tuple[str, ...] = ()
    """Variables of busbw's environment that the command does not inherit."""
    stdin: str | None = field(default=None, repr=False)
    """Input of the command. This process keeps the pipe open while the command runs. So a command that reads the end of
    the pipe knows that this process has died."""
    label: int | str | None = None
    """Label of the command's stderr: its process number, or the host of its processes. None: no label."""
    interrupt: str | int | None = None
    """Interrupt that the command gets instead of a received signal: a text on stdin, with INT or TERM for `{signal}`,
    or another signal. None: the received signal."""

    def line(self, separator: str = " ") -> str:
        """The command in shell syntax without its stdin. `separator` stands between the variables and the words."""
        prefix = [f"{name}={shlex.quote(value)}" for name, value in self.environment]
        if self.unset:
            prefix.insert(0, f"env {' '.join(f'-u {name}' for name in self.unset)}")
        words = shlex.join(self.words)
        return f"{' '.join(prefix)}{separator}{words}" if prefix else words

    def text(self) -> str:
        """The command in shell syntax."""
        line = self.line(separator=" \\\n  ")
        if self.stdin is None:
            return line
        stdin_lines = self.stdin.rstrip("\n")
        return f"{line} <<'end'\n{stdin_lines}\nend"


@dataclass(frozen=True)
class LaunchPlan:
    """Commands and files that a launcher rendered for a job. Rendering has no side effects.

    A launcher adds data for its `submit` in a subclass.
    """

    commands: tuple[Command, ...]
    """The launcher decides whether the commands run in sequence or in parallel."""
    files: tuple[PrivateFile, ...] = ()
    cleanup: tuple[Command, ...] = ()
    """Commands to run at the end or after an interrupt."""
    token: str = field(default="", repr=False)
    """The job's token, which `text` hides."""
    tolerates_losses: bool = False
    """See `Job.tolerates_losses`."""
    remarks: tuple[str, ...] = ()
    """Sentences about choices of the launcher. A dry run prints them as comments."""

    def text(self) -> str:
        """The files and commands in shell syntax, without the token."""
        parts = [f"# {remark}" for remark in self.remarks]
        for file in self.files:
            text = file.text.rstrip("\n")
            parts.append(f"install -m 600 /dev/stdin {shlex.quote(str(file.path))} <<'end'\n{text}\nend")
        parts += [command.text() for command in self.commands]
        if self.files or self.cleanup:
            parts.append("# at the end or after an interrupt:")
            parts += [command.text() for command in self.cleanup]
            parts += [f"rm -f {shlex.quote(str(file.path))}" for file in self.files]
        return redact_token("\n".join(parts), self.token)


def redact_token(text: str, token: str) -> str:
    """Replaces the token in a text by a placeholder."""
    return text.replace(token, TOKEN_PLACEHOLDER) if token else text


@dataclass(frozen=True)
class LaunchCallbacks:
    """Callbacks of a running job. They are called from the thread that called `submit`."""

    on_line: Callable[[bytes], None]
    """Receives each line of process 0's stdout, with its newline.

    The callback raises BrokenPipeError if the reader of the output has closed. The launcher then closes the pipe that
    it reads, or cancels the job if there is no pipe.
    """
    on_wait: Callable[[], None]
    """Called at least once a second, except while a command of Slurm runs. The caller can update its display."""
    on_status: Callable[[str], None] = lambda _text: None
    """Receives the reason of the current wait, such as "waiting: 2 of 4 tasks pending (Resources)". An empty text, or
    the first line of stdout, ends the wait. Launchers may repeat a text."""
    on_error: Callable[[bytes, int | str | None], None] | None = None
    """Receives each line of stderr and its process or host, None if unknown. Without this callback the processes
    inherit busbw's stderr."""
    is_backlogged: Callable[[], bool] = lambda: False
    """True if the reader of the `on_line` output has paused. The stdout of process 0 is then not read until the reader
    continues, or until an interrupt."""

    def emit_error(self, line: bytes, source: int | str | None = None) -> None:
        """Passes a line of stderr and its process or host to `on_error`, if it is set."""
        if self.on_error:
            self.on_error(line, source)

    def print_error(self, message: str) -> None:
        """Passes a message of the launcher to `on_error`, if it is set."""
        self.emit_error(f"busbw: {message}\n".encode())
