"""`busbw launch`: one job on many machines, through the launcher that they have. One small file a kind."""

from importlib import import_module

import click

KINDS = {
    "local": "Several processes on this machine.",
    "ssh": "Processes on hosts that are reached by ssh.",
    "mpirun": "Processes started by Open MPI, MPICH or Intel MPI.",
    "slurm": "A batch job of Slurm, or srun; without MPI.",
    "kubernetes": "A pod on each node of a Kubernetes cluster, by kubectl.",
}
"""Every kind and its line in the help; `busbw.cli.launch.<name>` holds it under that name, imported when called."""

MORE = {
    "attach": "Comes back to a batch job of Slurm that was left.",
    "systems": "Lists the machine types for --system; shows one.",
}
"""The same for what starts nothing."""


class _Kinds(click.Group):
    """The commands of KINDS and MORE."""

    def list_commands(self, _context: click.Context) -> list[str]:
        return [*KINDS, *MORE]

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        if name not in KINDS and name not in MORE:
            return None
        command: click.Command = vars(import_module(f"busbw.cli.launch.{name}"))[name]
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Kinds"):
            formatter.write_dl(list(KINDS.items()))
        with formatter.section("Besides"):
            formatter.write_dl(list(MORE.items()))


@click.group(
    cls=_Kinds,
    subcommand_metavar="KIND [OPTIONS] -- COLLECTIVE [ENGINE OPTIONS]...",
    epilog="busbw launch KIND --help lists the options of a kind.",
)
def launch() -> None:
    """Starts COLLECTIVE as one job of many processes, shows its table as it grows, and keeps its record.

    Ctrl-C cancels the job and keeps what arrived. --dry-run prints what would be sent and run, and touches nothing.
    """
