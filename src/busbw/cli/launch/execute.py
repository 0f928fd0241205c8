"""Executes a launch plan: prints it, or submits it and keeps the record.

`submit` returns the exit code of the job, also if a rank is lost. The received rows then stay in the record.
"""

import sys
from collections.abc import Callable
from typing import TypeVar

import click

from busbw.cli.interrupts import checked_interrupts
from busbw.cli.launch.error_lines import ErrorLineMerger
from busbw.cli.launch.options import LaunchOptions
from busbw.cli.launch.output_splitter import OutputSplitter, RecordFile
from busbw.cli.launch.plain_progress import PlainProgress
from busbw.cli.options.run_destination import open_destination, print_record_path
from busbw.cli.outcome.summary import finish_stdout, print_outcome, verified_exit_code
from busbw.errors import ExitCode
from busbw.launchers import LaunchCallbacks, LaunchPlan
from busbw.launchers.job.job import redact_token
from busbw.launchers.job.processes import ExitStatus, rank_lost_if_crashed
from busbw.terminal.progress import Progress

AnyPlan = TypeVar("AnyPlan", bound=LaunchPlan)


def execute_plan(options: LaunchOptions, plan: AnyPlan, submit: Callable[[AnyPlan, LaunchCallbacks], int]) -> int:
    """Runs the job to its end and returns the exit code of this command: the program's, or RANK_LOST after a crash.

    Record lines of process 0 go to the run's record file. All other lines go to stdout unchanged, byte for byte.
    The stderr of all processes goes to this process's stderr. A dry run prints the plan and starts nothing.
    """
    if options.dry_run:
        click.echo(plan.text().rstrip("\n"))
        return ExitCode.GOOD
    for remark in plan.remarks:
        click.echo(f"busbw: {remark}", err=True)
    # `check_interrupt` raises an interrupt if a signal has arrived. During `submit`, the launcher handles the signals.
    with (
        checked_interrupts() as check_interrupt,
        open_destination(options.records_path, options.store, options.run_name) as destination,
    ):
        with RecordFile(destination.path) as records, _make_progress(records) as progress:
            error_lines = ErrorLineMerger(lambda text: progress.print_message(redact_token(text, plan.token)))

            def on_wait() -> None:
                error_lines.flush(at_end=False)
                progress.refresh()

            def print_result(line: bytes) -> None:
                if options.handle_result(line):
                    progress.print_line(line)

            check_interrupt()
            splitter = OutputSplitter(records, progress.print_line, progress.print_message, print_result)
            try:
                callbacks = LaunchCallbacks(
                    on_line=splitter.add_line,
                    on_wait=on_wait,
                    on_status=progress.set_status,
                    on_error=error_lines.add_line,
                    is_backlogged=lambda: progress.stdout.has_pending,
                )
                program_code = submit(plan, callbacks)
            finally:
                error_lines.flush(at_end=True)
        check_interrupt()
        if options.has_table:
            program_code = verified_exit_code(program_code, splitter.kinds, options.flags, was_cut=splitter.was_cut)
        exit_code = rank_lost_if_crashed(ExitStatus(program_code))
        destination.on_exit(exit_code)
        finish_stdout(progress.stdout, program_code, check_interrupt=check_interrupt)
    if options.has_table:
        grade = print_outcome(program_code, destination.path, plot_when=options.plot_when)
        if grade == "SLOW":
            launcher = click.get_current_context().info_name
            click.echo(f"busbw doctor {launcher}, with the same nodes, looks for the cause on each node.", err=True)
    elif destination.path.exists():
        print_record_path(destination.path)
    return exit_code


def _make_progress(records: RecordFile) -> Progress | PlainProgress:
    """Returns the progress display on stderr, for a terminal or for a log."""
    if sys.stderr.isatty():
        return Progress(records.path)
    return PlainProgress(lambda text: click.echo(text, err=True))
