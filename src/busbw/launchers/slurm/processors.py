"""Processors of the nodes available to a job: a pure function of the output of Slurm's commands."""

import re
from collections.abc import Sequence

from busbw.launchers.slurm.node_order import parse_hostlist

NODES = ("sinfo", "--noheader", "--Node", "--format=%N %P")
"""Command that prints each node with each of its partitions. An asterisk marks the default partition."""


def min_processors(nodes: str, partitions: str, options: Sequence[str]) -> int | None:
    """Returns the smallest processor count of the nodes available to a job with these options.

    Processors reserved for Slurm itself are not counted. None if no node is available or the count of one is unknown.

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
    properties = [dict(re.findall(r"(?:^|\s)(\w+)=(\S*)", line)) for line in nodes.splitlines()]
    counts = [_processor_count(node) for node in properties if node.get("NodeName") in allowed]
    known_counts = [count for count in counts if count is not None]
    return min(known_counts) if known_counts and len(known_counts) == len(counts) else None


def _value(options: Sequence[str], name: str, letter: str) -> str:
    """Value of an option; the last occurrence applies."""
    found = [re.fullmatch(rf"(?:--{name}=|-{letter} ?)(.*)", option) for option in options]
    return next((match[1] for match in reversed(found) if match), "")


def _processor_count(node: dict[str, str]) -> int | None:
    text = node.get("CPUEfctv") or node.get("CPUTot", "")
    return int(text) if text.isdecimal() else None
