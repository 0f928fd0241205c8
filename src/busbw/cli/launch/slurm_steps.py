"""Carries out the steps of a job in Slurm, one after the other: each is a run of its own in the store."""

from functools import partial

import click

from busbw.cli.launch.execute import execute_plan
from busbw.cli.launch.options import LaunchOptions
from busbw.errors import BusbwError, ExitCode
from busbw.launchers import slurm as launcher
from busbw.launchers.slurm import SlurmPlan, commands

_CONTINUE_CODES = {ExitCode.GOOD, ExitCode.WRONG_DATA, ExitCode.SLOWER_THAN_DEMANDED}
"""After these the next step may be as good as ever; the batch script thinks the same."""


def execute_steps(asked: LaunchOptions, rendered: SlurmPlan) -> int:
    """Returns the exit code of the first step that was not good, else 0.

    The files of a batch job go when all of them were taken over. They stay when the job goes on without us, and
    when there may be more in them than the folder has shown.
    """
    if asked.dry_run:
        return execute_plan(asked, rendered, launcher.submit)
    first = int(ExitCode.GOOD)
    unread: list[int] = []
    try:
        for step in range(rendered.step, rendered.steps + 1):
            if rendered.steps > 1:
                click.echo(f"busbw: step {step} of {rendered.steps}", err=True)
            code = execute_plan(asked, rendered.of_step(step), partial(launcher.submit, unread=unread))
            first = first or code
            if code == ExitCode.ENVIRONMENT and step < rendered.steps:
                launcher.cancel(rendered)  # the script may think that all is well, and go on to the next step
            if code not in _CONTINUE_CODES:
                break
    except commands.SlurmUnreachableError:
        raise  # the job may go on, and its files say how
    except KeyboardInterrupt:  # between two steps, while the job goes on
        if why_not := launcher.cancel(rendered):
            click.echo(f"busbw: the job may go on: {why_not}; once Slurm answers, cancel it with scancel", err=True)
        else:
            _remove_folder(rendered)
        raise
    except BusbwError:
        if not unread:
            _remove_folder(rendered)
        raise
    if first != launcher.DETACHED and not unread:
        _remove_folder(rendered)
    return first


def _remove_folder(rendered: SlurmPlan) -> None:
    if rendered.folder is not None:
        launcher.remove_folder(rendered.folder)
