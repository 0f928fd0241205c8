"""`busbw launch attach`: follows a submitted Slurm batch job again, by the files in its folder."""

from pathlib import Path

import click

from busbw.cli.launch.options import LaunchOptions
from busbw.cli.launch.slurm_steps import execute_steps
from busbw.cli.options.param_types import NonEmptyPath
from busbw.cli.options.run_destination import destination_options
from busbw.cli.outcome.summary import plot_option
from busbw.errors import UsageError
from busbw.launchers import slurm as launcher


@click.command()
@click.argument("folder", type=NonEmptyPath())
@destination_options
@plot_option
def attach(folder: Path, records_path: Path | None, store: Path | None, plot_when: str) -> int:
    """Shows all output of the job with its files in FOLDER, waits for its end, and keeps its record."""
    plan = launcher.load_submitted(folder)
    if records_path is not None and plan.steps > 1:
        raise UsageError(f"--records: takes one run, job {plan.job} has {plan.steps}", remedy="use --store")
    options = LaunchOptions(plan.collective, records_path=records_path, store=store, plot_when=plot_when)
    return execute_steps(options, plan)
