"""Plugins of NCCL: those that variables name, and the one that EFA needs."""

from collections.abc import Iterator
from functools import partial

from busbw.doctor.checks.libraries.nccl_which import installed_nccl
from busbw.doctor.facts.libraries import NET_PLUGINS, Libraries
from busbw.doctor.model.check import Check, Evidence, Finding, NotApplicable
from busbw.doctor.model.machine import Absent, Machine
from busbw.doctor.parts.nccl_settings import read_settings
from busbw.doctor.parts.traits import has_traits

_FOLDERS = tuple(
    f"opt/{root}/lib{folder}"
    for root in ("amazon/ofi-nccl", "aws-ofi-nccl")
    for folder in ("", "64", "/x86_64-linux-gnu", "/aarch64-linux-gnu")
)
"""Folders of Amazon's installer. Jobs often add them to LD_LIBRARY_PATH themselves."""


def _examine_named(kind: str, machine: Machine) -> Iterator[Finding]:
    installed_nccl(machine)
    settings = read_settings(machine)
    names = {each.name for each in machine.fact(Libraries).libraries}
    for variable in (f"NCCL_{kind.upper()}_PLUGIN", f"NCCL_{kind.upper()}_CONFIG_FILE"):
        setting = settings.get(variable)
        for word in setting.value.split(",") if setting else ():
            is_path = "/" in word or variable.endswith("FILE")
            is_present = _exists(machine, word) if is_path else bool({word, f"libnccl-{kind}-{word}.so"} & names)
            if setting and word.lower() != "none" and not is_present:
                problem = f"{variable} names {word}, which does not exist in the search path"
                yield Finding(severity="risk", subject=variable, problem=problem, evidence=(setting.evidence,))


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
)
