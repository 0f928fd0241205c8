"""Variables that do not do what their user wants: unknown, without effect, contradictory, or not a number."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from busbw.doctor.checks.libraries.harmful_variables import DOCUMENTATION
from busbw.doctor.facts.libraries import Libraries
from busbw.doctor.model.check import Check, Finding, Unreadable
from busbw.doctor.model.machine import Machine
from busbw.doctor.parts.nccl_settings import Setting, is_value, read_settings
from busbw.near_misses import near_misses

_MIN_SIMILARITY = 0.88
"""Similarity of a misspelled name to the right one. Names of sites that resemble no name of NCCL are ignored."""
_NUMBER = re.compile(r"\s*[+-]?(?:0[xX][0-9a-fA-F]+|[0-9]+)\s*")


class _Names(Struct, frozen=True):
    """Content of known_variables.toml."""

    families: str
    numbers: str
    texts: str
    torch: str


class _Contradiction(Struct, array_like=True, frozen=True):
    """Row of variables.toml."""

    first: str
    first_values: str
    second: str
    second_values: str
    effect: str


class _Table(Struct, frozen=True):
    """Tables of variables.toml for this module."""

    contradictory: tuple[_Contradiction, ...]
    obsolete: dict[str, str]
    general: dict[str, tuple[str, str, str]]


_KNOWN = msgspec.toml.decode(Path(__file__).with_name("known_variables.toml").read_bytes(), type=_Names)
_TABLE = msgspec.toml.decode(Path(__file__).with_name("variables.toml").read_bytes(), type=_Table)
_NUMERIC = frozenset(f"NCCL_{name}" for name in _KNOWN.numbers.split())
_NAMES = {
    *_NUMERIC,
    *_TABLE.obsolete,
    *(f"NCCL_{name}" for name in _KNOWN.texts.split()),
    *(f"TORCH_NCCL_{name}" for name in _KNOWN.torch.split()),
}
_FAMILIES = tuple(f"NCCL_{name}" for name in _KNOWN.families.split())


def _finding(setting: Setting, problem: str, *others: Setting, fix: str | None = None) -> Finding:
    return Finding(
        severity="risk",
        subject=setting.name,
        problem=problem,
        evidence=(setting.evidence, *(each.evidence for each in others)),
        fix=fix or setting.fix,
    )


def _examine_unknown(machine: Machine) -> Iterator[Finding]:
    for setting in read_settings(machine).values():
        name = setting.name
        if name in _NAMES or name.startswith(_FAMILIES) or not name.startswith(("NCCL_", "OFI_NCCL_", "TORCH_NCCL_")):
            continue
        variables = machine.fact(Libraries).variables
        near = near_misses(name, _NAMES | set(variables or ()), min_similarity=_MIN_SIMILARITY)
        if near and variables is None:
            raise Unreadable(f"an NCCL library, to decide if {name} is one of its variables")
        if near and variables is not None and name not in variables:
            problem = f"no library knows the variable {name}; the nearest name is {near[0]}"
            yield _finding(setting, problem, fix=f"rename {name} to {near[0]}, or {setting.fix}")


def _examine_numbers(machine: Machine) -> Iterator[Finding]:
    for setting in read_settings(machine).values():
        if setting.name in _NUMERIC and not _NUMBER.fullmatch(setting.value):
            number = re.match(r"\s*[+-]?\d+", setting.value)
            problem = f"{setting.text} is no number; NCCL takes it for {number[0].strip() if number else 0}"
            yield _finding(setting, problem, fix=f"set {setting.name} to a number, or {setting.fix}")


def _examine_obsolete(machine: Machine) -> Iterator[Finding]:
    for setting in read_settings(machine).values():
        if setting.name in _TABLE.obsolete:
            yield _finding(setting, f"{setting.name} has no effect: {_TABLE.obsolete[setting.name]}")


def _examine_contradictions(machine: Machine) -> Iterator[Finding]:
    settings = read_settings(machine)
    for each in _TABLE.contradictory:
        first, second = settings.get(each.first), settings.get(each.second)
        if first and second and is_value(first.value, each.first_values) and is_value(second.value, each.second_values):
            yield _finding(first, f"{first.text} contradicts {second.text}: {each.effect}", second)


_EXAMINE: dict[str, Callable[[Machine], Iterator[Finding]]] = {
    "env-unknown": _examine_unknown,
    "env-not-number": _examine_numbers,
    "env-obsolete": _examine_obsolete,
    "env-contradictory": _examine_contradictions,
}

CHECKS = tuple(
    Check(
        name=name,
        area="libraries",
        reads="variables in the environment and in NCCL's configuration files",
        rule=rule,
        source=DOCUMENTATION,
        cost=cost,
        fix=fix,
        examine=_EXAMINE[name],
    )
    for name, (rule, cost, fix) in _TABLE.general.items()
)
