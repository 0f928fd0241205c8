"""Orders nodes by their network switches, so that neighbors in the order are neighbors in the network."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from busbw.launchers.slurm.hostlist import expand_hostlist

_TOPOLOGY_FIELD = re.compile(r"(\w+)=(\S*)")
_DIGITS = re.compile(r"(\d+)")


class Switch(NamedTuple):
    """A line of topology.conf. A block counts as a switch."""

    name: str
    children: str
    """Host list of the switches below it."""
    nodes: str
    """Host list of its nodes."""


def parse_switches(topology: str) -> Iterator[Switch]:
    """Yields the switches and blocks of topology.conf, or of the output of `scontrol show topology`."""
    for line in topology.splitlines():
        fields = {key.lower(): value for key, value in _TOPOLOGY_FIELD.findall(line.partition("#")[0])}
        if name := fields.get("switchname") or fields.get("blockname"):
            yield Switch(name, fields.get("switches", ""), fields.get("nodes", ""))


def order_by_switch(topology: str) -> list[str]:
    """Returns all nodes of the cluster, ordered by switch.

    Switches below the same switch are adjacent, in numeric order of their names. The nodes of a leaf switch are
    adjacent, also in numeric order.

    Args:
        topology: Output of `scontrol show topology`, or the lines of topology.conf. A block counts as a leaf switch.
    """
    nodes_by_switch: dict[str, list[str]] = {}
    child_switches: dict[str, list[str]] = {}
    for switch in parse_switches(topology):
        child_switches[switch.name] = list(expand_hostlist(switch.children))
        nodes_by_switch[switch.name] = list(expand_hostlist(switch.nodes))

    order: dict[str, None] = {}  # an ordered set

    def visit(switch: str, path: frozenset[str]) -> None:
        """Adds the nodes below a switch, depth first. `path`: the switches above it."""
        if switch in path:
            return  # a cycle: invalid in a tree
        for child in sorted(child_switches.get(switch, []), key=_natural_key):
            visit(child, path | {switch})
        order.update(dict.fromkeys(sorted(nodes_by_switch.get(switch, []), key=_natural_key)))

    inner_switches = {name for names in child_switches.values() for name in names}
    for top_switch in sorted(child_switches.keys() - inner_switches, key=_natural_key):
        visit(top_switch, frozenset())
    return list(order)


def sort_nodes(nodes: Sequence[str], order: Sequence[str]) -> list[str]:
    """Sorts the nodes by their position in the order. Nodes without a position come last."""
    position = {name: index for index, name in enumerate(order)}
    return sorted(nodes, key=lambda name: (position.get(name, len(position)), _natural_key(name)))


def _natural_key(name: str) -> list[tuple[int, int | str]]:
    """Sort key that places n2 before n10."""
    return [(0, int(part)) if part.isdigit() else (1, part) for part in _DIGITS.split(name) if part]
