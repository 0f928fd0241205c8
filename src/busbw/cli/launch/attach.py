"""`busbw launch attach`: comes back to a batch job of Slurm that was left."""

from pathlib import Path

import click

from busbw.cli.options.run_destination import keeping_options
from busbw.cli.launch.options import Asked
from busbw.cli.launch.slurm_steps import carry_out_steps
from busbw.cli.outcome import plot_option
from busbw.cli.options.param_types import NamedPath
from busbw.errors import UsageError
from busbw.launchers import slurm as launcher


@click.command()
@click.argument("folder", type=NamedPath())
@keeping_options
@plot_option
def attach(folder: Path, records_path: Path | None, store: Path | None, plot_when: str) -> int:
    """Shows the job whose files lie in FOLDER from its first line on, waits for its end, and keeps its record."""
    rendered = launcher.submitted(folder)
    if records_path is not None and rendered.steps > 1:
        raise UsageError(
            f"--records names one file, and job {rendered.job} has {rendered.steps} steps", remedy="use --store"
        )
    asked = Asked(
        collective=rendered.collective,
        flags=(),
        environment=(),
        system=None,
        program_path=None,
        join_timeout_s=None,
        dry_run=False,
        records_path=records_path,
        store=store,
        plot_when=plot_when,
    )
    return carry_out_steps(asked, rendered)
