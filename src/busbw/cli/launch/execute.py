"""Carries out what a launcher rendered: shows it, or runs it and keeps what comes."""

import sys
from collections.abc import Callable
from typing import TypeVar

import click

from busbw.cli.options.run_destination import kept
from busbw.cli.launch.options import Asked
from busbw.cli.launch.error_lines import ErrorLines
from busbw.cli.launch.output_splitter import FirstProcess, RecordFile
from busbw.cli.launch.plain_progress import PlainProgress
from busbw.cli.outcome import checked, finish_stdout, say_outcome
from busbw.errors import Exit
from busbw.launchers import Rendered, Watch
from busbw.launchers.job.job import hide
from busbw.terminal.progress import Progress

AnyRendered = TypeVar("AnyRendered", bound=Rendered)


def carry_out(asked: Asked, rendered: AnyRendered, submit: Callable[[AnyRendered, Watch], int]) -> int:
    """Runs the job to its end, with its table on stdout byte for byte, and returns the program's exit code.

    What process 0 says is taken apart: lines of records go to the run's file, everything else to stdout. What the
    processes say on stderr goes to ours. In a dry run it prints what was rendered and touches nothing.
    """
    if asked.dry_run:
        click.echo(rendered.text().rstrip("\n"))
        return Exit.GOOD
    for remark in rendered.remarks:
        click.echo(f"busbw: {remark}", err=True)
    with kept(asked.records_path, asked.store, asked.collective) as run:
        with RecordFile(run.path) as records, _progress(records) as progress:
            errors = ErrorLines(lambda text: progress.say(hide(text, rendered.token)))

            def wait() -> None:
                errors.flush(at_end=False)
                progress.refresh()

            first = FirstProcess(records, progress.line, progress.say)
            try:
                watch = Watch(first.take, wait, progress.status, errors.take, lambda: progress.stdout.is_behind)
                code = submit(rendered, watch)
            finally:
                errors.flush(at_end=True)
        code = checked(code, first.kinds, asked.flags, was_cut=first.was_cut)
        run.ended(code)
        finish_stdout(progress.stdout, code)
    say_outcome(code, run.path, plot_when=asked.plot_when)
    return code


def _progress(records: RecordFile) -> Progress | PlainProgress:
    if sys.stderr.isatty():
        return Progress(records.path)
    return PlainProgress(lambda text: click.echo(text, err=True))
