"""Values that all nodes of a job should share, such as the driver's version. ADD A VALUE TO COMPARE in values.toml.

Each value is a check of the area nodes.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct, field

from busbw.doctor.model import Absent, Check, Evidence, Finding, Machine, NotApplicable, Severity, Unreadable, require
from busbw.doctor.model.tree import COMMANDS, FACTS
from busbw.doctor.parts.nics import rdma_ports
from busbw.units import names_text, shorten

Items: TypeAlias = tuple[str, ...]
"""A compared value: one or several texts, in an order that does not depend on the order of devices."""

_MAX_ITEMS, _MAX_ITEM_LENGTH = 100, 120
_MIN_MAJORITY = 3
"""Minimum number of equal nodes to name a node as different. Of two different nodes, either may be wrong."""
_MAX_NAMES, _MAX_LENGTH = 4, 160
"""Maximum number of node names, and of characters of a value, in a finding."""


class _ComparedValue(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """One value to compare, and the texts of its check."""

    check: str
    title: str
    """Noun for findings: "NVIDIA driver"."""
    path: str
    """Key of the tree (model/tree.py). {} stands for each device of `each`, and * for each name in a folder.

    The key of a fact is followed by a field: "facts/gpus.json#gpus.*.nvlinks.count".

    With " & " between several paths, the first texts of all paths become one text, then the second texts. Example for
    each NIC: "sys/class/infiniband/{}/board_id & sys/class/infiniband/{}/fw_ver" reads "MT_0000000838" and
    "28.39.1002", and yields "MT_0000000838 28.39.1002".
    """
    each: Literal["", "gpu", "rdma", "nic"] = ""
    """gpu: PCI addresses of GPUs; rdma: names of the NICs that NCCL_IB_HCA permits; nic: their PCI addresses."""
    pattern: str = r"\S.*"
    """Parts to compare: the groups of each match, or the whole match of a pattern without groups."""
    reduce: Literal["count", "first", "set", "list"] = "list"
    """count: number of matches; first: the first; set: different ones; list: all, with the number of equal ones."""
    absent: str = ""
    """Value if the file or the match is absent. Empty: the value is then unknown."""


class _Group(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Values with the same effect if nodes differ in them."""

    severity: Severity
    cost: str
    fix: str
    source: str
    values: tuple[_ComparedValue, ...]


class NodeValues(Struct, kw_only=True, frozen=True):
    """Values of one node."""

    node: str
    values: dict[str, Items] = field(default_factory=dict)
    """By the name of the check."""
    missing: dict[str, str] = field(default_factory=dict)
    """Missing files or fields, by the name of the check."""


GROUPS = tuple(
    msgspec.toml.decode(Path(__file__).with_name("values.toml").read_bytes(), type=dict[str, _Group]).values()
)
"""Values to compare, with the texts of their checks."""


def read_values(machine: Machine, node: NodeValues) -> None:
    """Adds the values of a machine to `node`. Reads files first, because commands and facts may take long."""
    values = [value for group in GROUPS for value in group.values]
    for value in sorted(values, key=lambda value: value.path.startswith((COMMANDS, FACTS))):
        try:
            node.values[value.check] = _select_texts(machine, value)
        except Unreadable as error:
            if isinstance(error, Absent) and value.absent:
                node.values[value.check] = (value.absent,)
            else:
                node.missing[value.check] = str(error)


def _select_texts(machine: Machine, value: _ComparedValue) -> Items:
    """Returns the texts that `value.reduce` selects. Raises Absent if no text matches."""
    matches = list(_matches(machine, value))
    if value.reduce == "first":
        matches = matches[:1]
    counts = Counter(text for text in matches if text)
    if not counts:
        raise Absent(f"{value.title} in /{value.path}")
    if value.reduce == "count":
        return (str(counts.total()),)
    texts = sorted(counts)
    if value.reduce == "list":
        texts = [f"{counts[text]} x {text}" if counts[text] > 1 else text for text in texts]
    return tuple(texts[:_MAX_ITEMS])


def _matches(machine: Machine, value: _ComparedValue) -> Iterator[str]:
    """Yields the matched texts of all devices, such as "400 Gb/sec (4X NDR) InfiniBand" from two paths of each NIC."""
    for device in _devices(machine, value.each):
        texts = [_read_texts(machine, path.replace("{}", device)) for path in value.path.split(" & ")]
        for parts in zip(*texts, strict=False):
            for match in re.finditer(value.pattern, " ".join(parts), re.MULTILINE):
                groups = match.groups() or (match[0],)
                yield " ".join(group.strip() for group in groups if group)[:_MAX_ITEM_LENGTH]


def _devices(machine: Machine, kind: str) -> tuple[str, ...]:
    """Returns the texts that replace {} in a path, for a value of `_ComparedValue.each`."""
    if not kind:
        return ("",)
    if kind == "gpu":
        return machine.names("proc/driver/nvidia/gpus")
    try:
        ports = rdma_ports(machine)
    except NotApplicable as error:
        raise Absent(str(error)) from error
    return tuple(dict.fromkeys(port.device if kind == "rdma" else port.bus_id for port in ports))


def _read_texts(machine: Machine, path: str) -> list[str]:
    """Returns the content of a file, or of each file that a path with * stands for, or the fields of a fact."""
    key, _, fields = path.partition("#")
    if fields:
        try:
            return list(_fields(msgspec.json.decode(machine.text(key)), fields.split(".")))
        except (msgspec.DecodeError, RecursionError) as error:
            raise Unreadable(f"{key} is not valid") from error
    folder, star, rest = path.partition("/*/")
    if not star:
        return [machine.text(path)]
    return [text for name in machine.names(folder) for text in _read_texts(machine, f"{folder}/{name}/{rest}")]


def _fields(content: Any, names: list[str]) -> Iterator[str]:
    """Yields the texts of a field. A missing value yields an empty text, so that fields of one list stay parallel."""
    if names and names[0] == "*":
        for item in content if isinstance(content, list) else ():
            yield from _fields(item, names[1:])
    elif names:
        yield from _fields(content.get(names[0]) if isinstance(content, dict) else None, names[1:])
    elif isinstance(content, dict):
        yield from (f"{name}={value}" for name, value in sorted(content.items()))
    else:
        yield "" if content is None else str(content)


def _examine(value: _ComparedValue, severity: Severity, nodes: Sequence[NodeValues]) -> Iterator[Finding]:
    by_node = {node.node: node.values[value.check] for node in nodes if value.check in node.values}
    require(by_node, f"no node has a value of {value.title}")
    counts = Counter(by_node.values())
    usual, count = counts.most_common(1)[0]
    if count >= _MIN_MAJORITY and 2 * count > len(by_node):
        for node, own in by_node.items():
            if own != usual:
                yield _odd_node(value, severity, node, own, usual, f"{count} of {len(by_node)} nodes")
    elif len(counts) > 1:
        yield _disagreement(value, by_node)
    without_value = [node for node in nodes if node.node not in by_node]
    if without_value:
        missing = without_value[0].missing.get(value.check, f"a value of {value.title}")
        raise Unreadable(f"{missing} on {names_text([node.node for node in without_value], _MAX_NAMES)}")


def _odd_node(value: _ComparedValue, severity: Severity, node: str, own: Items, usual: Items, majority: str) -> Finding:
    lacks, has = _without(usual, own), _without(own, usual)
    if lacks and has:
        problem = f"{majority} have {value.title} {_join(lacks)}; {node} has {_join(has)}"
    elif has:
        problem = f"{node} has {value.title} {_join(has)}, which {majority} lack"
    else:
        problem = f"{node} lacks {value.title} {_join(lacks)}, which {majority} have"
    evidence = Evidence(f"{node}: {_place(value)}", _join(own))
    return Finding(severity, problem, (evidence,), subject=node)


def _disagreement(value: _ComparedValue, by_node: dict[str, Items]) -> Finding:
    groups: dict[Items, list[str]] = {}
    for node, own in by_node.items():
        groups.setdefault(own, []).append(node)
    shared = tuple(set.intersection(*map(set, groups)))
    texts = [f"{_join(_without(own, shared))} on {names_text(nodes, _MAX_NAMES)}" for own, nodes in groups.items()]
    return Finding(
        "risk",
        f"nodes differ in {value.title}: {'; '.join(texts)}",
        tuple(
            Evidence(f"{names_text(nodes, _MAX_NAMES)}: {_place(value)}", _join(own)) for own, nodes in groups.items()
        ),
    )


def _place(value: _ComparedValue) -> str:
    """Returns the file, command or fact with a value, as users know it."""
    places = []
    for path in value.path.replace("{}", "*").split(" & "):
        is_file = not path.startswith((COMMANDS, FACTS))
        name = path.removeprefix(COMMANDS).removeprefix(FACTS)
        places.append(f"/{path}" if is_file else name.replace(".json#", ": "))
    return ", ".join(places)


def _without(items: Items, others: Items) -> Items:
    """Returns the items that `others` does not have."""
    return tuple(item for item in items if item not in others)


def _join(items: Items) -> str:
    return shorten(", ".join(items) or "none", _MAX_LENGTH)


CHECKS = tuple(
    Check(
        name=value.check,
        area="nodes",
        reads=_place(value),
        rule=f"All nodes have the same {value.title}.",
        source=group.source,
        cost=group.cost,
        fix=group.fix,
        examine=partial(_examine, value, group.severity),
    )
    for group in GROUPS
    for value in group.values
)
