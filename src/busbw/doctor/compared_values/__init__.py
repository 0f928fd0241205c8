"""ADD A VALUE TO COMPARE in values.toml: values that all nodes of a job should share, such as the driver's version.

Each value is a check of the area nodes (checks/nodes/differences.py).
"""

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct, field

from busbw.doctor.model import Absent, Machine, NotApplicable, Severity, Unreadable
from busbw.doctor.parts.nics import rdma_ports

Items: TypeAlias = tuple[str, ...]
"""A compared value: one or several texts, in an order that does not depend on the order of devices."""

_MAX_ITEMS, _MAX_ITEM_LENGTH = 100, 120


class ComparedValue(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """One value to compare, and the texts of its check."""

    check: str
    title: str
    """Noun for findings: "NVIDIA driver"."""
    path: str
    """Key of the tree (model/tree.py). {} stands for each device of `each`, and * for each name in a folder.

    Several paths, with " & " between them, yield one text for each device. The key of a fact is followed by a field:
    "facts/gpus.json#gpus.*.nvlinks.count".
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
    values: tuple[ComparedValue, ...]


class NodeValues(Struct, kw_only=True, frozen=True):
    """Values of one node."""

    node: str
    values: dict[str, Items] = field(default_factory=dict)
    """By the name of the check."""
    missing: dict[str, str] = field(default_factory=dict)
    """Missing files or fields, by the name of the check."""


@lru_cache(maxsize=1)
def compared_values() -> tuple[tuple[ComparedValue, _Group], ...]:
    """Returns all values to compare, each with the texts of its group."""
    content = files(__name__).joinpath("values.toml").read_bytes()
    groups = msgspec.toml.decode(content, type=dict[str, _Group])
    return tuple((value, group) for group in groups.values() for value in group.values)


def read_values(machine: Machine, node: NodeValues) -> None:
    """Adds the values of a machine to `node`. Reads files first, because commands and facts may take long."""
    values = [value for value, _ in compared_values()]
    for value in sorted(values, key=lambda each: each.path.startswith(("commands/", "facts/"))):
        try:
            node.values[value.check] = _read_value(machine, value)
        except Unreadable as error:
            node.missing[value.check] = str(error)


def _read_value(machine: Machine, value: ComparedValue) -> Items:
    try:
        return _select_texts(machine, value)
    except Absent:
        if value.absent:
            return (value.absent,)
        raise


def _select_texts(machine: Machine, value: ComparedValue) -> Items:
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


def _matches(machine: Machine, value: ComparedValue) -> Iterator[str]:
    """Yields the matched texts of all devices, such as "400 Gb/sec (4X NDR) InfiniBand" from two paths of each NIC."""
    for device in _devices(machine, value.each):
        texts = [_texts(machine, path.replace("{}", device)) for path in value.path.split(" & ")]
        for parts in zip(*texts, strict=False):
            for match in re.finditer(value.pattern, " ".join(parts), re.MULTILINE):
                groups = match.groups() or (match[0],)
                yield " ".join(group.strip() for group in groups if group)[:_MAX_ITEM_LENGTH]


def _devices(machine: Machine, kind: str) -> tuple[str, ...]:
    """Returns the texts that replace {} in a path, for a value of `ComparedValue.each`."""
    if not kind:
        return ("",)
    if kind == "gpu":
        return machine.names("proc/driver/nvidia/gpus")
    try:
        ports = rdma_ports(machine)
    except NotApplicable as error:
        raise Absent(str(error)) from error
    return tuple(dict.fromkeys(port.device if kind == "rdma" else port.bus_id for port in ports))


def _texts(machine: Machine, path: str) -> list[str]:
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
    return [text for name in machine.names(folder) for text in _texts(machine, f"{folder}/{name}/{rest}")]


def _fields(content: Any, names: list[str]) -> Iterator[str]:
    """Yields the texts of a field. A missing value yields an empty text, so that fields of one list stay parallel."""
    if names and names[0] == "*":
        for each in content if isinstance(content, list) else ():
            yield from _fields(each, names[1:])
    elif names:
        yield from _fields(content.get(names[0]) if isinstance(content, dict) else None, names[1:])
    elif isinstance(content, dict):
        yield from (f"{name}={value}" for name, value in sorted(content.items()))
    else:
        yield "" if content is None else str(content)
