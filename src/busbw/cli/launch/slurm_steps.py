"""Carries out the steps of a job in Slurm, one after the other: each is a run of its own in the store."""

from functools import partial

import click

from busbw.cli.launch.options import Asked
from busbw.cli.launch.execute import carry_out
from busbw.errors import BusbwError, Exit
from busbw.launchers import slurm as launcher
from busbw.launchers.slurm import SlurmRendered, commands

_GO_ON = {Exit.GOOD, Exit.WRONG_DATA, Exit.SLOWER_THAN_DEMANDED}
"""After these the next step may be as good as ever; the batch script thinks the same."""


def carry_out_steps(asked: Asked, rendered: SlurmRendered) -> int:
    """Returns the exit code of the first step that was not good, else 0.

    The files of a batch job go when all of them were taken over. They stay when the job goes on without us, and
    when there may be more in them than the folder has shown.
    """
    if asked.dry_run:
        return carry_out(asked, rendered, launcher.submit)
    first = int(Exit.GOOD)
    unread: list[int] = []
    try:
        for step in range(rendered.step, rendered.steps + 1):
            if rendered.steps > 1:
                click.echo(f"busbw: step {step} of {rendered.steps}", err=True)
            code = carry_out(asked, rendered.of_step(step), partial(launcher.submit, unread=unread))
            first = first or code
            if code == Exit.ENVIRONMENT and step < rendered.steps:
                launcher.cancel(rendered)  # the script may think that all is well, and go on to the next step
            if code not in _GO_ON:
                break
    except commands.NoAnswerError:
        raise  # the job may go on, and its files say how
    except KeyboardInterrupt:  # between two steps, while the job goes on
        if why_not := launcher.cancel(rendered):
            click.echo(f"busbw: the job may go on: {why_not}; once Slurm answers, cancel it with scancel", err=True)
        else:
            _tidy(rendered)
        raise
    except BusbwError:
        if not unread:
            _tidy(rendered)
        raise
    if first != launcher.LEFT and not unread:
        _tidy(rendered)
    return first


def _tidy(rendered: SlurmRendered) -> None:
    if rendered.folder is not None:
        launcher.tidy(rendered.folder)
