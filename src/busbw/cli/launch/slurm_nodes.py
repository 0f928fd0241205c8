"""Order and processors of nodes, from Slurm's description of the cluster."""

import os
import re
from collections.abc import Sequence
from dataclasses import replace

from busbw.errors import BusbwError, UsageError
from busbw.launchers.job.hosts import HostSlots
from busbw.launchers.slurm import commands
from busbw.launchers.slurm.node_order import order_by_switch, sort_nodes
from busbw.launchers.slurm.processors import SINFO_COMMAND, min_processors
from busbw.launchers.slurm.script import SlurmTarget

_SETS_PROCESSORS = re.compile(r"-c|--cpus-p|--exclusive=")
"""Beginning of an option that determines the processors of a process: -c, --cpus-per-task or a share of a node.

Slurm accepts abbreviations such as --cpus-per.
"""


def sort_hosts(hosts: Sequence[HostSlots], nodes_by_switch: list[str]) -> tuple[HostSlots, ...]:
    """Returns the hosts in the order of `nodes_by_switch`."""
    host_by_name = {host.name: host for host in hosts}
    return tuple(host_by_name[name] for name in sort_nodes(list(host_by_name), nodes_by_switch))


def with_all_processors(target: SlurmTarget, processes_per_node: int) -> tuple[SlurmTarget, tuple[str, ...]]:
    """Returns the target with --cpus-per-task for all processors of a node, and notes for the user.

    srun gives its own job only the processors that the job requests, even on exclusive nodes. Slurm may choose any
    nodes of a partition, so the node with the fewest processors decides.
    """
    options = (*target.job_options, *target.step_options)
    if partition := os.environ.get("SLURM_PARTITION"):
        options = (f"--partition={partition}", *options)  # srun reads this variable too; an option has priority
    if any(_SETS_PROCESSORS.match(option) for option in options):
        return target, ()
    try:
        nodes = commands.run_for_output(["scontrol", "--oneliner", "show", "node"])
        partitions = commands.run_for_output(SINFO_COMMAND)
    except BusbwError as error:
        return target, (f"{error.problem}: srun gives each process one processor, because --cpus-per-task is unknown",)
    processor_count = min_processors(nodes, partitions, options) or 0  # 0: unknown
    processors_per_process = processor_count // processes_per_node
    if processors_per_process:
        option = f"--cpus-per-task={processors_per_process}"
        target = replace(target, step_options=(option, *target.step_options))
    return target, ()


def find_nodes_by_switch(*, dry_run: bool) -> tuple[list[str], tuple[str, ...]]:
    """Returns all nodes ordered by switch, and notes for the user. A dry run works without Slurm.

    Raises:
        BusbwError: scontrol fails.
        UsageError: Slurm has no topology of switches.
    """
    try:
        nodes = order_by_switch(commands.run_for_output(["scontrol", "show", "topology"]))
    except BusbwError as error:
        if not dry_run:
            raise
        remark = f"{error.problem}: NODES-BY-SWITCH stands for Slurm's list of nodes, ordered by switch."
        return ["NODES-BY-SWITCH"], (remark,)
    if not nodes:
        raise UsageError("Slurm has no topology of switches", remedy="remove --topology-order, or give --hostfile")
    return nodes, ()
