"""Checks of settings.toml: values of files and facts that one bound or one pattern decides on."""

import re
from collections.abc import Callable, Iterator
from importlib.resources import files
from typing import Literal

import msgspec
from msgspec import Struct

from busbw.doctor.facts.filesystems import Filesystems
from busbw.doctor.facts.limits import Limits
from busbw.doctor.model.check import Check, Evidence, Finding, NotApplicable, Severity, Unreadable
from busbw.doctor.model.machine import Fact, Machine, shown
from busbw.doctor.parts.counters import growths
from busbw.doctor.parts.pci import gpus, rdma_devices
from busbw.topology.cpu_ranges import parse_ranges
from busbw.units import number_text

_FACTS: dict[str, type[Fact]] = {"limits": Limits, "filesystems": Filesystems}
_UNLIMITED = "unlimited"
_CONDITIONS: dict[str, Callable[[Machine], bool]] = {
    "all machines": lambda _: True,
    "GPUs": lambda machine: bool(gpus(machine)),
    "several GPUs": lambda machine: len(gpus(machine)) > 1,
    "GPUs without RDMA": lambda machine: bool(gpus(machine)) and not rdma_devices(machine),
    "GPUs and several NUMA nodes": lambda machine: (
        bool(gpus(machine)) and len(parse_ranges(machine.text("sys/devices/system/node/online")) or ()) > 1
    ),
}


class _Setting(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    name: str
    values: tuple[str, ...]
    """Files, with * for any name, or fields of facts such as limits.max_open_files."""
    shown: str = ""
    """Command that shows a fact."""
    applies: str = "all machines"
    """Key of `_CONDITIONS`."""
    optional: bool = False
    """True if a kernel or system may lack the file."""
    pattern: str = r"(\d+(?:\.\d+)?)"
    """Regular expression of the number. With two groups, the number is the count of integers between them."""
    per_cpu: bool = False
    growth: bool = False
    """True if the growth of the number within a second matters."""
    min: float = 0.0
    max: float = float("inf")
    forbidden: str | None = None
    """Regular expression of bad content, instead of bounds."""
    severity: Severity
    problem: str
    """With {value}."""
    rule: str
    source: str
    cost: str
    fix: str

    def examine(self, machine: Machine) -> Iterator[Finding]:
        """Yields a finding for each bad value."""
        if not _CONDITIONS[self.applies](machine):
            raise NotApplicable(f"it concerns {self.applies}")
        texts = self._texts(machine)
        if not texts:
            raise NotApplicable(f"no {self.values[0]}")
        for source, text in texts.items():
            number = None if self.forbidden else self._number(machine, text)
            is_bad = re.search(self.forbidden, text) if self.forbidden else not self.min <= (number or 0.0) <= self.max
            if is_bad:
                value = text if number is None else number_text(number)
                evidence = Evidence(source=source, value=text.partition("\n")[0])
                yield Finding(severity=self.severity, problem=self.problem.format(value=value), evidence=(evidence,))

    def _texts(self, machine: Machine) -> dict[str, str]:
        """Returns the values as text, by their source for users."""
        if "/" not in self.values[0]:
            fact, _, name = self.values[0].partition(".")
            value = getattr(machine.fact(_FACTS[fact]), name)
            return {self.shown: _UNLIMITED if value is None else str(value)}
        paths: list[str] = []
        for value in self.values:
            folder, star, rest = value.partition("*")
            names = machine.names_or_none(folder.rstrip("/")) if star else ("",)
            paths += [path for name in names if machine.has(path := f"{folder}{name}{rest}") or not self.optional]
        if self.growth:
            return {shown(path): str(growth) for path, growth in growths(machine, paths).items()}
        return {shown(path): machine.word(path) for path in paths}

    def _number(self, machine: Machine, text: str) -> float:
        if text == _UNLIMITED:
            return float("inf")
        match = re.search(self.pattern, text)
        if match is None:
            raise Unreadable(f"a number in {self.shown or shown(self.values[0])}")
        first, *others = (float(group[:20]) for group in match.groups())
        number = others[0] - first + 1 if others else first
        cpus = len(parse_ranges(machine.text("sys/devices/system/cpu/online")) or ()) if self.per_cpu else 1
        return number / cpus


def _check(setting: _Setting) -> Check[Machine]:
    texts = {name: getattr(setting, name) for name in ("name", "rule", "source", "cost", "fix", "examine")}
    return Check(area="host", reads=setting.shown or ", ".join(map(shown, setting.values)), **texts)


_SETTINGS = msgspec.toml.decode(
    (files(__package__) / "settings.toml").read_bytes(), type=dict[Literal["setting"], tuple[_Setting, ...]]
)
CHECKS = tuple(map(_check, _SETTINGS["setting"]))
