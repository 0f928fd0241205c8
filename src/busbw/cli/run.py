"""`busbw run`: measures one collective on this machine and shows curve and verdict.

The engine's output goes to stdout unchanged. All output of this command goes to stderr.
"""

import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import click

from busbw import engine
from busbw.cli.interrupts import checked_interrupts
from busbw.cli.launched_process import refuse_launched_process
from busbw.cli.options.engine_flags import (
    parse_collective,
    rank_flags,
    reject_near_miss_options,
    sweep_flags,
    used_flags,
)
from busbw.cli.options.engine_words import EngineCommand, words_argument
from busbw.cli.options.run_destination import destination_options, is_empty_record, open_destination
from busbw.cli.outcome.summary import finish_stdout, plot_option, print_outcome, record_kinds, verified_exit_code
from busbw.collectives import PROGRAMS
from busbw.errors import EXIT_CODES_TEXT, ExitCode, UsageError
from busbw.launchers import Job, LaunchCallbacks, local
from busbw.launchers.job.job import LaunchPlan
from busbw.launchers.job.processes import ExitStatus, rank_lost_if_crashed
from busbw.terminal.progress import Progress
from busbw.units import plain


@click.command(
    cls=EngineCommand,
    context_settings={"ignore_unknown_options": True},
    options_metavar="[OPTIONS]",
    epilog="All other options are engine flags; `all_reduce_perf --help` lists them. Default: one rank per GPU, or 2 "
    "to 4 ranks on the host (one per processor), and 8 B to 64 MiB by a factor of 2 (-b 8 -e 64M -f 2), checked.\n\n"
    f"{EXIT_CODES_TEXT}",
)
@click.option("--ranks", type=click.IntRange(min=1), metavar="N", help="Ranks on this machine (the engine's -t).")
@click.option("--preload", metavar="LIBRARY", help="Load a library before all others, only into the engine.")
@destination_options
@plot_option
@words_argument
def run(
    ranks: int | None,
    preload: str | None,
    records_path: Path | None,
    store: Path | None,
    plot_when: str,
    words: tuple[str, ...],
) -> int:
    """Measures and checks COLLECTIVE over a sweep of sizes, and keeps a record.

    `busbw run comm_ops TESTS` measures the life of communicators; `comm_ops_perf --help` lists its flags.
    """
    reject_near_miss_options(words, click.get_current_context().command)
    collective = parse_collective(words, PROGRAMS)
    flags = used_flags(words[1:])
    if ranks is not None and "-t" in flags:
        raise UsageError(f"--ranks {ranks} and -t exclude each other", remedy="give only one")
    program = engine.program(f"{collective}_perf")
    refuse_launched_process("run", f"use busbw launch, or start {program.name} instead")
    variables = engine.preload_variables("--preload", [preload]) if preload else {}
    ranks_words = rank_flags(flags) if ranks is None else ("-t", str(ranks))
    added_flags = [*ranks_words, *sweep_flags(collective, flags)]

    with checked_interrupts() as check_interrupt, open_destination(records_path, store, collective) as destination:
        check_interrupt()
        # If the file has the record of another run, the engine refuses the file. Do not read that record as this run's.
        is_path_free = not destination.path.exists() or is_empty_record(destination.path)
        arguments = (*added_flags, *words[1:])
        plan = local.render(Job(program, arguments, records=destination.path, environment=tuple(variables.items())))
        command_text = shlex.join([program.name, *added_flags, *words[1:]])
        is_on_terminal = sys.stderr.isatty()
        if is_on_terminal:
            click.echo(f"{command_text} --records {shlex.quote(str(destination.path))}", err=True)
            engine_code = _submit_with_progress(plan, destination.path, check_interrupt)
        else:
            engine_code = local.submit(plan)
        check_interrupt()
        if is_path_free:
            engine_code = verified_exit_code(engine_code, record_kinds(destination.path), words)
        # For a crash, this command ends with RANK_LOST, but `print_outcome` explains the signal in the engine's code.
        exit_code = rank_lost_if_crashed(ExitStatus(engine_code))
        destination.on_exit(exit_code)
        if engine_code == ExitCode.USAGE and added_flags and not is_on_terminal:
            click.echo(f"busbw: the command line was: {command_text}", err=True)
    grade = print_outcome(engine_code, destination.path if is_path_free else None, plot_when=plot_when)
    if grade == "SLOW":
        _print_causes()
    return exit_code


def _submit_with_progress(plan: LaunchPlan, record: Path, check_interrupt: Callable[[], None]) -> int:
    """Runs the job with its progress on the terminal, and returns the engine's exit code."""
    with Progress(record) as progress:
        callbacks = LaunchCallbacks(
            on_line=progress.print_line,
            on_wait=progress.refresh,
            is_backlogged=lambda: progress.stdout.has_pending,
        )
        code = local.submit(plan, callbacks)
    finish_stdout(progress.stdout, code, check_interrupt=check_interrupt)
    return code


def _print_causes() -> None:
    """Prints the causes of a slow run on this machine."""
    from busbw.cli.outcome.possible_causes import cause_sentences, causes_on_this_machine  # loads slowly

    causes = causes_on_this_machine()
    for sentence in cause_sentences(causes, "busbw doctor"):
        click.echo(f"Cause?  {plain(sentence)}", err=True)
    if not causes:
        click.echo("busbw doctor finds no cause on this machine.", err=True)
