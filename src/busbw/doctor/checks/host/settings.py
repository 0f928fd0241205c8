"""Checks of settings.toml: values of files and facts that one bound or one pattern decides on."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from importlib.resources import files
from typing import Literal

import msgspec
from msgspec import Struct

from busbw.doctor.facts.filesystems import Filesystems
from busbw.doctor.facts.limits import Limits
from busbw.doctor.model.check import Check, Evidence, Finding, NotApplicable, Severity, Unreadable
from busbw.doctor.model.machine import Absent, Fact, Machine, shown
from busbw.doctor.parts.pci import gpus, rdma_devices
from busbw.doctor.parts.platform import is_arm
from busbw.topology.cpu_ranges import parse_ranges
from busbw.units import number_text

_FACTS: dict[str, type[Fact]] = {"limits": Limits, "filesystems": Filesystems}
_CONDITIONS: dict[str, Callable[[Machine], bool]] = {
    "": lambda _: True,
    "gpus": lambda machine: bool(gpus(machine)),
    "several gpus": lambda machine: len(gpus(machine)) > 1,
    "gpus on ARM": lambda machine: is_arm(machine) and bool(gpus(machine)),
    "gpus without RDMA": lambda machine: bool(gpus(machine)) and not rdma_devices(machine),
    "gpus on several NUMA nodes": lambda machine: (
        bool(gpus(machine)) and len(parse_ranges(machine.text("sys/devices/system/node/online")) or ()) > 1
    ),
}


class _Setting(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    name: str
    values: tuple[str, ...]
    """Files, or fields of facts such as limits.stack_bytes."""
    shown: str = ""
    """Command that shows a fact."""
    applies: str = ""
    """Condition of the machine, a key of `_CONDITIONS`."""
    optional: bool = False
    """True if a kernel or system may lack the file."""
    pattern: str = r"(\d+(?:\.\d+)?)"
    """Regular expression of the number. With two groups, the number is the count of integers between them."""
    per_cpu: bool = False
    min: float | None = None
    max: float | None = None
    forbidden: str | None = None
    """Regular expression of bad content, instead of bounds."""
    severity: Severity
    problem: str
    """With {value}."""
    rule: str
    source: str
    cost: str
    fix: str


def _examine(setting: _Setting, machine: Machine) -> Iterator[Finding]:
    if not _CONDITIONS[setting.applies](machine):
        raise NotApplicable(f"it applies to {setting.applies}")
    for value in setting.values:
        try:
            text = _text(machine, value)
        except Absent as error:
            if setting.optional:
                raise NotApplicable(f"no {value}") from error
            raise
        is_bad, value_text = _judge(setting, machine, text)
        if is_bad:
            yield Finding(
                severity=setting.severity,
                problem=setting.problem.format(value=value_text),
                evidence=(Evidence(source=setting.shown or shown(value), value=text.partition("\n")[0]),),
            )


def _text(machine: Machine, value: str) -> str:
    if "/" in value:
        return machine.word(value)
    fact, _, name = value.partition(".")
    number = getattr(machine.fact(_FACTS[fact]), name)
    return "unlimited" if number is None else str(number)


def _judge(setting: _Setting, machine: Machine, text: str) -> tuple[bool, str]:
    """Returns True for a bad value, and the value as text."""
    if setting.forbidden is not None:
        return bool(re.search(setting.forbidden, text)), text
    match = re.search(setting.pattern, text)
    if match is None and text != "unlimited":
        raise Unreadable(f"number in {setting.shown or shown(setting.values[0])}")
    numbers = [float(group[:20]) for group in match.groups()] if match else [float("inf")]
    number = numbers[0] if len(numbers) == 1 else numbers[1] - numbers[0] + 1
    if setting.per_cpu:
        number /= len(parse_ranges(machine.text("sys/devices/system/cpu/online")) or ())
    is_low, is_high = number < (setting.min or 0.0), setting.max is not None and number > setting.max
    return is_low or is_high, number_text(number)


def _check(setting: _Setting) -> Check[Machine]:
    return Check(
        name=setting.name,
        area="host",
        reads=setting.shown or ", ".join(map(shown, setting.values)),
        rule=setting.rule,
        source=setting.source,
        cost=setting.cost,
        fix=setting.fix,
        examine=partial(_examine, setting),
    )


_SETTINGS = msgspec.toml.decode(
    (files(__package__) / "settings.toml").read_bytes(), type=dict[Literal["setting"], tuple[_Setting, ...]]
)
CHECKS = tuple(map(_check, _SETTINGS["setting"]))
