"""`busbw launch local`: options of the launcher `busbw.launchers.local`."""

import socket

import click

from busbw import engine
from busbw.cli.launch.execute import execute_plan
from busbw.cli.launch.options import COMMAND_SETTINGS, LaunchOptions, common_options
from busbw.cli.options.engine_words import EngineCommand
from busbw.launchers import local as launcher


@click.command(cls=EngineCommand, context_settings=COMMAND_SETTINGS)
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of processes, each with the engine's -t times -g ranks.  "
    "[default: one per GPU; without GPUs one per processor, at least 2 and at most 4]",
)
@common_options
def local(options: LaunchOptions, processes: int | None) -> int:
    """Starts COLLECTIVE as several processes on this machine, connected over the loopback interface."""
    program = options.local_program()
    process_count = processes or engine.default_ranks()
    job = options.job(program, processes_per_node=process_count, requested_gpus=options.known_gpus_per_node)
    target = launcher.LocalTarget(port=_free_port())
    return execute_plan(options, launcher.render(job, target), launcher.submit)


def _free_port() -> int:
    """Returns an unused port. Process 0 binds it later, and fails if another program was faster."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
