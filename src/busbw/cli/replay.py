"""`busbw replay`: executes the collectives of a recorded step again, and compares the times with the recording.

The replay runs twice. The timed pass measures the step. The traced pass writes a trace for the times of the calls. It
is a pass of its own, because tracing takes time.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from busbw import engine
from busbw.cli.interrupts import checked_interrupts
from busbw.cli.launched_process import ONE_NODE_REMEDY, refuse_launched_process
from busbw.cli.options.completion import complete_names
from busbw.cli.options.engine_flags import used_flags
from busbw.cli.options.engine_words import REPLAY, ReplayCommand
from busbw.cli.options.json_option import json_option
from busbw.cli.options.param_types import NonEmptyPath
from busbw.cli.options.replay_options import (
    Objective,
    StepSelection,
    find_replay_trace,
    parse_objective,
    step_options,
)
from busbw.cli.options.run_destination import destination_options, open_destination, print_record_path
from busbw.cli.outcome.correctness import correctness_sentence
from busbw.cli.outcome.summary import print_crash, record_kinds, verified_exit_code
from busbw.cli.traces import CallComparison, ReplayComparison, print_replay
from busbw.errors import EXIT_CODES_TEXT, BusbwError, ExitCode, UsageError
from busbw.launchers import Job, LaunchCallbacks, local
from busbw.launchers.job.processes import ExitStatus, rank_lost_if_crashed
from busbw.records import RunRecords, read
from busbw.support.json_output import json_object
from busbw.traces.analysis import OperationRow, TraceAnalysis, analyze, prepare_trace
from busbw.traces.models import list_models
from busbw.traces.read import read_trace
from busbw.traces.redact import write_anonymous_trace
from busbw.units import count_text, size_text

_TRACED_PASS = ("-w", "2", "-N", "1", "-c", "0")
"""Flags of the traced pass: 2 warmup iterations, 1 cycle, no check."""
_MAX_ITERATIONS = 20
"""Iterations of a pass, as in other runs."""
_MIN_ITERATIONS = 5
"""Iterations of a pass with long steps."""
_PASS_S = 10.0
"""Intended time of a pass with long steps."""
_LONG_HOST_STEP_BYTES = 1 << 30
"""Bytes per rank beyond which a step takes minutes on the host backend, which copies at some GB/s."""
_SILENT = LaunchCallbacks(lambda _line: None, lambda: None)
"""Callbacks that drop the output of the engine."""


@click.command(
    cls=ReplayCommand,
    context_settings={"ignore_unknown_options": True},
    options_metavar="[OPTIONS]",
    epilog="TRACE is a recording of `busbw record` or another program, or a shipped model (--list). All other options "
    f"are engine flags; the default is one rank per rank of the job.\n\n{EXIT_CODES_TEXT}",
)
@step_options
@click.option("--list", "lists_models", is_flag=True, help="List the shipped models with their sources.")
@click.option(
    "--record",
    "trace_directory",
    type=NonEmptyPath(file_okay=False),
    metavar="DIRECTORY",
    help="Keep the trace of the replay in a new directory.",
)
@click.option(
    "--anonymize",
    "anonymous_directory",
    type=NonEmptyPath(file_okay=False),
    metavar="DIRECTORY",
    help="Write TRACE without names to a new directory, and replay nothing.",
)
@destination_options
@json_option
@click.argument(
    "words",
    nargs=-1,
    type=click.UNPROCESSED,
    metavar="TRACE [ENGINE OPTIONS]...",
    shell_complete=complete_names(lambda: [model.name for model in list_models()], or_files=True),
)
def replay(
    selection: StepSelection,
    lists_models: bool,
    trace_directory: Path | None,
    anonymous_directory: Path | None,
    records_path: Path | None,
    store: Path | None,
    as_json: bool,
    words: tuple[str, ...],
) -> int:
    """Executes the collectives of one step of TRACE, and compares their times with the recorded ones."""
    if lists_models:
        return _print_models(as_json=as_json)
    if anonymous_directory:
        write_anonymous_trace(find_replay_trace(words, selection), anonymous_directory)
        return ExitCode.GOOD
    objective = parse_objective((REPLAY, *words), selection)
    _warn_of_long_replay(objective)
    refuse_launched_process(REPLAY, ONE_NODE_REMEDY)
    if trace_directory and trace_directory.exists():
        raise UsageError(f"--record {trace_directory} exists already", remedy="name a new directory")
    with checked_interrupts() as check_interrupt, open_destination(records_path, store, REPLAY) as destination:
        check_interrupt()
        program_file = destination.path.with_name(f"{destination.path.stem}-program.json")
        arguments = (*objective.prepare_arguments(program_file, _no_default_flags), *_iteration_flags(objective))
        job = Job(objective.engine_program, arguments, records=destination.path)
        launcher_code = local.submit(local.render(job), _SILENT) if as_json else local.submit(local.render(job))
        check_interrupt()
        engine_code = verified_exit_code(launcher_code, record_kinds(destination.path), words)
        exit_code = rank_lost_if_crashed(ExitStatus(engine_code))  # of this command: RANK_LOST for a crash
        destination.on_exit(exit_code)
        if engine_code not in (ExitCode.GOOD, ExitCode.WRONG_DATA):
            print_crash(engine_code)
            return exit_code
        run = read(destination.path)
        replayed, problem = _trace_calls(objective, (*arguments, *_traced_pass_flags(run)), trace_directory)
        check_interrupt()
    result = _result(objective, run, replayed, problem)
    if as_json:
        click.echo(json_object(result))
    else:
        print_replay(result)
        click.echo(correctness_sentence(run, exit_code=engine_code), err=True)
    print_record_path(destination.path)
    return exit_code


def _warn_of_long_replay(objective: Objective) -> None:
    """Warns if the flags select the host backend and a step would take minutes there."""
    assert objective.replay is not None
    step_bytes = objective.replay.argument_bytes()
    uses_host = "host" in objective.flags or "--backend=host" in objective.flags
    if uses_host and step_bytes > _LONG_HOST_STEP_BYTES:
        size = size_text(step_bytes)
        click.echo(f"A step has {size} per rank, which takes minutes on the host; --shrink N divides it.", err=True)


def _iteration_count(step_s: float) -> int:
    """Returns the number of iterations of a pass with steps of this time."""
    if step_s * _MAX_ITERATIONS <= _PASS_S:
        return _MAX_ITERATIONS
    return max(_MIN_ITERATIONS, int(_PASS_S / step_s))


def _iteration_flags(objective: Objective) -> tuple[str, ...]:
    """Returns flags for fewer iterations, and says so, if steps are long and the user sets no number."""
    assert objective.replay is not None
    step_s = objective.replay.estimated_ns / 1e9
    iterations = _iteration_count(step_s)
    if iterations == _MAX_ITERATIONS or "-n" in used_flags(objective.flags):
        return ()
    click.echo(f"A step takes about {step_s:.2g} s, so only {iterations} steps are timed (-n).", err=True)
    return ("-n", str(iterations))


def _traced_pass_flags(run: RunRecords) -> tuple[str, ...]:
    """Returns the additional flags of the traced pass. `run` is the timed pass."""
    return ("-n", str(_iteration_count((_step_us(run) or 0) / 1e6)), *_TRACED_PASS)


def _step_us(run: RunRecords) -> float | None:
    """Returns the replayed time of a step. None without a valid time."""
    row = run.rows[-1]
    return row.stats.median_us if row.stats else row.time_us


def _no_default_flags(_user_flags: set[str]) -> tuple[str, ...]:
    """Returns no flags: the trace states ranks and sizes."""
    return ()


def _print_models(*, as_json: bool) -> int:
    models = list_models()
    if as_json:
        fields = [
            {"name": model.name, "title": model.title, "ranks": model.ranks, "sources": model.sources}
            for model in models
        ]
        click.echo(json_object({"models": fields}))
        return ExitCode.GOOD
    for model in models:
        click.echo(f"{model.name}: {model.title}, {count_text(model.ranks, 'rank')}")
        click.echo("".join(f"  {source}\n" for source in model.sources), nl=False)
    return ExitCode.GOOD


def _trace_calls(
    objective: Objective, arguments: Sequence[str], kept_directory: Path | None
) -> tuple[TraceAnalysis | None, str]:
    """Runs the traced pass. Returns the analysis of its trace, or None and the problem."""
    with TemporaryDirectory() as temporary:
        directory = kept_directory or Path(temporary)
        if kept_directory:
            kept_directory.mkdir(parents=True)
        library = engine.library(engine.PROFILER_LIBRARY)
        environment = {"BUSBW_TRACE_DIRECTORY": str(directory.absolute())}
        if library:
            environment["NCCL_PROFILER_PLUGIN"] = str(library)
        job = Job(
            objective.engine_program,
            tuple(arguments),
            records=Path(temporary) / "records.jsonl",
            environment=tuple(environment.items()),
        )
        if code := local.submit(local.render(job), _SILENT):
            return None, f"the traced pass ended with exit code {code}"
        try:
            return analyze(prepare_trace(read_trace(directory))), ""
        except BusbwError as error:
            return None, error.problem


def _result(objective: Objective, run: RunRecords, replayed: TraceAnalysis | None, problem: str) -> ReplayComparison:
    """Compares the replay with the recording."""
    program, trace = objective.replay, objective.trace
    assert program is not None
    assert trace is not None
    row = run.rows[-1]
    recorded = analyze(prepare_trace(trace)) if program.has_comparable_calls else None
    notes = [*trace.problems, *program.notes]
    if problem:
        notes.append(f"No times of calls: {problem}.")
    return ReplayComparison(
        trace=program.name,
        step=program.step,
        ranks=len(program.operations),
        recorded_us=None if program.recorded_ns is None else program.recorded_ns / 1e3,
        replayed_us=_step_us(run),
        interval_us=row.stats.median_ci95_us if row.stats else None,
        wrong_elements=row.check.wrong_elements,
        calls=tuple(_call_rows(recorded, replayed)),
        notes=tuple(dict.fromkeys(notes)),
    )


def _call_rows(recorded: TraceAnalysis | None, replayed: TraceAnalysis | None) -> Iterator[CallComparison]:
    """Yields the calls of the replay, with the times of the recording if they are comparable."""
    recorded_us = {_call_key(recorded, row): row.time_us for row in recorded.rows} if recorded else {}
    if replayed is None:
        return
    for row in replayed.rows:
        yield CallComparison(
            ranks=tuple(sorted(replayed.groups[row.group].members)),
            function=row.function,
            min_size_bytes=row.min_size_bytes,
            max_size_bytes=row.max_size_bytes,
            calls_per_step=row.calls_per_step,
            recorded_us=recorded_us.get(_call_key(replayed, row)),
            replayed_us=row.time_us,
        )


def _call_key(analysis: TraceAnalysis, row: OperationRow) -> tuple[object, ...]:
    """Returns a key that is equal for the same calls in a recording and its replay. It identifies groups by ranks."""
    return frozenset(analysis.groups[row.group].members), row.function, row.min_size_bytes, row.max_size_bytes
