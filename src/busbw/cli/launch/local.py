"""`busbw launch local`: several processes on this machine."""

import socket

import click

from busbw import engine
from busbw.cli.launch.execute import execute_plan
from busbw.cli.launch.options import COMMAND_SETTINGS, LaunchOptions, common_options
from busbw.launchers import local as launcher


@click.command(context_settings=COMMAND_SETTINGS)
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many; each has -t times -g ranks.  [default: every GPU here, or 4]",
)
@common_options
def local(asked: LaunchOptions, processes: int | None) -> int:
    """Starts COLLECTIVE as several processes on this machine, which find each other over the loopback interface."""
    program = asked.local_program()
    job = asked.job(program, processes_per_node=processes or engine.default_ranks())
    where = launcher.LocalTarget(port=_free_port())
    return execute_plan(asked, launcher.render(job, where), launcher.submit)


def _free_port() -> int:
    """A port that nobody listens on; process 0 takes it a moment later, and says so where somebody was faster."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
