"""Executes the steps of a Slurm job one after another; each step is a separate run in the store."""

from collections.abc import Callable
from functools import partial

import click

from busbw.cli.interrupts import checked_interrupts
from busbw.cli.launch.execute import execute_plan
from busbw.cli.launch.options import LaunchOptions
from busbw.errors import BusbwError, ExitCode
from busbw.launchers import slurm as launcher
from busbw.launchers.slurm import SlurmPlan, commands

_CONTINUE_CODES = {ExitCode.GOOD, ExitCode.WRONG_DATA, ExitCode.SLOWER_THAN_DEMANDED}
"""Exit codes after which the next step still runs. The batch script uses the same codes."""


def execute_steps(options: LaunchOptions, plan: SlurmPlan) -> int:
    """Executes all steps, and returns the exit code of the first one that failed, else 0.

    The folder of a batch job holds its output. It is removed at the end, unless the job may continue or some output may
    be unread.

    Raises:
        BusbwError: The folder of a new job exists already. Its files are kept.
    """
    if options.dry_run:
        return execute_plan(options, plan, launcher.submit)
    is_submitted = bool(plan.job)
    if plan.folder is not None and plan.folder.exists() and not is_submitted:
        raise BusbwError(f"the folder {plan.folder} exists already", remedy="set another --output-folder")
    unread_steps: list[int] = []
    try:
        with checked_interrupts() as check_interrupt:
            first_failure = _execute_in_order(options, plan, unread_steps, check_interrupt)
    except commands.SlurmUnreachableError:
        raise  # the job may continue; its files are needed
    except KeyboardInterrupt:  # `submit` was not running, so it has not canceled the job
        if reason := launcher.cancel(plan):
            click.echo(f"busbw: cannot cancel the job: {reason}; run scancel when Slurm answers", err=True)
        else:
            _remove_folder(plan)
        raise
    except BusbwError:
        if not unread_steps:
            _remove_folder(plan)
        raise
    if first_failure != launcher.DETACHED and not unread_steps:
        _remove_folder(plan)
    return first_failure


def _execute_in_order(
    options: LaunchOptions, plan: SlurmPlan, unread_steps: list[int], check_interrupt: Callable[[], None]
) -> int:
    """Executes the steps up to the first one that prevents the next. Returns the first exit code that is not 0, else 0.

    Appends each step that may have unread output to `unread_steps`.
    """
    first_failure = int(ExitCode.GOOD)
    for step in range(plan.step, plan.steps + 1):
        if plan.steps > 1:
            click.echo(f"busbw: step {step} of {plan.steps}", err=True)
        code = execute_plan(options, plan.with_step(step), partial(launcher.submit, unread=unread_steps))
        first_failure = first_failure or code
        if code == ExitCode.ENVIRONMENT and step < plan.steps:
            # This code may mean that the program succeeded, but its record is incomplete. The batch script knows only
            # the program's success, and would start the next step.
            launcher.cancel(plan)
        if code not in _CONTINUE_CODES:
            break
        check_interrupt()
    return first_failure


def _remove_folder(plan: SlurmPlan) -> None:
    if plan.folder is not None:
        launcher.remove_folder(plan.folder)
