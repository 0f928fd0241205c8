"""Nodes in the order of the switches that they hang on: neighbours in the order are neighbours in the network."""

import re
from collections.abc import Iterable, Sequence

_FIELD = re.compile(r"(\w+)=(\S*)")
_DIGITS = re.compile(r"(\d+)")


def parse_hostlist(text: str) -> list[str]:
    """The names in Slurm's short form: `n[1-3,07],gpu-a[01-02]-x`."""
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
    """Every node of the cluster, switch by switch.

    Switches that hang on the same switch follow each other, and so do the nodes of a leaf; within a switch they are in
    the order of their numbers.

    Args:
        topology: What `scontrol show topology` prints, or the lines of topology.conf. Blocks count like leaves.
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
            return  # a circle, which no tree has
        for inner in sorted(below.get(switch, []), key=_natural_key):
            walk(inner, path | {switch})
        order.update(dict.fromkeys(sorted(nodes.get(switch, []), key=_natural_key)))

    inner = {name for names in below.values() for name in names}
    for top in sorted(below.keys() - inner, key=_natural_key):
        walk(top, frozenset())
    return list(order)


def in_order(nodes: Sequence[str], order: Sequence[str]) -> list[str]:
    """The nodes as they stand in the order; those that it lacks come last."""
    place = {name: index for index, name in enumerate(order)}
    return sorted(nodes, key=lambda name: (place.get(name, len(place)), _natural_key(name)))


def _natural_key(name: str) -> list[tuple[int, int | str]]:
    """n2 before n10."""
    return [(0, int(part)) if part.isdigit() else (1, part) for part in _DIGITS.split(name) if part]
