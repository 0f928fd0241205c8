"""Plugins of NCCL that variables name."""

import re
from collections.abc import Iterator
from functools import partial

from busbw.doctor.checks.libraries.nccl_library import installed_nccl
from busbw.doctor.facts.libraries import Libraries
from busbw.doctor.model import Absent, Check, Finding, Machine
from busbw.doctor.parts.nccl_settings import read_settings


def _examine(kind: str, variables: tuple[str, ...], machine: Machine) -> Iterator[Finding]:
    installed_nccl(machine)
    settings = read_settings(machine)
    names = {each.name for each in machine.fact(Libraries).libraries}
    for variable in variables:
        setting = settings.get(variable)
        for word in setting.value.split(",") if setting else ():
            is_path = "/" in word or variable.endswith("FILE")
            # The fact lists no libraries with other names.
            is_listed = re.fullmatch(r"libnccl-.*\.so|(?!none$|static_plugin$|lib)[\w-]+", word, re.IGNORECASE)
            is_present = _exists(machine, word) if is_path else bool({word, f"libnccl-{kind}-{word}.so"} & names)
            if setting and (is_path or is_listed) and not is_present:
                problem = f"{variable} names {word}, which does not exist in the search path"
                yield Finding("risk", problem, (setting.evidence,), subject=variable)


def _exists(machine: Machine, path: str) -> bool:
    try:
        machine.target(path.lstrip("/"))
    except Absent:
        return False
    return True


def _check(kind: str, *variables: str, cost: str) -> Check[Machine]:
    return Check(
        name=f"{kind}-plugin",
        area="libraries",
        reads=f"{', '.join(variables)}; libnccl-{kind}*.so in the search path of the dynamic linker",
        rule=f"The files that {' and '.join(variables)} name exist.",
        source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
        cost=cost,
        fix=f"add the plugin's folder to LD_LIBRARY_PATH, or unset {variables[0]}",
        examine=partial(_examine, kind, variables),
    )


CHECKS = (
    _check(
        "net",
        "NCCL_NET_PLUGIN",
        cost="NCCL falls back to its own network, which is TCP sockets if the NICs have no verbs.",
    ),
    _check(
        "tuner",
        "NCCL_TUNER_PLUGIN",
        "NCCL_TUNER_CONFIG_FILE",
        cost="NCCL chooses algorithms itself; nodes that differ in this hang.",
    ),
)
