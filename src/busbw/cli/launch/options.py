"""What every kind of launch is asked: the options that all have in common, and the job that they make."""

import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from busbw import engine
from busbw.cli.options.deprecated import renamed_option
from busbw.cli.options.engine_flags import count_of, named_collective, sweep_flags, used_flags
from busbw.cli.options.param_types import Seconds
from busbw.cli.options.run_destination import destination_options
from busbw.cli.outcome import plot_option
from busbw.errors import BusbwError, UsageError
from busbw.launchers import Job
from busbw.launchers.job.job import PLACE

if TYPE_CHECKING:
    from busbw.launchers.machine_types.machine_type import MachineType

COMMAND_SETTINGS = {"allow_interspersed_args": False}
"""`context_settings` of every kind: from the collective on, everything is the engine's; `--` before it is allowed."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_MOST = 65536
"""Nodes, processes and ranks of one job."""


@dataclass(frozen=True)
class LaunchOptions:
    """The common part of a command line."""

    collective: str
    flags: tuple[str, ...]
    """The engine's, as they were typed."""
    environment: tuple[tuple[str, str], ...]
    system: "MachineType | None"
    program_path: str | None
    join_timeout_s: float | None
    dry_run: bool
    records_path: Path | None
    store: Path | None
    plot_when: str

    @property
    def ranks_per_process(self) -> int:
        """Threads times GPUs per thread."""
        return count_of("-t", self.flags) * count_of("-g", self.flags)

    def processes_per_node(self, given: int | None) -> int:
        """As they were given; else so many that every GPU of the named system has its rank; else one."""
        if given is not None:
            return given
        gpus = self.system.gpus_per_node if self.system else None
        return max(1, gpus.value // self.ranks_per_process) if gpus else 1

    @property
    def program_name(self) -> str:
        """The program of the collective, to be looked up where it starts."""
        return f"{self.collective}_perf"

    def local_program(self) -> str:
        """`--program-path`, or the program's path on this machine; in a dry run its bare name where it is not here.

        Raises:
            BusbwError: It is not here.
        """
        if self.program_path:
            return self.program_path
        try:
            return str(engine.program(self.program_name))
        except BusbwError:
            if self.dry_run:
                return self.program_name
            raise

    def remote_programs(self) -> tuple[str, ...]:
        """Where another machine may have the program: `--program-path`, else the path of the one here, and its PATH."""
        if self.program_path:
            return (self.program_path,)
        try:
            return (str(engine.program(self.program_name)), self.program_name)
        except BusbwError:
            return (self.program_name,)

    def job(self, program: str, *, nodes: int = 1, processes_per_node: int = 1) -> Job:
        """The job, with a name and a token of its own; what `--env` says goes before what the system wants.

        Raises:
            UsageError: It is larger than any job is.
        """
        require_possible(nodes * processes_per_node, self.ranks_per_process)
        variables = {**(self.system.variables if self.system else {}), **dict(self.environment)}
        if self.join_timeout_s is not None:
            variables["BUSBW_JOIN_TIMEOUT_S"] = f"{self.join_timeout_s:g}"
        return Job(
            program,
            (*sweep_flags(used_flags(self.flags)), *self.flags),
            name=f"busbw-{self.collective.replace('_', '-')}-{secrets.token_hex(3)}",
            nodes=nodes,
            processes_per_node=processes_per_node,
            ranks_per_process=self.ranks_per_process,
            environment=tuple(variables.items()),
            system=self.system,
            token=secrets.token_hex(32),
        )


_OPTIONS = (
    click.option("--dry-run", is_flag=True, help="Print what would be sent and run; touch nothing."),
    click.option(
        "--env",
        "assignments",
        multiple=True,
        metavar="NAME=VALUE",
        help="A variable for every process, such as NCCL_DEBUG=INFO; may be given again.",
    ),
    click.option(
        "--machine-type",
        "machine_type_name",
        metavar="NAME|FILE",
        help="The type of the nodes, which fills in what they need: `busbw launch machine-types` lists them.",
    ),
    renamed_option("--system", "--machine-type"),
    click.option(
        "--program-path",
        metavar="PATH",
        help="The program, or the folder that holds it, where the processes start.",
    ),
    click.option(
        "--join-timeout",
        "join_timeout_s",
        type=Seconds(),
        metavar="SECONDS",
        help="How long processes may take to arrive.  [default: 60; in Kubernetes, and in containers under Slurm, 600]",
    ),
    destination_options,
    plot_option,
    click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="COLLECTIVE [ENGINE OPTIONS]..."),
)


def common_options(command: Callable[..., int]) -> Callable[..., int]:
    """Gives a kind the options that all have; it gets them as `asked`."""

    @wraps(command)
    def with_asked(
        *,
        words: tuple[str, ...],
        assignments: tuple[str, ...],
        machine_type_name: str | None,
        program_path: str | None,
        join_timeout_s: float | None,
        dry_run: bool,
        records_path: Path | None,
        store: Path | None,
        plot_when: str,
        **own: object,
    ) -> int:
        _refuse_empty(click.get_current_context())
        collective = named_collective(words)
        asked = LaunchOptions(
            collective=collective,
            flags=_engine_flags(words[1:]),
            environment=tuple(map(_assignment, assignments)),
            system=_system(machine_type_name),
            program_path=_program_path(program_path, f"{collective}_perf"),
            join_timeout_s=join_timeout_s,
            dry_run=dry_run,
            records_path=records_path,
            store=store,
            plot_when=plot_when,
        )
        return command(asked=asked, **own)

    wrapped: Callable[..., int] = with_asked
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


def _refuse_empty(context: click.Context) -> None:
    """An empty word is what is left of a shell's variable that was not set; it would mean something else each time.

    Raises:
        UsageError: An option has one.
    """
    for parameter in context.command.params:
        if not isinstance(parameter, click.Option):
            continue  # the engine's own words
        name = parameter.name or ""
        is_given = context.get_parameter_source(name) is not ParameterSource.DEFAULT
        value = context.params.get(name)
        if is_given and (value == "" or (isinstance(value, tuple) and "" in value)):
            raise UsageError(f"{parameter.opts[-1]} is empty", remedy="say what it is, or leave it out")


def _engine_flags(words: tuple[str, ...]) -> tuple[str, ...]:
    """The words behind the collective, where options of ours would reach an engine that knows them otherwise or not.

    Raises:
        UsageError: There is one.
    """
    context = click.get_current_context()
    ours = {name for parameter in context.command.params for name in parameter.opts if name.startswith("--")}
    for word in words:
        if word.partition("=")[0] in ours | {"--processes"}:
            raise UsageError(
                f"{word} stands behind the collective, among the engine's options",
                remedy=f"write it before the collective: {context.command_path} OPTIONS -- COLLECTIVE",
            )
    return words


def require_possible(processes: int, ranks_per_process: int) -> None:
    """Refuses a number that nobody means before anything is made so often.

    Raises:
        UsageError: It is such a number.
    """
    for what, count in (("processes", processes), ("ranks", processes * ranks_per_process)):
        if count > _MOST:
            raise UsageError(f"{count} {what} are more than the {_MOST} that one job may have", remedy="ask for fewer")


def _system(name: str | None) -> "MachineType | None":
    if name is None:
        return None
    from busbw.launchers.machine_types import machine_type  # only who names one waits for all of them to be read

    return machine_type.load(name)


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not _VARIABLE.match(name):
        raise UsageError(f'--env "{text}" is no NAME=VALUE', remedy="write it as NCCL_DEBUG=INFO")
    if name in PLACE:
        raise UsageError(f"--env {name} is set by the launcher", remedy="leave it out")
    if "\n" in value or "\0" in value:
        raise UsageError(f"the value of --env {name} has more than one line", remedy="give it in one line")
    return name, value


def _program_path(text: str | None, name: str) -> str | None:
    """The program itself where its folder was named; nothing is looked up, as it lies where the processes start."""
    if text is None or Path(text).name == name:
        return text
    return str(Path(text) / name)
