"""Machines for the tests of `busbw doctor`: captures written by hand from public sources, and their mutations.

A machine is a folder in doctor/machines with TOML files. Their tables:

    source            public address of the values
    [files]           content by path. {0..7} and {a,b} in a path stand for several paths, and in the content for the
                      values that belong to each path
    [targets]         path without symbolic links, by path
    [commands]        output by command line
    [facts.NAME]      fields of a fact. A table of a list stands for several rows if it has `each`, a table with the
                      values that differ: each = { index = [0, 1] }
    [[devices]]       PCI devices of one kind (`Devices`), from which the folders of the kernel are made
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from busbw.doctor.catalog import MACHINE_AREAS, checks_of
from busbw.doctor.cost import Job
from busbw.doctor.examination import examine
from busbw.doctor.model import Machine, Unreadable
from busbw.doctor.model.tree import LATER, Tree, command_key
from busbw.doctor.parts.traits import system_of
from busbw.doctor.result import Result
from busbw.doctor.sources.capture import Capture, Manifest
from busbw.doctor.sources.recording import Recording

MACHINES = Path(__file__).parent / "doctor/machines"
NAMES = tuple(sorted(path.name for path in MACHINES.iterdir()))
"""Names of all machines."""


class Devices(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """PCI devices of one kind. Lists have one value for each device."""

    bus_ids: tuple[str, ...]
    bridges: tuple[str, ...]
    """Path from the host bridge to the device, without it: pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0."""
    numa_nodes: tuple[int, ...]
    vendor: str
    device: str
    pci_class: str
    """GPU 0x030200, Ethernet 0x020000, InfiniBand 0x020700, NVSwitch 0x068000."""
    width: int = 16
    speed: str
    """Such as "32.0 GT/s PCIe"; also that of the bridges."""
    gpu: str | None = None
    """Product name, for GPUs of NVIDIA."""
    names: tuple[str, ...] = ()
    """RDMA devices."""
    interfaces: tuple[str, ...] = ()
    """Network interfaces."""


class _Description(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    source: str | list[str]
    files: dict[str, str] = {}
    targets: dict[str, str] = {}
    commands: dict[str, str] = {}
    facts: dict[str, dict[str, Any]] = {}
    devices: list[Devices] = []


class _TestTree(Capture):
    """Capture in which counters do not grow unless a value for the second reading is given."""

    def read(self, key: str) -> bytes:
        """Returns the content of a file."""
        if key.startswith(LATER) and key not in self.files and key not in self.manifest.unreadable:
            key = key.removeprefix(LATER)
        return super().read(key)


@dataclass(frozen=True)
class Changed:
    """Another tree with another content of one key. To make it is much faster than to copy a machine."""

    tree: Tree
    key: str
    content: bytes

    def read(self, key: str) -> bytes:
        """Returns the content of a file."""
        return self.content if key.removeprefix(LATER) == self.key else self.tree.read(key)

    def names(self, key: str) -> tuple[str, ...]:
        """Returns the names in a folder."""
        return self.tree.names(key)

    def target(self, key: str) -> str:
        """Returns the key without symbolic links."""
        return self.tree.target(key)


@dataclass(frozen=True)
class TestMachine:
    """A machine, which each `with_` and `without` method copies with a change."""

    __test__ = False
    files: dict[str, str]
    targets: dict[str, str]
    facts: dict[str, dict[str, Any]]
    missing: dict[str, str]

    @property
    def machine(self) -> Machine:
        """The machine as checks see it."""
        return Machine(self.tree)

    @cached_property
    def tree(self) -> Capture:
        """The tree that checks read."""
        facts = {f"facts/{name}.json": msgspec.json.encode(value) for name, value in self.facts.items()}
        files = {path: content.encode() for path, content in self.files.items()}
        return _TestTree(files | facts, Manifest(targets=self.targets, unreadable=self.missing))

    def with_file(self, path: str, content: str) -> "TestMachine":
        """Returns the machine with another content of one or several files; `path` may have braces."""
        return replace(self, files=self.files | dict(expanded({path: content})))

    def with_output(self, command: Sequence[str], output: str) -> "TestMachine":
        """Returns the machine with another output of a command."""
        return replace(self, files=self.files | {command_key(tuple(command)): output})

    def with_target(self, path: str, target: str) -> "TestMachine":
        """Returns the machine with another symbolic link."""
        return replace(self, targets=self.targets | {path: target})

    def with_fact(self, name: str, **fields: Any) -> "TestMachine":
        """Returns the machine with other fields of a fact."""
        return replace(self, facts=self.facts | {name: self.facts.get(name, {}) | fields})

    def with_variables(self, **variables: str) -> "TestMachine":
        """Returns the machine with more environment variables."""
        before = self.facts.get("environment", {"variables": {}})["variables"]
        return self.with_fact("environment", variables=before | variables)

    def without(self, path: str) -> "TestMachine":
        """Returns the machine without a file, folder, output ("commands/ethtool -S eth0") or fact ("facts/NAME")."""

        def is_kept(key: str) -> bool:
            return key != path and not key.startswith(f"{path}/")

        return replace(
            self,
            files={key: content for key, content in self.files.items() if is_kept(key)},
            targets={key: target for key, target in self.targets.items() if is_kept(key)},
            facts={name: value for name, value in self.facts.items() if is_kept(f"facts/{name}")},
        )

    def unreadable(self, *keys: str) -> "TestMachine":
        """Returns the machine with keys that only root may read."""
        return replace(self, missing=self.missing | {key: f"permission to read /{key}" for key in keys})

    def examine(self, *names: str) -> Result:
        """Returns the result of these checks of one machine; of all without names."""
        checks = [check for check in checks_of(*MACHINE_AREAS) if not names or check.name in names]
        assert len(checks) >= len(names), f"no check has one of the names {names}"
        return examine(checks, self.machine, Job(system_of(self.machine)), limit_s=60)


@lru_cache
def load(name: str) -> TestMachine:
    """Returns a healthy machine from its folder."""
    files: dict[str, str] = {}
    targets: dict[str, str] = {}
    facts: dict[str, dict[str, Any]] = {}
    for path in sorted((MACHINES / name).glob("*.toml")):
        part = msgspec.toml.decode(path.read_bytes(), type=_Description)
        for devices in part.devices:
            _add_devices(devices, files, targets)
        files |= dict(expanded(part.files))
        targets |= dict(expanded(part.targets))
        files |= {command_key(tuple(line.split())): output for line, output in expanded(part.commands)}
        for name, fields in part.facts.items():
            rows = {field: _rows(value) for field, value in fields.items()}
            facts[name] = _merged(facts.get(name, {}), rows)
    return TestMachine(files, targets, facts, {})


def _merged(fields: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields of a fact from two files of a machine. The variables of the environment are merged as well."""
    both = {name: fields[name] | more[name] for name in fields.keys() & more.keys() if isinstance(more[name], dict)}
    return fields | more | both


def assert_only(machine: TestMachine, check: str, *, subject: str | None = None, severity: str | None = None) -> None:
    """Asserts that of all checks only this one has a finding, and exactly one."""
    result = machine.examine()
    assert [finding.check for finding in result.findings] == [check], result.findings
    if subject is not None:
        assert result.findings[0].subject == subject
    if severity is not None:
        assert result.findings[0].severity == severity


def expanded(texts: dict[str, str]) -> Iterable[tuple[str, str]]:
    """Yields each path that a path with braces stands for, with the content for it.

    Braces in the content have as many values as those of the path together, or stand for themselves.
    """
    for path, content in texts.items():
        paths = _expand(path)
        contents = _expand(content) if len(paths) > 1 else [content]
        if len(contents) != len(paths):
            contents = [content] * len(paths)
        yield from zip(paths, contents, strict=True)


def _expand(text: str) -> list[str]:
    parts = re.split(r"\{([^{}\n]*(?:\.\.|,)[^{}\n]*)\}", text)
    choices = [[part] if index % 2 == 0 else _values(part) for index, part in enumerate(parts)]
    return ["".join(values) for values in product(*choices)]


def _values(braces: str) -> list[str]:
    if match := re.fullmatch(r"(\d+)\.\.(\d+)", braces):
        return [str(number) for number in range(int(match[1]), int(match[2]) + 1)]
    return braces.split(",")


def _rows(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    rows: list[Any] = []
    for row in value:
        differing = row["each"] if isinstance(row, dict) and "each" in row else {}
        common = {name: field for name, field in row.items() if name != "each"} if differing else row
        values = [dict(zip(differing, each, strict=True)) for each in zip(*differing.values(), strict=True)]
        rows += [common | each for each in values] if differing else [common]
    return rows


def _add_devices(devices: Devices, files: dict[str, str], targets: dict[str, str]) -> None:
    for index, bus_id in enumerate(devices.bus_ids):
        chain = devices.bridges[index].split("/")
        for depth in range(1, len(chain)):
            _add_pci(chain[: depth + 1], "0x8086", "0x0000", "0x060400", devices, index, files, targets)
        _add_pci([*chain, bus_id], devices.vendor, devices.device, devices.pci_class, devices, index, files, targets)
        folder = f"sys/devices/{'/'.join([*chain, bus_id])}"
        if devices.gpu is not None:
            files[f"proc/driver/nvidia/gpus/{bus_id}/information"] = f"Model: \t\t {devices.gpu}"
        for kind, names in (("infiniband", devices.names), ("net", devices.interfaces)):
            if names:
                targets[f"sys/class/{kind}/{names[index]}"] = f"{folder}/{kind}/{names[index]}"
                targets[f"sys/class/{kind}/{names[index]}/device"] = folder


def _add_pci(
    chain: list[str],
    vendor: str,
    device: str,
    pci_class: str,
    devices: Devices,
    index: int,
    files: dict[str, str],
    targets: dict[str, str],
) -> None:
    folder = f"sys/bus/pci/devices/{chain[-1]}"
    targets[folder] = f"sys/devices/{'/'.join(chain)}"
    values = {
        "vendor": vendor,
        "device": device,
        "class": pci_class,
        "numa_node": str(devices.numa_nodes[index]),
        "current_link_width": str(devices.width),
        "max_link_width": str(devices.width),
        "current_link_speed": devices.speed,
        "max_link_speed": devices.speed,
    }
    files |= {f"{folder}/{name}": value for name, value in values.items()}


def keys_read(machine: TestMachine, check: str) -> tuple[str, ...]:
    """Returns the keys of files, outputs and facts that exist and that a check reads."""
    recording = Recording(machine.tree)
    checks = [each for each in checks_of(*MACHINE_AREAS) if each.name == check]
    examine(checks, Machine(recording), Job(), limit_s=60)
    outcomes = {**recording.folders, **recording.files}
    return tuple(key for key, outcome in outcomes.items() if not isinstance(outcome, Unreadable))
