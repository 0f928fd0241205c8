"""Options that select the step of a trace to replay: `busbw replay`, and `ab` and `tune` with `replay TRACE`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from math import prod
from pathlib import Path
from typing import Any

import click

from busbw import engine
from busbw.cli.options.engine_flags import parse_collective, parse_count, used_flags
from busbw.cli.options.engine_words import REPLAY
from busbw.cli.options.trace_argument import find_trace
from busbw.errors import UsageError
from busbw.support.files import write_file
from busbw.traces.model import Trace
from busbw.traces.models import list_models
from busbw.traces.replay import ReplayProgram, make_program

PROGRAM_FILE = "program.json"
"""Name of the file of a replay program in a folder of records."""


@dataclass(frozen=True, kw_only=True)
class StepSelection:
    """Values of the options."""

    step: int | None = None
    """Number of the step, from 1. None: the step of median time."""
    whole: bool = False
    """True to replay all operations as one step."""
    ranks: int | None = None
    """Number of ranks to replay. None: all."""
    divisor: int = 1
    """Divisor of counts and gaps."""


def step_options(command: Callable[..., int]) -> Callable[..., int]:
    """Adds `--step`, `--all`, `--scale` and `--shrink` to a command, as `selection`."""

    @wraps(command)
    def with_selection(*, step: int | None, whole: bool, ranks: int | None, divisor: int, **others: Any) -> int:
        if step is not None and whole:
            raise UsageError("--step and --all exclude each other", remedy="give only one")
        selection = StepSelection(step=step, whole=whole, ranks=ranks, divisor=divisor)
        return command(selection=selection, **others)

    number = click.IntRange(min=1)
    for option in (
        click.option("--shrink", "divisor", type=number, default=1, metavar="N", help="Divide counts and gaps by N."),
        click.option("--scale", "ranks", type=number, metavar="RANKS", help="Replay the first RANKS ranks of the job."),
        click.option("--all", "whole", is_flag=True, help="Replay all recorded operations as one step."),
        click.option("--step", type=number, metavar="N", help="Step to replay, from 1.  [default: of median time]"),
    ):
        with_selection = option(with_selection)
    return with_selection


@dataclass(frozen=True, kw_only=True)
class Objective:
    """A collective or a step of a trace, which a command measures."""

    name: str
    """Name of the collective, or "replay"."""
    engine_program: Path
    flags: tuple[str, ...]
    """Engine flags of the user."""
    replay: ReplayProgram | None = None
    """The step. None for a collective."""
    trace: Trace | None = None
    """Trace of the step. None for a collective."""

    def prepare_arguments(
        self, program_file: Path, default_flags: Callable[[set[str]], tuple[str, ...]]
    ) -> tuple[str, ...]:
        """Writes the replay program, if there is one, and returns all arguments of the engine.

        Args:
            program_file: File for the replay program.
            default_flags: Returns flags of a collective for ranks and sizes, from the names of the user's flags.
        """
        flag_names = used_flags(self.flags)
        if self.replay is None:
            return (*default_flags(flag_names), *self.flags)
        write_file(program_file, self.replay.document())
        sets_ranks = bool(flag_names & {"-t", "-g", "--processes"})
        rank_flags = () if sets_ranks else ("-t", str(len(self.replay.operations)))
        return (REPLAY, str(program_file), *rank_flags, *self.flags)


def parse_objective(words: Sequence[str], selection: StepSelection) -> Objective:
    """Returns the objective of `COLLECTIVE [ENGINE OPTIONS]...` or `replay TRACE [ENGINE OPTIONS]...`.

    Raises:
        UsageError: There is no such collective or trace, or the step cannot be replayed.
    """
    is_replay = bool(words) and words[0] == REPLAY
    if not is_replay:
        collective = parse_collective(words)
        if selection != StepSelection():
            raise UsageError(
                "--step, --all, --scale and --shrink need a trace", remedy="type replay TRACE, or omit them"
            )
        return Objective(name=collective, engine_program=engine.program(f"{collective}_perf"), flags=tuple(words[1:]))
    trace = find_replay_trace(words[1:], selection)
    program = make_program(
        trace,
        step=selection.step,
        whole=selection.whole,
        ranks=None if trace.is_modelled else selection.ranks,  # a model was already computed for these ranks
        divisor=selection.divisor,
    )
    return Objective(
        name=REPLAY,
        engine_program=engine.program(engine.ENGINE),
        flags=tuple(words[2:]),
        replay=program,
        trace=trace,
    )


def find_replay_trace(words: Sequence[str], selection: StepSelection) -> Trace:
    """Returns the trace that the first word names.

    A shipped model is computed for the number of ranks of `--scale`, else of -t, -g and --processes, else of its own
    description.

    Raises:
        UsageError: The word is missing, or names no trace.
    """
    remedy = f"name a trace, or one of {', '.join(model.name for model in list_models())}"
    if not words or words[0].startswith("-"):
        raise UsageError("no trace is given", remedy=remedy)
    ranks = selection.ranks
    flag_ranks = prod(parse_count(flag, words[1:]) for flag in ("-t", "-g", "--processes"))
    if ranks is None and flag_ranks > 1:
        ranks = flag_ranks
    try:
        trace = find_trace(words[0], ranks)
    except UsageError as error:
        if Path(words[0]).exists():
            raise
        raise UsageError(f"{words[0]} is neither a file, nor a run, nor a model", remedy=remedy) from error
    if trace is None:
        kind = "directory without a trace" if Path(words[0]).is_dir() else "log, not a trace"
        raise UsageError(f"{words[0]} is a {kind}", remedy=remedy)
    return trace
