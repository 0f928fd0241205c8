"""Plugins of NCCL: those that variables name, and the one that EFA needs."""

from collections.abc import Iterator
from functools import partial

from busbw.doctor.checks.libraries.nccl_which import installed_nccl
from busbw.doctor.facts.libraries import NET_PLUGINS, Libraries
from busbw.doctor.model.check import Check, Evidence, Finding, NotApplicable, Unreadable
from busbw.doctor.model.machine import Absent, Machine
from busbw.doctor.parts.nccl_settings import Setting, read_settings
from busbw.doctor.parts.traits import has_traits
from busbw.doctor.parts.versions import parse_version

_FOLDERS = tuple(
    f"opt/{root}/lib{folder}"
    for root in ("amazon/ofi-nccl", "aws-ofi-nccl")
    for folder in ("", "64", "/x86_64-linux-gnu", "/aarch64-linux-gnu")
)
"""Folders of Amazon's installer. Jobs often add them to LD_LIBRARY_PATH themselves."""
_MIN_VERSION = "1.7.2"


def _examine_named(kind: str, machine: Machine) -> Iterator[Finding]:
    installed_nccl(machine)
    settings = read_settings(machine)
    variable, file = f"NCCL_{kind.upper()}_PLUGIN", f"NCCL_{kind.upper()}_CONFIG_FILE"
    libraries = machine.fact(Libraries).libraries
    names = {each.name for each in libraries}
    for setting in (settings[name] for name in (variable, file) if name in settings):
        for word in setting.value.split(","):
            is_path = "/" in word or setting.name == file
            is_found = _exists(machine, word) if is_path else bool({word, f"libnccl-{kind}-{word}.so"} & names)
            if word.lower() != "none" and not is_found:
                yield _absent(setting, word)


def _absent(setting: Setting, word: str) -> Finding:
    problem = f"{setting.name} names {word}, which the dynamic linker does not find"
    return Finding(severity="risk", subject=setting.name, problem=problem, evidence=(setting.evidence,))


def _exists(machine: Machine, path: str) -> bool:
    try:
        machine.target(path.lstrip("/"))
    except Absent:
        return False
    return True


def _examine_efa(machine: Machine) -> Iterator[Finding]:
    nccl = installed_nccl(machine)
    if not has_traits(machine, "EFA"):
        raise NotApplicable("no EFA device")
    if machine.fact(Libraries).find(NET_PLUGINS) or any(map(machine.names_or_none, _FOLDERS)):
        return
    yield Finding(
        severity="slow",
        problem="EFA devices are present, but NCCL finds no libnccl-net.so of aws-ofi-nccl",
        evidence=(Evidence(source="ldconfig -p and LD_LIBRARY_PATH", value=f"{nccl[0].path}, but no {NET_PLUGINS}"),),
    )


def _examine_version(machine: Machine) -> Iterator[Finding]:
    installed_nccl(machine)
    plugins = machine.fact(Libraries).find(NET_PLUGINS)
    if not plugins or not has_traits(machine, "EFA, NVLS"):
        raise NotApplicable("no plugin, or no EFA with Hopper or later")
    if plugins[0].version is None:
        raise Unreadable(f"the version of {plugins[0].path}")
    if parse_version(plugins[0].version) < parse_version(_MIN_VERSION):
        yield Finding(
            severity="slow",
            problem=f"aws-ofi-nccl is {plugins[0].version}; this machine needs {_MIN_VERSION} or later",
            evidence=(Evidence(source=plugins[0].path, value=plugins[0].version),),
        )


def _named(kind: str, cost: str) -> Check[Machine]:
    variable = f"NCCL_{kind.upper()}_PLUGIN"
    return Check(
        name=f"{kind}-plugin",
        area="libraries",
        reads=f"{variable}; libnccl-{kind}*.so in the search path of the dynamic linker",
        rule=f"The libraries that {variable} names exist.",
        source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
        cost=cost,
        fix=f"add the plugin's folder to LD_LIBRARY_PATH, or unset {variable}",
        examine=partial(_examine_named, kind),
    )


CHECKS = (
    _named("net", "NCCL falls back to its own network, which is TCP sockets where verbs are not available."),
    _named("tuner", "NCCL chooses algorithms itself; nodes that differ in this hang."),
    Check(
        name="efa-plugin",
        area="libraries",
        reads="EFA devices; libnccl-net*.so in the search path of the dynamic linker and in Amazon's folders",
        rule="A machine with EFA and NCCL has aws-ofi-nccl.",
        source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start-nccl.html",
        cost="NCCL uses TCP sockets between nodes, not EFA.",
        fix="install aws-ofi-nccl with the EFA installer, and add /opt/amazon/ofi-nccl/lib to LD_LIBRARY_PATH",
        examine=_examine_efa,
    ),
    Check(
        name="ofi-version",
        area="libraries",
        reads="version in the content of libnccl-net*.so",
        rule=f"On machines with EFA and Hopper or later GPUs, aws-ofi-nccl is {_MIN_VERSION} or later.",
        source="aws/aws-ofi-nccl",
        cost="The plugin does not stripe messages over the NICs of a GPU.",
        fix="install the current EFA installer",
        examine=_examine_version,
    ),
)
