"""NCCL library that programs load: more than one version, or another one than its package or image states."""

import re
from collections.abc import Iterator

from busbw.doctor.facts.environment import Environment
from busbw.doctor.facts.libraries import NCCL, Libraries, Library
from busbw.doctor.model.check import Check, Evidence, Finding, NotApplicable, Unreadable
from busbw.doctor.model.machine import Machine
from busbw.doctor.parts.gpus import require_gpus


def installed_nccl(machine: Machine) -> tuple[Library, ...]:
    """Returns the NCCL libraries, the first one first. Raises NotApplicable if jobs must bring their own."""
    require_gpus(machine)
    libraries = machine.fact(Libraries).find(NCCL)
    if not libraries:
        raise NotApplicable("no NCCL library is installed")
    return libraries


def _evidence(library: Library) -> Evidence:
    return Evidence(source=f"{library.path} ({library.origin})", value=library.version or "unknown version")


def _examine(machine: Machine) -> Iterator[Finding]:
    first, *others = installed_nccl(machine)
    different = [each for each in others if each.version and first.version and each.version != first.version]
    if different and first.origin.startswith("LD_"):
        texts = [f"{each.version} by {each.origin}" for each in (first, *different)]
        yield Finding(
            severity="risk",
            problem=f"programs load different versions of NCCL: {', '.join(texts)}",
            evidence=tuple(map(_evidence, (first, *different))),
        )
    wheels = machine.fact(Libraries).wheels
    wheel = next((each for each in (first, *others) if each.origin == "wheel"), None)
    version = wheel.version if wheel else None
    wrong = [f"{name} {listed}" for name, listed in wheels.items() if version and not listed.startswith(version)]
    if wheel and wrong:
        yield Finding(
            severity="risk",
            problem=f"the wheel's NCCL is {version}, but pip lists {', '.join(wrong)}",
            evidence=(_evidence(wheel),),
            fix=f"pip uninstall {' '.join(wheels)}, then install one of them",
        )


def _examine_label(machine: Machine) -> Iterator[Finding]:
    label = re.match(r"\d+\.\d+\.\d+", machine.fact(Environment).variables.get("NCCL_VERSION", ""))
    if not label:
        return
    libraries = installed_nccl(machine)
    versions = [each.version for each in libraries]
    if None in versions:
        raise Unreadable("the version of an NCCL library")
    if label[0] not in versions:
        yield Finding(
            severity="risk",
            subject="NCCL_VERSION",
            problem=f"NCCL_VERSION is {label[0]}, but the installed NCCL is {versions[0]}",
            evidence=(Evidence(source="environment", value=f"NCCL_VERSION={label[0]}"), *map(_evidence, libraries)),
        )


CHECKS = (
    Check(
        name="nccl-which",
        area="libraries",
        reads="LD_PRELOAD, LD_LIBRARY_PATH, the wheel of NCCL, ldconfig -p; the libraries' content",
        rule="No variable puts another version of NCCL in front of the installed one, and wheels are what pip lists.",
        source="verl-project/verl#6621",
        cost="A job may run an older NCCL than its user thinks, with that version's defects and speed.",
        fix="remove the library that is not wanted from LD_PRELOAD and LD_LIBRARY_PATH",
        examine=_examine,
    ),
    Check(
        name="nccl-version-label",
        area="libraries",
        reads="NCCL_VERSION, which images set; versions of the NCCL libraries",
        rule="NCCL_VERSION is the version of one of the installed libraries.",
        source="pytorch/pytorch#122571",
        cost="The label misleads people who look for a defect of NCCL; jobs are as fast as the library.",
        fix="unset NCCL_VERSION",
        examine=_examine_label,
    ),
)
