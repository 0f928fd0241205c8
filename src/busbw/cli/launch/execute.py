"""Carries out what a launcher rendered: shows it, or runs it and keeps what comes."""

import sys
from collections.abc import Callable
from typing import TypeVar

import click

from busbw.cli.launch.error_lines import ErrorLineMerger
from busbw.cli.launch.options import LaunchOptions
from busbw.cli.launch.output_splitter import OutputSplitter, RecordFile
from busbw.cli.launch.plain_progress import PlainProgress
from busbw.cli.options.run_destination import open_destination
from busbw.cli.outcome import finish_stdout, print_outcome, verified_exit_code
from busbw.errors import ExitCode
from busbw.launchers import LaunchCallbacks, LaunchPlan
from busbw.launchers.job.job import redact_token
from busbw.terminal.progress import Progress

AnyRendered = TypeVar("AnyRendered", bound=LaunchPlan)


def execute_plan(
    asked: LaunchOptions, rendered: AnyRendered, submit: Callable[[AnyRendered, LaunchCallbacks], int]
) -> int:
    """Runs the job to its end, with its table on stdout byte for byte, and returns the program's exit code.

    What process 0 says is taken apart: lines of records go to the run's file, everything else to stdout. What the
    processes say on stderr goes to ours. In a dry run it prints what was rendered and touches nothing.
    """
    if asked.dry_run:
        click.echo(rendered.text().rstrip("\n"))
        return ExitCode.GOOD
    for remark in rendered.remarks:
        click.echo(f"busbw: {remark}", err=True)
    with open_destination(asked.records_path, asked.store, asked.collective) as run:
        with RecordFile(run.path) as records, _progress(records) as progress:
            errors = ErrorLineMerger(lambda text: progress.say(redact_token(text, rendered.token)))

            def wait() -> None:
                errors.flush(at_end=False)
                progress.refresh()

            first = OutputSplitter(records, progress.line, progress.say)
            try:
                watch = LaunchCallbacks(
                    first.take, wait, progress.status, errors.take, lambda: progress.stdout.has_pending
                )
                code = submit(rendered, watch)
            finally:
                errors.flush(at_end=True)
        code = verified_exit_code(code, first.kinds, asked.flags, was_cut=first.was_cut)
        run.ended(code)
        finish_stdout(progress.stdout, code)
    print_outcome(code, run.path, plot_when=asked.plot_when)
    return code


def _progress(records: RecordFile) -> Progress | PlainProgress:
    if sys.stderr.isatty():
        return Progress(records.path)
    return PlainProgress(lambda text: click.echo(text, err=True))
