"""Orders nodes by their network switches, so that neighbors in the order are neighbors in the network.

Also reads Slurm's descriptions: host lists and topology.conf.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

_TOPOLOGY_FIELD = re.compile(r"(\w+)=(\S*)")
_DIGITS = re.compile(r"(\d+)")


class Switch(NamedTuple):
    """A line of topology.conf. A block counts as a switch."""

    name: str
    children: str
    """Host list of the switches below it."""
    nodes: str
    """Host list of its nodes."""


def parse_hostlist(text: str) -> list[str]:
    """Expands a host list of Slurm, such as `n[1-3,07],gpu-a[01-02]-x`."""
    return list(expand_hostlist(text))


def expand_hostlist(text: str) -> Iterator[str]:
    """Yields the names of a host list one by one, because a short list may stand for any number of names.

    Raises:
        ValueError: A bracket is open, or an end of a range is no number.
    """
    for name in _split_outside_brackets(text):
        yield from _expand_brackets(name)


def _split_outside_brackets(text: str) -> Iterable[str]:
    depth, start = 0, 0
    for index, letter in enumerate(text):
        depth += {"[": 1, "]": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            yield text[start:index]
            start = index + 1
    if text[start:]:
        yield text[start:]


def _expand_brackets(name: str) -> Iterator[str]:
    """Expands the first pair of brackets of a name, and then the text after it."""
    prefix, bracket, after_bracket = name.partition("[")
    if not bracket:
        yield name
        return
    ranges, end, suffix = after_bracket.partition("]")
    if not end:
        raise ValueError(f"{name} has an open bracket")
    for range_text in ranges.split(","):
        for number in _expand_range(range_text):
            for expanded_suffix in _expand_brackets(suffix):
                yield f"{prefix}{number}{expanded_suffix}"


def _expand_range(text: str) -> Iterator[str]:
    """Yields the numbers of `3` or `01-12`, with the leading zeros of the first one."""
    first, dash, last = text.partition("-")
    if not dash:
        yield first
        return
    for number in range(int(first), int(last) + 1):
        yield str(number).zfill(len(first))


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
        child_switches[switch.name] = parse_hostlist(switch.children)
        nodes_by_switch[switch.name] = parse_hostlist(switch.nodes)

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
