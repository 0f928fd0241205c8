"""Carries out the steps of a job in Slurm, one after the other: each is a run of its own in the store."""

import os

import click

from busbw.cli.launch.asked import Asked
from busbw.cli.launch.carry_out import carry_out
from busbw.errors import BusbwError, Exit
from busbw.launchers import slurm as launcher
from busbw.launchers.slurm import SlurmRendered

_GO_ON = {Exit.GOOD, Exit.WRONG_DATA, Exit.SLOWER_THAN_DEMANDED}
"""After these the next step may be as good as ever; the batch script thinks the same."""


def carry_out_steps(asked: Asked, rendered: SlurmRendered) -> int:
    """Returns the exit code of the first step that was not good, else 0.

    The files of a batch job go when all of them were taken over. They stay when the job goes on without us.
    """
    if asked.dry_run:
        return carry_out(asked, rendered, launcher.submit)
    first = int(Exit.GOOD)
    try:
        for step in range(rendered.step, rendered.steps + 1):
            if rendered.steps > 1:
                click.echo(f"busbw: step {step} of {rendered.steps}", err=True)
            code = carry_out(asked, rendered.of_step(step), launcher.submit)
            first = first or code
            if code not in _GO_ON:
                break
    except BusbwError:
        _say_where(rendered)
        raise
    if rendered.folder is not None and first != launcher.LEFT:
        launcher.tidy(rendered.folder)
    return first


def _say_where(rendered: SlurmRendered) -> None:
    if rendered.folder is None or not rendered.folder.is_dir():
        return
    if not launcher.tidy(rendered.folder, only_if_silent=True):
        click.echo(f"busbw: the job's files are in {os.path.relpath(rendered.folder)}", err=True)
