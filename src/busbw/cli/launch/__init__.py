"""`busbw launch`: one job on many machines, through the launcher that they have. One small file a kind."""

import click

from busbw.cli.lazy import LazyGroup

KINDS = {
    "local": "Several processes on this machine.",
    "ssh": "Processes on hosts that are reached by ssh.",
    "mpirun": "Processes started by Open MPI, MPICH or Intel MPI.",
    "slurm": "A batch job of Slurm, or srun; without MPI.",
    "kubernetes": "A pod on each node of a Kubernetes cluster, by kubectl.",
}
"""Every kind and its line in the help; `busbw.cli.launch.<name>` holds it."""

MORE = {
    "attach": "Comes back to a batch job of Slurm that was left.",
    "machine-types": "Lists the machine types for --machine-type; shows one.",
}
"""The same for what starts nothing."""


@click.group(
    cls=LazyGroup,
    package=__name__,
    sections={"Kinds": KINDS, "Besides": MORE},
    renamed={"systems": "machine-types"},
    subcommand_metavar="KIND [OPTIONS] -- COLLECTIVE [ENGINE OPTIONS]...",
    epilog="busbw launch KIND --help lists the options of a kind.",
)
def launch() -> None:
    """Starts COLLECTIVE as one job of many processes, shows its table as it grows, and keeps its record.

    Ctrl-C cancels the job and keeps what arrived. --dry-run prints what would be sent and run, and touches nothing.
    """
