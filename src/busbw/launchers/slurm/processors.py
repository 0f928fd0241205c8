"""Processor counts of the nodes available to a job: a pure function of the output of Slurm's commands."""

import re
from collections.abc import Sequence

from busbw.launchers.slurm.node_order import parse_hostlist

NODES = ("sinfo", "--noheader", "--Node", "--format=%N %P")
"""Command that prints each node with each of its partitions. An asterisk marks the default partition."""


def processors(nodes: str, partitions: str, options: Sequence[str]) -> list[int]:
    """Returns the processor count of each node available to a job with these options.

    Processors reserved for Slurm itself are not counted.

    Args:
        nodes: Output of `scontrol --oneliner show node`.
        partitions: Output of NODES.
        options: Options of the job. Only the partition and the node list are used.
    """
    wanted = _value(options, "partition", "p").split(",")
    allowed = {
        name
        for name, _, partition in (line.partition(" ") for line in partitions.splitlines())
        if partition.rstrip("*") in wanted or (wanted == [""] and partition.endswith("*"))
    }
    if named := parse_hostlist(_value(options, "nodelist", "w")):
        allowed &= set(named)
    found = (dict(re.findall(r"(?:^|\s)(\w+)=(\S*)", line)) for line in nodes.splitlines())
    return [_processor_count(node) for node in found if node.get("NodeName") in allowed]


def _value(options: Sequence[str], name: str, letter: str) -> str:
    """Value of an option; the last occurrence applies."""
    found = [re.fullmatch(rf"(?:--{name}=|-{letter} ?)(.*)", option) for option in options]
    return next((match[1] for match in reversed(found) if match), "")


def _processor_count(node: dict[str, str]) -> int:
    text = node.get("CPUEfctv") or node.get("CPUTot", "")
    return int(text) if text.isdecimal() else 0
