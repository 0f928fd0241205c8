"""`busbw launch`: one job on many machines through their launcher.

Each launcher has one module with its options. The module renders a launch plan by `busbw.launchers.<name>` and passes
it to `execute.execute_plan`, which prints or submits it and handles output, record and exit code.
"""

import click

from busbw.cli.lazy import LazyGroup

LAUNCHER_COMMANDS = {
    "local": "Several processes on this machine.",
    "ssh": "Processes on hosts reached by ssh.",
    "mpirun": "Processes started by Open MPI, MPICH or Intel MPI.",
    "slurm": "A Slurm batch job, or srun; needs no MPI.",
    "kubernetes": "A pod on each node of a Kubernetes cluster, through kubectl.",
}
"""Every launcher and its line in the help; `busbw.cli.launch.<name>` implements it."""

OTHER_COMMANDS = {
    "attach": "Follows a submitted Slurm batch job again.",
    "machine-types": "Lists the machine types for --machine-type; shows one.",
}
"""Commands that start no job, and their lines in the help."""


@click.group(
    cls=LazyGroup,
    package=__name__,
    sections={"Launchers": LAUNCHER_COMMANDS, "Other commands": OTHER_COMMANDS},
    renamed={"systems": "machine-types"},
    subcommand_metavar="LAUNCHER [OPTIONS] -- COLLECTIVE [ENGINE OPTIONS]...",
    epilog="busbw launch LAUNCHER --help lists the options of a launcher.",
)
def launch() -> None:
    """Starts COLLECTIVE as one job of many processes, shows its table as it grows, and keeps its record.

    Ctrl-C cancels the job and keeps the records received so far. --dry-run prints the commands and starts nothing.
    """
