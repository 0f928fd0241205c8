"""How many processors the nodes have that a job may get: a pure function of what Slurm's commands print."""

import re
from collections.abc import Sequence

from busbw.launchers.slurm.node_order import parse_hostlist

NODES = ("sinfo", "--noheader", "--Node", "--format=%N %P")
"""Prints each node with each partition that it is in; an asterisk marks the default one."""


def processors(nodes: str, partitions: str, options: Sequence[str]) -> list[int]:
    """The processors of each node that a job with these options may get, without those that Slurm keeps for itself.

    Args:
        nodes: What `scontrol --oneliner show node` prints.
        partitions: What NODES prints.
        options: Of the job; only the partition and a list of nodes are looked at.
    """
    wanted = _value(options, "partition", "p").split(",")
    may = {
        name
        for name, _, partition in (line.partition(" ") for line in partitions.splitlines())
        if partition.rstrip("*") in wanted or (wanted == [""] and partition.endswith("*"))
    }
    if named := parse_hostlist(_value(options, "nodelist", "w")):
        may &= set(named)
    found = (dict(re.findall(r"(?:^|\s)(\w+)=(\S*)", line)) for line in nodes.splitlines())
    return [_of(node) for node in found if node.get("NodeName") in may]


def _value(options: Sequence[str], name: str, letter: str) -> str:
    """The last one counts."""
    found = [re.fullmatch(rf"(?:--{name}=|-{letter} ?)(.*)", option) for option in options]
    return next((match[1] for match in reversed(found) if match), "")


def _of(node: dict[str, str]) -> int:
    text = node.get("CPUEfctv") or node.get("CPUTot", "")
    return int(text) if text.isdecimal() else 0
