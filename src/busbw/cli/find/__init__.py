"""`busbw find`: locates the slow GPU, NVLink, NIC, node, pair, rail, leaf switch or uplink of a cluster."""

from typing import Any

import click

from busbw.cli.find.exports import EXPORTS
from busbw.cli.find.find_options import FindOptions
from busbw.cli.find.flow_search import search_flows
from busbw.cli.find.launched import SearchGroup
from busbw.cli.find.log_summary import search_logs
from busbw.cli.options.completion import complete_log
from busbw.cli.options.export_options import export_options
from busbw.cli.options.json_option import json_option
from busbw.cli.options.launcher_options import refuse_options_before
from busbw.cli.options.param_types import SECONDS, SIZE, FloatRange, NonEmptyPath
from busbw.cli.options.run_destination import destination_options
from busbw.errors import ExitCode
from busbw.launchers import LAUNCHERS
from busbw.simulator.faults import FORMS


@click.group(
    cls=SearchGroup,
    package="busbw.cli.launch",
    sections={"Launchers": LAUNCHERS},
    invoke_without_command=True,
    subcommand_metavar="[LAUNCHER [OPTIONS]]",
    epilog="Try: busbw find --simulate 16x8 --fault nic:3/5:2.0, or on a cluster: busbw find slurm -N 128 -p gpu. "
    f"KIND:WHERE is one of {', '.join(f'{kind}:{form}' for kind, form in FORMS.items())}, counted from 0. "
    "SLOWDOWN is a ratio of times above 1, or dead; 2.0@0.2 is slow in a fifth of the iterations. "
    "failover has no SLOWDOWN: the next NIC of the node also carries the traffic of the NIC. "
    "Exit codes: 0 healthy, 5 found, 6 undecided, 3 could not measure.",
)
@click.option("--simulate", "shape", metavar="NODESxGPUS", help="Search in a simulated cluster, such as 128x8.")
@click.option(
    "--fault",
    "fault_texts",
    multiple=True,
    metavar="KIND:WHERE:SLOWDOWN",
    help="Fault of the simulated cluster; repeatable.",
)
@click.option(
    "--layout",
    type=click.Choice(["rail", "leaf-spine"]),
    help="Simulated fabric: one leaf per rail, or per group of nodes.  [default: rail]",
)
@click.option(
    "--nodes-per-leaf", type=click.IntRange(min=1), metavar="N", help="Simulated nodes per leaf.  [default: 32]"
)
@click.option(
    "--oversubscription",
    type=FloatRange(min=1, max=64),
    metavar="RATIO",
    help="Simulated NIC rate of a leaf over its uplink rate.  [default: 1]",
)
@click.option("--measure-with", "program", metavar="'PROGRAM ARGS'", help="External program that measures the flows.")
@click.option(
    "--logs",
    multiple=True,
    metavar="DIRECTORY|FILE",
    shell_complete=complete_log,
    help="Existing runs on different nodes; nothing is measured; repeatable.",
)
@click.option("--connected", "descriptors", hidden=True)
@click.option("--also-json", is_flag=True, hidden=True)
@click.option(
    "--backend", type=click.Choice(["auto", "host", "nccl"]), help="Backend on this machine.  [default: auto]"
)
@click.option(
    "-t",
    "--ranks",
    type=click.IntRange(min=1),
    metavar="N",
    help="Ranks on this machine.  [default: one per GPU; without GPUs one per processor, at least 2 and at most 4]",
)
@click.option(
    "--answer-timeout",
    "answer_timeout_s",
    type=SECONDS,
    default=300,
    show_default=True,
    metavar="SECONDS",
    help="Limit for each answer of the program.",
)
@click.option(
    "--topology",
    type=NonEmptyPath(dir_okay=False),
    metavar="FILE",
    help="Leaf switches: file of Slurm, ibnetdiscover or kubectl, or lines NODE LEAF.",
)
@click.option(
    "--size",
    "size_bytes",
    type=SIZE,
    metavar="SIZE",
    help="Bytes of each flow, such as 8M.  [default: 64M between nodes, 256M inside]",
)
@click.option("--pairs", is_flag=True, help="Measure each pair of nodes on each rail.")
@click.option("--max-rounds", type=click.IntRange(min=1), metavar="N", help="Measure at most N rounds.")
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="INTEGER",
    help="Seed of the rounds and the simulation.",
)
@click.option(
    "--system", "system_name", metavar="NAME|FILE", help="System or machine type, to predict the cost of a finding."
)
@export_options(EXPORTS)
@destination_options
@json_option
@click.pass_context
def find(context: click.Context, /, **values: Any) -> int:
    """Locates the slow part of a cluster from rounds of disjoint flows, and states how sure that is.

    Measures this machine, or the nodes of a job of a launcher. Keeps all flows in the run store, those of
    simulations only with --records or --store.
    """
    if context.invoked_subcommand is not None:
        refuse_options_before(context)
        return ExitCode.GOOD  # click then calls the command of the launcher, which decides the exit code
    options = FindOptions(**values)
    options.reject_contradictions()
    return search_logs(options) if options.logs else search_flows(options)
