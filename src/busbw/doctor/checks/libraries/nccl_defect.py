"""Known defects of the NCCL that programs load, on machines that meet the defect's condition."""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from busbw.doctor.checks.libraries.nccl_which import installed_nccl
from busbw.doctor.model.check import Check, Evidence, Finding, Severity, Unreadable
from busbw.doctor.model.machine import Machine
from busbw.doctor.parts.nccl_settings import Setting, is_value, read_settings
from busbw.doctor.parts.traits import has_traits


class _Defect(Struct, array_like=True, frozen=True):
    """Row of nccl_defects.toml."""

    since: str
    before: str
    traits: str
    settings: tuple[str, ...]
    severity: Severity
    effect: str
    fix: str
    source: str


_DEFECTS = msgspec.toml.decode(
    Path(__file__).with_name("nccl_defects.toml").read_bytes(), type=dict[str, tuple[_Defect, ...]]
)["defects"]


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def _is_met(condition: str, settings: dict[str, Setting]) -> bool:
    if condition.startswith("!"):
        return condition[1:] not in settings
    name, _, values = condition.partition("=")
    return name in settings and is_value(settings[name].value, values)


def _examine(machine: Machine) -> Iterator[Finding]:
    library = installed_nccl(machine)[0]
    version = library.version or ""
    if not re.fullmatch(r"\d{1,9}(\.\d{1,9})*", version):
        raise Unreadable(f"the version of {library.path}")
    settings = read_settings(machine)
    for defect in _DEFECTS:
        if (
            _numbers(defect.since) <= _numbers(version) < _numbers(defect.before)
            and all(_is_met(condition, settings) for condition in defect.settings)
            and has_traits(machine, defect.traits)
        ):
            yield Finding(
                severity=defect.severity,
                problem=f"NCCL {version} {defect.effect} ({defect.source})",
                evidence=(Evidence(source=library.path, value=version),),
                fix=defect.fix,
            )


CHECK = Check(
    name="nccl-known-defect",
    area="libraries",
    reads="version of the NCCL library; GPUs, RDMA devices and variables that a defect needs",
    rule="No release with a known defect is loaded on a machine that meets the defect's condition.",
    source="https://docs.nvidia.com/deeplearning/nccl/release-notes/",
    cost="Collectives hang, crash or are slow; each finding states the effect.",
    fix="update NCCL",
    examine=_examine,
)
