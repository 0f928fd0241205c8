"""Counters of NICs that grow only on a bad link, path or slot. ADD A COUNTER to counters.toml."""

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeAlias

import msgspec
from msgspec import Struct

from busbw.doctor.model.check import Check, Evidence, Finding, NotApplicable, Severity, Unreadable
from busbw.doctor.model.machine import Absent, Machine, shown
from busbw.doctor.model.tree import LATER
from busbw.doctor.parts.nics import INFINIBAND, Kind, Port, compute_ports


class _Entry(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    name: str
    severity: Severity
    kinds: tuple[Kind, ...]
    rule: str
    source: str
    cost: str
    fix: str
    grows_more_than: dict[str, int] = {}
    prints_more: dict[str, int] = {}
    prints_above: dict[str, int] = {}


def _examine(entry: _Entry, machine: Machine) -> Iterator[Finding]:
    ports = compute_ports(machine, *entry.kinds)
    # All first readings come before the second ones, because each of these waits until a second has passed.
    for port in ports:
        with suppress(Unreadable):
            _values(entry, machine, port, later=False)
    missing: Unreadable | None = None
    has_counters = False
    for port in ports:
        try:
            before, after = (_values(entry, machine, port, later=later) for later in (False, True))
        except Unreadable as error:
            missing = error
            continue
        has_counters = has_counters or bool(before)
        evidence = tuple(_excesses(entry, before, after))
        if evidence:
            yield Finding(
                severity=entry.severity,
                subject=port.label,
                problem=f"{port.label}: {', '.join(each.value for each in evidence)}",
                evidence=evidence,
            )
    if missing:
        raise missing
    if not has_counters:
        raise NotApplicable(f"the driver of {ports[0].label} has no such counters")


_Values: TypeAlias = dict[tuple[str, str], int]
"""Counters of a port by source and name."""


def _excesses(entry: _Entry, before: _Values, after: _Values) -> Iterator[Evidence]:
    """Yields the counters that grow too fast or are too high."""
    growth_limits = {Path(path).name: limit for path, limit in entry.grows_more_than.items()} | entry.prints_more
    for (source, name), value in after.items():
        growth = value - before.get((source, name), value)
        if any(re.fullmatch(pattern, name) and growth > limit for pattern, limit in growth_limits.items()):
            yield Evidence(source=source, value=f"{name} grew by {growth} within a second")
        if any(re.fullmatch(pattern, name) and value > limit for pattern, limit in entry.prints_above.items()):
            yield Evidence(source=source, value=f"{name} is {value}")


def _values(entry: _Entry, machine: Machine, port: Port, *, later: bool) -> _Values:
    values: _Values = {}
    for template in entry.grows_more_than:
        for interface in port.interfaces if "{interface}" in template else ("",):
            path = template.format(
                port=port.folder, device=f"{INFINIBAND}/{port.device}", interface=f"sys/class/net/{interface}"
            )
            with suppress(Absent):
                values[shown(path), Path(path).name] = machine.number(f"{LATER if later else ''}{path}")
    printed = "|".join([*entry.prints_more, *entry.prints_above])
    for interface in port.interfaces if printed else ():
        command = ("ethtool", "-S", interface)
        output = machine.later_output(*command) if later else machine.output(*command)
        for name, value in re.findall(rf"^\s*({printed}): (\d{{1,20}})$", output, re.MULTILINE):
            values[" ".join(command), name] = int(value)
    return values


def _check(entry: _Entry) -> Check[Machine]:
    files = [path.format(port="ports/1", device="NIC", interface="net/INTERFACE") for path in entry.grows_more_than]
    return Check(
        name=entry.name,
        area="nic",
        reads=", ".join([*files, *(f"ethtool -S ({name})" for name in (entry.prints_more | entry.prints_above))]),
        rule=entry.rule,
        source=entry.source,
        cost=entry.cost,
        fix=entry.fix,
        examine=partial(_examine, entry),
    )


class _Entries(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    checks: tuple[_Entry, ...]


CHECKS = tuple(
    _check(entry)
    for entry in msgspec.toml.decode(Path(__file__).with_suffix(".toml").read_bytes(), type=_Entries).checks
)
