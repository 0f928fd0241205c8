"""What is to be started, and what starting it takes."""

import shlex
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from busbw.launchers.machine_types.machine_type import MachineType

TOKEN_SHOWN = "<token>"
"""Stands wherever a person sees what was rendered; the token itself is seen by nobody."""

RECORDS_ON_STDOUT = "-"
"""The engine's `--records -`: record lines begin with `{` and stand between the lines of the table, which never do."""


PLACE = (
    "BUSBW_LAUNCHER",
    "BUSBW_RANK",
    "BUSBW_SIZE",
    "BUSBW_LOCAL_RANK",
    "BUSBW_LOCAL_SIZE",
    "BUSBW_NODE",
    "BUSBW_RENDEZVOUS",
    "BUSBW_TOKEN",
    "BUSBW_TOKEN_FILE",
)
"""The variables that give a process its place in a job; a launcher sets them, and none is inherited beside those."""


@dataclass(frozen=True)
class Job:
    """One run of one of the engine's programs, by one process or by many that become one job."""

    program: str | Path
    """A path, or a bare name that is looked up where the process starts."""
    arguments: tuple[str, ...]
    """The engine's flags; neither `--records` nor anything else that a launcher adds."""
    records: Path | None = None
    """A new file that the engine writes itself; None where they come on the stdout of process 0."""
    name: str = "busbw"
    """Unique among the jobs of its owner; lower-case letters, digits and dashes, at most 40, a letter first."""
    nodes: int = 1
    processes_per_node: int = 1
    """A launcher that is given hosts with counts goes by those and not by these two."""
    ranks_per_process: int = 1
    """Threads times GPUs per thread (-t, -g); the arguments say so too."""
    environment: tuple[tuple[str, str], ...] = ()
    """What every process gets besides what the launcher sets: tuning variables, the time limit of joining."""
    system: "MachineType | None" = None
    """The machine type of the nodes, where it was named: devices, memory, what schedulers want to hear. Its variables
    are in `environment` already."""
    token: str = field(default="", repr=False)
    """What the processes show each other. It travels by environment, private file, secret or stdin, and never on a
    command line, which everybody on a machine can read."""

    @property
    def processes(self) -> int:
        """How many processes the launcher starts."""
        return self.nodes * self.processes_per_node

    @property
    def command(self) -> tuple[str, ...]:
        """What each process runs."""
        return (str(self.program), *self.arguments, "--records", str(self.records or RECORDS_ON_STDOUT))

    def with_environment(self, variables: Mapping[str, str]) -> "Job":
        """The job whose program sees these variables, while nothing that starts it does.

        A library that is preloaded has no business in a shell or in the process that watches.
        """
        assignments = tuple(f"{name}={value}" for name, value in variables.items())
        return replace(
            self,
            program=Path(shutil.which("env") or "/usr/bin/env"),
            arguments=(*assignments, str(self.program), *self.arguments),
        )

    def shared_variables(self, *, store: str, processes: int | None = None) -> dict[str, str]:
        """The variables that are the same in every process of a job whose places we give out, and `environment`.

        The token is not among them: how it travels is the launcher's business.

        Args:
            store: `tcp://HOST:PORT` or `file:///FOLDER`.
            processes: Where they are not nodes times processes per node.
        """
        size = self.processes if processes is None else processes
        return {**dict(self.environment), "BUSBW_LAUNCHER": "busbw", "BUSBW_SIZE": str(size), "BUSBW_RENDEZVOUS": store}


def process_variables(
    process: int, *, node: int = 0, local: int | None = None, local_size: int | None = None
) -> dict[str, str]:
    """The variables in which processes of one job differ; what is not known is left out."""
    known = {"BUSBW_RANK": process, "BUSBW_LOCAL_RANK": local, "BUSBW_LOCAL_SIZE": local_size, "BUSBW_NODE": node}
    return {name: str(value) for name, value in known.items() if value is not None}


@dataclass(frozen=True)
class PrivateFile:
    """A file that is there before the commands run and goes after them; only its owner may read it."""

    path: Path
    text: str = field(repr=False)


@dataclass(frozen=True)
class Command:
    """One command to run."""

    words: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Variables that it gets besides ours."""
    unset: tuple[str, ...] = ()
    """Variables of ours that it does not get."""
    stdin: str | None = field(default=None, repr=False)
    """What it reads; its end stays open until the command has ended, so that it notices when we are gone."""
    process: int | str | None = None
    """The job's process that this command is, or the host whose processes it is: its stderr is labelled with it."""
    interrupt: str | int | None = None
    """What it gets when the job is interrupted, in place of that signal: text on stdin, or another signal."""

    def text(self) -> str:
        """The command as a shell would take it."""
        dropped = [f"env {' '.join(f'-u {name}' for name in self.unset)}"] if self.unset else []
        assignments = " ".join([*dropped, *(f"{name}={shlex.quote(value)}" for name, value in self.environment)])
        command = shlex.join(self.words)
        line = f"{assignments} \\\n  {command}" if assignments else command
        return line if self.stdin is None else f"{line} <<'end'\n{self.stdin.rstrip(chr(10))}\nend"


@dataclass(frozen=True)
class LaunchPlan:
    """What a launcher made of a job; rendering touched nothing.

    A launcher whose `submit` must know more makes a subclass of it.
    """

    commands: tuple[Command, ...]
    """In their order, or all at once: the launcher knows."""
    files: tuple[PrivateFile, ...] = ()
    cleanup: tuple[Command, ...] = ()
    """What is run at the end, or when the job is interrupted."""
    token: str = field(default="", repr=False)
    """Hidden by `text`."""
    remarks: tuple[str, ...] = ()
    """Sentences on what was chosen; comments in the dry run."""

    def text(self) -> str:
        """What would be written and run, as a shell would take it, with the token hidden."""
        parts = [f"# {remark}" for remark in self.remarks]
        for file in self.files:
            text = file.text.rstrip("\n")
            parts.append(f"install -m 600 /dev/stdin {shlex.quote(str(file.path))} <<'end'\n{text}\nend")
        parts += [command.text() for command in self.commands]
        if self.files or self.cleanup:
            parts.append("# at the end, or when it is interrupted:")
            parts += [command.text() for command in self.cleanup]
            parts += [f"rm -f {shlex.quote(str(file.path))}" for file in self.files]
        return redact_token("\n".join(parts), self.token)


def redact_token(text: str, token: str) -> str:
    """The text without the token."""
    return text.replace(token, TOKEN_SHOWN) if token else text


def as_pairs(variables: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Variables as `Command` and `Job` keep them."""
    return tuple(variables.items())


def _ignore(_text: str) -> None:
    pass


def _never() -> bool:
    return False


@dataclass(frozen=True)
class LaunchCallbacks:
    """What is called while a job runs; always from the thread that called `submit`."""

    on_line: Callable[[bytes], None]
    """With each line of process 0's stdout, newline included. Raises BrokenPipeError when nobody reads any more:
    the launcher then closes its end, or cancels a job whose output has no end to close."""
    on_wait: Callable[[], None]
    """At least once a second."""
    on_status: Callable[[str], None] = _ignore
    """With what is waited for, in the scheduler's own words: "waiting: 2 of 4 tasks pending (Resources)"; with an
    empty text when nothing is any more, which the first line of stdout says, too. The same text again is welcome."""
    on_error: Callable[[bytes, int | str | None], None] | None = None
    """With each line of stderr and the process or the host that said it, None where nobody knows. Without it, stderr
    is ours."""
    is_backlogged: Callable[[], bool] = _never
    """Whether the reader of what `on_line` got has paused: process 0 is kept waiting for it until an interrupt."""
