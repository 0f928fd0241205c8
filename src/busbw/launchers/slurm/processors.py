"""Processors (Slurm: CPUs) of the nodes available to a job: a pure function of the output of Slurm's commands."""

import re
from collections.abc import Sequence

from busbw.launchers.slurm.hostlist import expand_hostlist

SINFO_COMMAND = ("sinfo", "--noheader", "--Node", "--format=%N %P")
"""Command that prints each node with each of its partitions. An asterisk marks the default partition."""


def min_processors(nodes: str, partitions: str, options: Sequence[str]) -> int | None:
    """Returns the smallest processor count of the nodes available to a job with these options.

    Processors reserved for Slurm itself are not counted. None if no node is available or the count of one is unknown.

    Args:
        nodes: Output of `scontrol --oneliner show node`.
        partitions: Output of SINFO_COMMAND.
        options: Options of the job. Only the partition and the node list are used.
    """
    wanted_partitions = _option_value(options, "partition", "p").split(",")
    uses_default = wanted_partitions == [""]
    allowed = set()
    for line in partitions.splitlines():
        name, _, partition = line.partition(" ")
        if partition.rstrip("*") in wanted_partitions or (uses_default and partition.endswith("*")):
            allowed.add(name)
    if named := set(expand_hostlist(_option_value(options, "nodelist", "w"))):
        allowed &= named
    node_fields = (dict(re.findall(r"(?:^|\s)(\w+)=(\S*)", line)) for line in nodes.splitlines())
    counts = [_processor_count(fields) for fields in node_fields if fields.get("NodeName") in allowed]
    known_counts = [count for count in counts if count is not None]
    is_one_unknown = len(known_counts) < len(counts)
    return None if is_one_unknown else min(known_counts, default=None)


def _option_value(options: Sequence[str], name: str, letter: str) -> str:
    """Value of an option in the form `--partition=gpu`, `-p gpu` or `-pgpu`. The last occurrence applies.

    Empty if the option is not given.
    """
    matches = [re.fullmatch(rf"(?:--{name}=|-{letter} ?)(.*)", option) for option in options]
    return next((match[1] for match in reversed(matches) if match), "")


def _processor_count(node: dict[str, str]) -> int | None:
    """Processors of a node: those that jobs can use, or all if Slurm does not print that. None if unknown."""
    text = node.get("CPUEfctv") or node.get("CPUTot", "")
    return int(text) if text.isdecimal() else None
