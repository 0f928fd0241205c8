"""Counters of NICs that grow only on a bad link, path or slot. ADD A COUNTER to counters.toml."""

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec
from msgspec import field

from busbw.doctor.model import (
    Check,
    CheckTexts,
    Evidence,
    Finding,
    Machine,
    Unreadable,
    key_text,
    make_check,
    require,
)
from busbw.doctor.model.tree import LATER, command_key, command_words
from busbw.doctor.parts.counters import growths
from busbw.doctor.parts.nics import NETWORK, Kind, Port, compute_ports
from busbw.doctor.parts.pci import INFINIBAND


class _Entry(CheckTexts, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Check of counters.toml."""

    kinds: tuple[Kind, ...]
    files: dict[str, int] = field(default_factory=dict)
    """Maximum healthy growth within a second, by the path of the counter."""
    ethtool: dict[str, int] = field(default_factory=dict)
    """Maximum healthy growth within a second, by a pattern of counters of `ethtool -S`."""


def _examine(entry: _Entry, machine: Machine) -> Iterator[Finding]:
    ports = compute_ports(machine, *entry.kinds)
    # All counters are read once before any is read again: a key with LATER waits until one second after its first read.
    for port in ports:
        for key in (*_files(entry, port), *_commands(entry, port)):
            with suppress(Unreadable):
                machine.text(key)
    failure: Unreadable | None = None
    has_counters = False
    for port in ports:
        evidence: list[Evidence] = []
        try:
            for source, name, growth, limit in _growths(entry, machine, port):
                has_counters = True
                if growth > limit:
                    evidence.append(Evidence(source, f"{name} grew by {growth} within a second"))
        except Unreadable as error:
            failure = error
        if evidence:
            problem = f"{port.label}: {', '.join(item.value for item in evidence)}"
            yield Finding("slow", problem, tuple(evidence), subject=port.label)
    if failure is not None:
        raise failure
    require(has_counters, f"the driver of {ports[0].device} has no such counters")


def _growths(entry: _Entry, machine: Machine, port: Port) -> Iterator[tuple[str, str, int, int]]:
    """Yields source, name, growth and maximum healthy growth of each counter that the driver of a port has."""
    limits = _files(entry, port)
    for path, growth in growths(machine, limits).items():
        yield key_text(path), Path(path).name, growth, limits[path]
    for key in _commands(entry, port):
        before, after = machine.text(key), machine.text(LATER + key)
        for pattern, limit in entry.ethtool.items():
            line = re.compile(rf"^\s*({pattern}): (\d{{1,20}})$", re.MULTILINE)
            counts = dict(line.findall(before))
            for name, value in line.findall(after):
                yield " ".join(command_words(key)), name, int(value) - int(counts.get(name, value)), limit


def _files(entry: _Entry, port: Port) -> dict[str, int]:
    """Returns the limits of a port's counters by file."""
    device = f"{INFINIBAND}/{port.device}"
    return {
        path.format(port=port.folder, device=device, interface=f"{NETWORK}/{name}"): limit
        for path, limit in entry.files.items()
        for name in (port.interfaces if "{interface}" in path else ("",))
    }


def _commands(entry: _Entry, port: Port) -> list[str]:
    return [command_key(("ethtool", "-S", name)) for name in port.interfaces if entry.ethtool]


def _check(name: str, entry: _Entry) -> Check[Machine]:
    reads = [*(Path(file).name for file in entry.files), *(f"ethtool -S ({file})" for file in entry.ethtool)]
    return make_check(entry, name, "nic", ", ".join(reads), partial(_examine, entry))


_ENTRIES = msgspec.toml.decode(Path(__file__).with_suffix(".toml").read_bytes(), type=dict[str, _Entry])
CHECKS = tuple(_check(name, entry) for name, entry in _ENTRIES.items())
