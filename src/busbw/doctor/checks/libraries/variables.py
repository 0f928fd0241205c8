"""Checks for variables that NCCL does not use as intended: unknown, obsolete, contradictory, or not a number."""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from busbw.doctor.checks.libraries.harmful_variables import DOCUMENTATION
from busbw.doctor.checks.libraries.nccl_library import installed_nccl
from busbw.doctor.facts.libraries import Libraries
from busbw.doctor.facts.process import UserConfiguration
from busbw.doctor.model import Evidence, Finding, Machine, Unreadable, check
from busbw.doctor.parts.nccl_settings import Setting, configuration_lines, is_name, read_settings
from busbw.doctor.parts.value_patterns import matches
from busbw.support.near_misses import near_misses

_MIN_SIMILARITY = 0.88
"""Similarity of a misspelled name to the right one. A less similar name may be a variable of a site, and is ignored."""
_OTHER_PROGRAMS = re.compile(
    r"NCCL_(?:(?:FASTRAK|GIB|GPUDIRECTTCPX|IBEXT|INSPECTOR|LLCM|PLUGIN|PROFILER?|SHARP|SHIMNET|TESTS|TUNER)_.*"
    "|ASYNC_ERROR_HANDLING|BLOCKING_WAIT|DESYNC_DEBUG|ENABLE_TIMING|USE_TENSOR_REGISTER_ALLOCATOR_HOOK|TIMEOUT)"
)
"""Variables of plugins and tools, and of PyTorch."""
_TEXT_VARIABLES = re.compile(
    r"NCCL_(?:ALGO|CHECK_MODE|COMM_ID|DEBUG|DEBUG_SUBSYS|DEBUG_TIMESTAMP_(?:FORMAT|LEVELS)|HOSTID|IBVERBS_LIB|IB_HCA"
    "|IB_ADDR_(?:FAMILY|RANGE)|LAUNCH_MODE|NET|NETDEVS_POLICY|NET_FORCE_MERGE|NET_MERGE_(?:LEVEL|POLICY)|PROTO"
    "|PROXY_CPUSET|RAS_ADDR|SOCKET_FAMILY|SYM_KERNEL|THREAD_THRESHOLDS|.*_(?:FILE|IFNAME|PLUGIN))"
)
"""Variables with a value that NCCL does not read as a number."""
_INTENDED_NUMBER = re.compile(r"true|false|yes|no|on|off|(\d+) ?[KMG](?:i?B)?", re.IGNORECASE)
"""Values that users mean as a number, but that NCCL cannot read as the intended number."""


class _Contradiction(Struct, array_like=True, frozen=True):
    """Row of variables.toml."""

    first: str
    first_values: str
    second: str
    second_values: str
    effect: str


class _Table(Struct, frozen=True):
    """Tables of variables.toml that this module uses."""

    contradictory: tuple[_Contradiction, ...]
    obsolete: dict[str, str]


_READS = "variables in the environment and in NCCL's configuration files"
_TABLE = msgspec.toml.decode(Path(__file__).with_name("variables.toml").read_bytes(), type=_Table)


def _finding(setting: Setting, problem: str, *related: Setting, fix: str | None = None) -> Finding:
    """Returns a finding about a setting. The evidence also has the related settings."""
    return Finding(
        "risk",
        problem,
        (setting.evidence, *(other.evidence for other in related)),
        subject=setting.name,
        fix=fix or setting.fix,
    )


@check(
    reads=_READS,
    rule="NCCL or a plugin of NCCL knows each variable with the prefix NCCL_ or OFI_NCCL_.",
    source=DOCUMENTATION,
    cost="The library ignores the variable silently, so the job runs with the default.",
    fix="correct the name",
)
def env_unknown(machine: Machine) -> Iterator[Finding]:
    nccl = installed_nccl(machine)[0]
    known = machine.fact(Libraries).variables
    if known is None:
        raise Unreadable(f"names of variables in {nccl.path}")
    for name, setting in read_settings(machine).items():
        is_checked = name.startswith(("NCCL_", "OFI_NCCL_")) and not _OTHER_PROGRAMS.fullmatch(name)
        if is_checked and name not in known and name not in _TABLE.obsolete:
            # Variables of the OFI plugin are unknown if only jobs load the plugin. A similar name of NCCL would then be
            # a wrong suggestion.
            is_ofi = name.startswith("OFI_")
            names = [known_name for known_name in known if known_name.startswith("OFI_") is is_ofi]
            for near in near_misses(name, names, min_similarity=_MIN_SIMILARITY)[:1]:
                problem = f"no library knows the variable {name}; the nearest name is {near}"
                yield _finding(setting, problem, fix=f"rename {name} to {near}, or {setting.fix}")


@check(
    reads=_READS,
    rule="No numeric variable of NCCL has a word such as true, or a number with a unit such as 8M.",
    source=DOCUMENTATION,
    cost="NCCL reads the leading digits, and 0 for words.",
    fix="set the variable to a number",
)
def env_not_number(machine: Machine) -> Iterator[Finding]:
    for name, setting in read_settings(machine).items():
        match = _INTENDED_NUMBER.fullmatch(setting.value)
        is_other = _OTHER_PROGRAMS.fullmatch(name) or _TEXT_VARIABLES.fullmatch(name)
        if match and name.startswith("NCCL_") and not is_other:
            problem = f"{setting.text} is no number; NCCL takes it for {match[1] or 0}"
            yield _finding(setting, problem, fix=f"set {name} to a number, or {setting.fix}")


@check(
    reads=_READS,
    rule="No variable is set that NCCL no longer has.",
    source=DOCUMENTATION,
    cost="The variable has no effect, so the job runs with the default.",
    fix="unset the variable",
)
def env_obsolete(machine: Machine) -> Iterator[Finding]:
    for name, setting in read_settings(machine).items():
        if name in _TABLE.obsolete:
            yield _finding(setting, f"{name} has no effect: {_TABLE.obsolete[name]}")


@check(
    reads=_READS,
    rule="No setting disables what another setting demands.",
    source=DOCUMENTATION,
    cost="NCCL ignores one of the settings, or fails.",
    fix="remove one of the settings",
)
def env_contradictory(machine: Machine) -> Iterator[Finding]:
    settings = read_settings(machine)
    for row in _TABLE.contradictory:
        first, second = settings.get(row.first), settings.get(row.second)
        if first and second and matches(first.value, row.first_values) and matches(second.value, row.second_values):
            yield _finding(first, f"{first.text} contradicts {second.text}: {row.effect}", second)


@check(
    reads="/etc/nccl.conf; ~/.nccl.conf, or the file that NCCL_CONF_FILE names",
    rule="Each line of NCCL's configuration files sets a variable.",
    source=DOCUMENTATION,
    cost="Jobs run without the settings of the file.",
    fix="correct the file",
)
def hidden_nccl_conf(machine: Machine) -> Iterator[Finding]:
    named = read_settings(machine).get("NCCL_CONF_FILE")
    if named and machine.fact(UserConfiguration).lines is None:
        yield _finding(named, f"{named.text} does not exist")
    for path, line in configuration_lines(machine):
        name, equals, _ = line.partition("=")
        if not equals or not is_name(name):
            yield Finding(
                "risk",
                f'NCCL ignores the line "{line[:80]}" of {path}',
                (Evidence(path, line[:80]),),
                fix=f"write NAME=value without blanks and without export in {path}",
            )
