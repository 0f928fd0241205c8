"""Options that all launchers share, and the job that they describe.

A command line is `busbw launch LAUNCHER [OPTIONS] -- COLLECTIVE [ENGINE FLAGS]`.
"""

import os
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from busbw import engine
from busbw.cli.options.completion import complete_names
from busbw.cli.options.deprecated import renamed_option
from busbw.cli.options.engine_flags import long_options, parse_collective, parse_count, sweep_flags, used_flags
from busbw.cli.options.engine_words import words_argument
from busbw.cli.options.param_types import SECONDS
from busbw.cli.options.run_destination import destination_options
from busbw.cli.outcome.summary import plot_option
from busbw.collectives import PROGRAMS
from busbw.engine import COMMAND_BY_TABLELESS_ARGUMENT, EACH_NODE, REQUESTED_GPUS_VARIABLE, WORLD_VARIABLES
from busbw.errors import BusbwError, UsageError
from busbw.launchers import Job
from busbw.launchers.slurm.allocation import allocated_gpus_per_node
from busbw.support.secret_variables import REDACTED, may_be_secret

if TYPE_CHECKING:
    from busbw.launchers.machine_types.machine_type import MachineType

COMMAND_SETTINGS = {"allow_interspersed_args": False}
"""`context_settings` of every launcher: the engine gets all words after the collective; `--` before it is allowed."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
"""Name of an environment variable."""
_MAX_COUNT = 65536
"""Limit on the processes and on the ranks of one job."""


def _is_nonempty(result: bytes) -> bool:
    """Default of `LaunchOptions.handle_result`: lets every result be printed that is not empty."""
    return bool(result)


@dataclass(frozen=True)
class LaunchOptions:
    """Values of the options that all launchers share."""

    first_word: str
    """First word of the engine's work: the collective, or `flows` or `each-node` (the first of `engine_words`)."""
    records_path: Path | None
    """Value of `--records`. None: a run in the store."""
    store: Path | None
    """Value of `--store`. None: the default store."""
    plot_when: str
    """Value of `--plot`: auto, always or never."""
    flags: tuple[str, ...] = ()
    """Flags for the engine, as typed."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables of `--env`."""
    machine_type: "MachineType | None" = None
    program_path: str | None = None
    """Path of the program on the nodes. None: search it there."""
    join_timeout_s: float | None = None
    """Time limit for all processes to join. None: the engine's default, or the launcher's."""
    dry_run: bool = False
    engine_words: tuple[str, ...] = ()
    """Words before `flags` on the engine's command line, set by `busbw find` and `busbw doctor`.

    Empty for a collective.
    """
    handle_result: Callable[[bytes], bool] = _is_nonempty
    """Called with the JSON result of `busbw find` or `busbw doctor`; may write files.

    Returns True if the result is to be printed on stdout.
    """

    @property
    def has_table(self) -> bool:
        """False for `busbw find` and `busbw doctor`."""
        return self.first_word not in COMMAND_BY_TABLELESS_ARGUMENT

    @property
    def measures(self) -> bool:
        """False for `busbw doctor`: its commands measure nothing, so the engine needs no GPU."""
        return self.first_word != EACH_NODE

    @property
    def run_name(self) -> str:
        """Name of the run in the store: the collective, or "find" for a search."""
        return COMMAND_BY_TABLELESS_ARGUMENT.get(self.first_word, self.first_word)

    @property
    def ranks_per_process(self) -> int:
        """Threads per process (-t) times GPUs per thread (-g)."""
        return parse_count("-t", self.flags) * parse_count("-g", self.flags)

    def processes_per_node(self, option_value: int | None) -> int:
        """Returns `--processes-per-node`, else enough processes for one rank per GPU of the machine type, else 1."""
        if option_value is not None:
            return option_value
        return max(1, (self.machine_type_gpus or 0) // self.ranks_per_process)

    @property
    def machine_type_gpus(self) -> int | None:
        """GPUs per node of `--machine-type`. None without a machine type, or if it does not state the number."""
        gpus = self.machine_type.gpus_per_node if self.machine_type else None
        return gpus.value if gpus else None

    @property
    def known_gpus_per_node(self) -> int | None:
        """GPUs per node of the machine type, else of Slurm's allocation. None without both."""
        if self.machine_type_gpus is not None:
            return self.machine_type_gpus
        return allocated_gpus_per_node(os.environ) or None  # 0: no GPU is allocated

    @property
    def program_name(self) -> str:
        """Name of the program, to be found on the PATH of the node."""
        return _program_name(self.first_word)

    def local_program(self) -> str:
        """Returns `--program-path`, or the program's path on this machine.

        A dry run returns the bare name if the program is not installed.

        Raises:
            BusbwError: The program is not installed.
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
        """Paths or names to try on another machine: `--program-path`, else the local path and the bare name."""
        if self.program_path:
            return (self.program_path,)
        try:
            return (str(engine.program(self.program_name)), self.program_name)
        except BusbwError:
            return (self.program_name,)

    def require_valid_size(self, processes: int) -> None:
        """Refuses a number of processes or ranks above the limit of a job.

        Raises:
            UsageError: The number is above the limit.
        """
        for unit, count in (("processes", processes), ("ranks", processes * self.ranks_per_process)):
            if count > _MAX_COUNT:
                raise UsageError(f"{count} {unit} exceed the limit of {_MAX_COUNT} for one job", remedy="use fewer")

    def job(self, program: str, *, nodes: int = 1, processes_per_node: int = 1, requested_gpus: int | None) -> Job:
        """Returns the job with a new name and token. `--env` overrides the machine type's variables.

        The job of a dry run has no secret values.

        Args:
            program: Path or name of the program.
            nodes: Number of nodes.
            processes_per_node: Number of processes on each.
            requested_gpus: GPUs that the user requests on each node; 0 for none. None if nothing states a number.

        Raises:
            UsageError: The job has more than 65,536 processes or ranks.
        """
        self.require_valid_size(nodes * processes_per_node)
        variables: dict[str, str] = {}
        if requested_gpus is not None:
            variables[REQUESTED_GPUS_VARIABLE] = str(requested_gpus)
        if self.machine_type:
            variables |= self.machine_type.variables
        variables |= dict(self.environment)
        if self.join_timeout_s is not None:
            variables["BUSBW_JOIN_TIMEOUT_S"] = f"{self.join_timeout_s:g}"
        default_sweep = sweep_flags(self.first_word, used_flags(self.flags))  # for the sizes that the user does not set
        first_arguments = self.engine_words or default_sweep
        job = Job(
            program,
            (*first_arguments, *self.flags),
            name=f"busbw-{self.run_name.replace('_', '-')}-{secrets.token_hex(3)}",
            nodes=nodes,
            processes_per_node=processes_per_node,
            ranks_per_process=self.ranks_per_process,
            environment=tuple(variables.items()),
            machine_type=self.machine_type,
            token=secrets.token_hex(32),
        )
        return job.without_secrets() if self.dry_run else job


def _machine_type_names() -> list[str]:
    from busbw.launchers.machine_types import machine_type  # slow: reads all machine types

    return list(machine_type.built_in_types())


_OPTIONS = (
    click.option("--dry-run", is_flag=True, help="Print the commands and files; start nothing."),
    click.option(
        "--env",
        "environment",
        multiple=True,
        metavar="NAME=VALUE",
        help="Variable for every process, such as NCCL_DEBUG=INFO; repeatable.",
    ),
    click.option(
        "--machine-type",
        metavar="NAME|FILE",
        shell_complete=complete_names(_machine_type_names, or_files=True),
        help="Set what nodes of this type need; see `busbw launch machine-types`.",
    ),
    renamed_option("--system", "--machine-type"),
    click.option(
        "--program-path",
        metavar="PATH",
        help="Program, or its folder, on the nodes.",
    ),
    click.option(
        "--join-timeout",
        "join_timeout_s",
        type=SECONDS,
        metavar="SECONDS",
        help="Limit for all processes to join.  [default: 60; in Kubernetes and in Slurm containers 600]",
    ),
    destination_options,
    plot_option,
    words_argument,
)


def common_options(command: Callable[..., int]) -> Callable[..., int]:
    """Adds the shared options to a launcher, which gets them as `options`."""

    @wraps(command)
    def with_options(
        *,
        words: tuple[str, ...],
        environment: tuple[str, ...],
        machine_type: str | None,
        program_path: str | None,
        engine_words: tuple[str, ...] = (),
        **values: Any,
    ) -> int:
        _refuse_empty_values(click.get_current_context())
        # `busbw find` and `busbw doctor` set `engine_words`. Then all words are flags, and none is a collective.
        first_word = engine_words[0] if engine_words else parse_collective(words, PROGRAMS)
        # The other options that all launchers share have the names of fields. The rest is for the launcher.
        shared_values = {field.name: values.pop(field.name) for field in fields(LaunchOptions) if field.name in values}
        options = LaunchOptions(
            first_word=first_word,
            flags=words if engine_words else _check_engine_flags(words[1:]),
            environment=tuple(map(_parse_assignment, environment)),
            machine_type=_load_machine_type(machine_type),
            program_path=_full_program_path(program_path, _program_name(first_word)),
            engine_words=engine_words,
            **shared_values,
        )
        return command(options=options, **values)

    wrapped: Callable[..., int] = with_options
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


def _program_name(first_word: str) -> str:
    return engine.ENGINE if first_word in COMMAND_BY_TABLELESS_ARGUMENT else f"{first_word}_perf"


def _refuse_empty_values(context: click.Context) -> None:
    """Refuses empty values of options, which come from unset shell variables.

    Otherwise each option would interpret an empty value differently.
    """
    for parameter in context.command.params:
        if not isinstance(parameter, click.Option):
            continue  # the engine checks its own words
        name = parameter.name or ""
        is_given = context.get_parameter_source(name) is not ParameterSource.DEFAULT
        value = context.params.get(name)
        is_empty = value == "" or (isinstance(value, tuple) and "" in value)
        if is_given and is_empty:
            raise UsageError(f"{parameter.opts[-1]} is empty", remedy="give a value, or remove the option")


def _check_engine_flags(words: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the words. Refuses options of the launcher, which the engine would refuse or interpret differently."""
    context = click.get_current_context()
    # --processes is a flag of the engine for jobs without a launcher.
    launcher_options = long_options(context.command) | {"--processes"}
    for word in words:
        if word.partition("=")[0] in launcher_options:
            raise UsageError(
                f"{word}: is after the collective, among the engine's flags",
                remedy=f"put it before the collective: {context.command_path} OPTIONS -- COLLECTIVE",
            )
    return words


def _load_machine_type(name: str | None) -> "MachineType | None":
    if name is None:
        return None
    from busbw.launchers.machine_types import machine_type  # slow: reads all machine types

    return machine_type.load(name)


def _parse_assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not _VARIABLE.match(name):
        shown = f"{name}={REDACTED}" if equals and may_be_secret(name, value) else text
        raise UsageError(f'--env "{shown}" is not NAME=VALUE', remedy="write it like NCCL_DEBUG=INFO")
    if name in WORLD_VARIABLES:
        raise UsageError(f"--env {name} is set by the launcher", remedy="remove it")
    if "\n" in value or "\0" in value:
        raise UsageError(f"--env {name}: the value has several lines", remedy="use one line")
    return name, value


def _full_program_path(path: str | None, name: str) -> str | None:
    """Returns the path of the program in a folder, or `path` if it ends with the program's name.

    Checks no file, because the path is on the nodes.
    """
    if path is None or Path(path).name == name:
        return path
    return str(Path(path) / name)
