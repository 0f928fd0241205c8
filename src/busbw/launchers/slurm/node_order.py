"""Orders nodes by their network switches, so that neighbors in the order are neighbors in the network."""

import re
from collections.abc import Iterable, Sequence

_FIELD = re.compile(r"(\w+)=(\S*)")
_DIGITS = re.compile(r"(\d+)")


def parse_hostlist(text: str) -> list[str]:
    """Expands a host list of Slurm, such as `n[1-3,07],gpu-a[01-02]-x`."""
    names: list[str] = []
    for item in _split_outside_brackets(text):
        names += _expanded(item)
    return names


def _split_outside_brackets(text: str) -> Iterable[str]:
    depth, start = 0, 0
    for index, letter in enumerate(text):
        depth += {"[": 1, "]": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            yield text[start:index]
            start = index + 1
    if text[start:]:
        yield text[start:]


def _expanded(item: str) -> list[str]:
    before, bracket, rest = item.partition("[")
    if not bracket:
        return [item]
    inside, _, after = rest.partition("]")
    numbers: list[str] = []
    for part in inside.split(","):
        first, dash, last = part.partition("-")
        if dash:
            numbers += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
        else:
            numbers.append(first)
    return [f"{before}{number}{tail}" for number in numbers for tail in _expanded(after)]


def by_switch(topology: str) -> list[str]:
    """Returns all nodes of the cluster, ordered by switch.

    Switches below the same switch are adjacent, and so are the nodes of a leaf switch. Within a switch, nodes are in
    numeric order.

    Args:
        topology: Output of `scontrol show topology`, or the lines of topology.conf. A block counts as a leaf switch.
    """
    nodes: dict[str, list[str]] = {}
    below: dict[str, list[str]] = {}
    for line in topology.splitlines():
        fields = dict(_FIELD.findall(line.partition("#")[0]))
        name = fields.get("SwitchName") or fields.get("BlockName")
        if name:
            below[name] = parse_hostlist(fields.get("Switches", ""))
            nodes[name] = parse_hostlist(fields.get("Nodes", ""))

    order: dict[str, None] = {}

    def walk(switch: str, path: frozenset[str]) -> None:
        if switch in path:
            return  # a cycle: invalid in a tree
        for inner in sorted(below.get(switch, []), key=_natural_key):
            walk(inner, path | {switch})
        order.update(dict.fromkeys(sorted(nodes.get(switch, []), key=_natural_key)))

    inner = {name for names in below.values() for name in names}
    for top in sorted(below.keys() - inner, key=_natural_key):
        walk(top, frozenset())
    return list(order)


def in_order(nodes: Sequence[str], order: Sequence[str]) -> list[str]:
    """Sorts the nodes by their position in the order. Nodes without a position come last."""
    position = {name: index for index, name in enumerate(order)}
    return sorted(nodes, key=lambda name: (position.get(name, len(position)), _natural_key(name)))


def _natural_key(name: str) -> list[tuple[int, int | str]]:
    """Sort key that places n2 before n10."""
    return [(0, int(part)) if part.isdigit() else (1, part) for part in _DIGITS.split(name) if part]
