"""NCCL library that programs load, known defects of its version, and its plugins."""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from busbw.doctor.checks.libraries.harmful_variables import DOCUMENTATION
from busbw.doctor.facts.libraries import NCCL, Libraries, Library
from busbw.doctor.model import Evidence, Finding, Machine, Severity, Unreadable, check, require
from busbw.doctor.parts.gpus import require_gpus
from busbw.doctor.parts.nccl_settings import read_settings
from busbw.doctor.parts.traits import has_traits


class _Defect(Struct, array_like=True, frozen=True):
    """Row of nccl_defects.toml, which explains the columns."""

    first_version: str
    fixed_version: str
    traits: str
    preventing_variable: str
    severity: Severity
    effect: str
    fix: str
    source: str


_LISTED_FILE = re.compile(r"libnccl-.*\.so", re.IGNORECASE)
"""File name of a plugin that the fact `Libraries` lists if it exists."""
_SHORT_NAME = re.compile(r"(?!none$|static_plugin$|lib)[\w-]+", re.IGNORECASE)
"""Short name of such a plugin, such as ofi for libnccl-net-ofi.so. NONE and STATIC_PLUGIN name no file."""
_DEFECTS = msgspec.toml.decode(
    Path(__file__).with_name("nccl_defects.toml").read_bytes(), type=dict[str, tuple[_Defect, ...]]
)["defects"]


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def installed_nccl(machine: Machine) -> tuple[Library, ...]:
    """Returns the NCCL libraries. Programs load the first one. Raises NotApplicable if none is installed."""
    require_gpus(machine)
    libraries = machine.fact(Libraries).find(NCCL)
    require(libraries, "no NCCL library is installed")
    return libraries


def _evidence(library: Library) -> Evidence:
    return Evidence(f"{library.path} ({library.origin})", library.version or "unknown version")


@check(
    reads="LD_PRELOAD, LD_LIBRARY_PATH, the wheel of NCCL, ldconfig -p; the libraries' content",
    rule="No variable puts another version of NCCL in front of the installed one.",
    source="verl-project/verl#6621",
    cost="A job may run an older NCCL than its user thinks, with that version's defects and speed.",
    fix="remove the library that is not wanted from LD_PRELOAD and LD_LIBRARY_PATH",
)
def nccl_which(machine: Machine) -> Iterator[Finding]:
    first, *others = installed_nccl(machine)
    different = [
        library for library in others if library.version and first.version and library.version != first.version
    ]
    if different and first.origin.startswith("LD_"):
        texts = [f"{library.version} by {library.origin}" for library in (first, *different)]
        problem = f"programs load different versions of NCCL: {', '.join(texts)}"
        yield Finding("risk", problem, tuple(map(_evidence, (first, *different))))


@check(
    reads="version of the NCCL library; GPUs, RDMA devices and variables that a defect needs",
    rule="No release with a known defect is loaded on a machine that meets the defect's condition.",
    source="https://docs.nvidia.com/deeplearning/nccl/release-notes/",
    cost="Collectives hang, crash or are slow; each finding states the effect.",
    fix="update NCCL",
)
def nccl_known_defect(machine: Machine) -> Iterator[Finding]:
    library = installed_nccl(machine)[0]
    version = library.version or ""
    if not re.fullmatch(r"\d{1,9}(\.\d{1,9})*", version):
        raise Unreadable(f"the version of {library.path}")
    settings = read_settings(machine)
    for defect in _DEFECTS:
        has_defect = _numbers(defect.first_version) <= _numbers(version) < _numbers(defect.fixed_version)
        is_prevented = defect.preventing_variable in settings
        if has_defect and not is_prevented and has_traits(machine, defect.traits):
            problem = f"NCCL {version} {defect.effect} ({defect.source})"
            yield Finding(defect.severity, problem, (Evidence(library.path, version),), fix=defect.fix)


def _missing_plugins(machine: Machine, kind: str, *variables: str) -> Iterator[Finding]:
    """Yields the plugins and files that the variables name and that do not exist. `kind`: net or tuner."""
    installed_nccl(machine)  # raises NotApplicable
    settings = read_settings(machine)
    for setting in [settings[variable] for variable in variables if variable in settings]:
        for word in setting.value.split(","):
            is_path = "/" in word or setting.name.endswith("FILE")
            is_present = machine.has(word.lstrip("/")) if is_path else _may_be_installed(machine, kind, word)
            if not is_present:
                problem = f"{setting.name} names {word}, which does not exist in the search path"
                yield Finding("risk", problem, (setting.evidence,), subject=setting.name)


def _may_be_installed(machine: Machine, kind: str, plugin: str) -> bool:
    if not _LISTED_FILE.fullmatch(plugin) and not _SHORT_NAME.fullmatch(plugin):
        return True  # the fact does not list a file with another name, such as libmine.so
    installed = {library.name for library in machine.fact(Libraries).libraries}
    return plugin in installed or f"libnccl-{kind}-{plugin}.so" in installed


@check(
    reads="NCCL_NET_PLUGIN; libnccl-net*.so in the search path of the dynamic linker",
    rule="The files that NCCL_NET_PLUGIN names exist.",
    source=DOCUMENTATION,
    cost="NCCL falls back to its own network, which is TCP sockets if the NICs have no verbs.",
    fix="add the plugin's folder to LD_LIBRARY_PATH, or unset NCCL_NET_PLUGIN",
)
def net_plugin(machine: Machine) -> Iterator[Finding]:
    yield from _missing_plugins(machine, "net", "NCCL_NET_PLUGIN")


@check(
    reads="NCCL_TUNER_PLUGIN, NCCL_TUNER_CONFIG_FILE; libnccl-tuner*.so in the search path of the dynamic linker",
    rule="The files that NCCL_TUNER_PLUGIN and NCCL_TUNER_CONFIG_FILE name exist.",
    source=DOCUMENTATION,
    cost="NCCL chooses algorithms itself. If only some nodes lack the file, the job hangs.",
    fix="add the plugin's folder to LD_LIBRARY_PATH, or unset NCCL_TUNER_PLUGIN",
)
def tuner_plugin(machine: Machine) -> Iterator[Finding]:
    yield from _missing_plugins(machine, "tuner", "NCCL_TUNER_PLUGIN", "NCCL_TUNER_CONFIG_FILE")
