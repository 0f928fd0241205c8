"""Problems that the health watches of NVIDIA DCGM report."""

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from busbw.doctor.model.check import Check, Evidence, Finding, NotApplicable, Severity, Unreadable
from busbw.doctor.model.machine import Absent, Machine

_COMMAND = ("dcgmi", "health", "-c", "-j")
_SEVERITIES: dict[str, Severity] = {"Failure": "broken", "Warning": "risk"}
_NOT_EXAMINED = ("Power", "NVLINK", "IMEX")
"""Watches that also report healthy machines: loaded GPUs, GPUs without NVLink, use of one node."""


class _Box(Struct, kw_only=True, frozen=True):
    value: str = ""
    overflow: tuple[str, ...] = ()
    children: dict[str, "_Box"] = {}


class _Report(Struct, kw_only=True, frozen=True):
    body: dict[str, _Box]


def _examine(machine: Machine) -> Iterator[Finding]:
    try:
        report = msgspec.json.decode(machine.output(*_COMMAND), type=_Report)
    except Absent as error:
        raise NotApplicable("DCGM is not installed") from error
    except Unreadable as error:
        if "not enabled" in str(error) or "onnect" in str(error):  # connect, connection
            raise NotApplicable("DCGM watches nothing here") from error
        raise
    except (msgspec.DecodeError, RecursionError) as error:
        raise Unreadable(f"a report of {' '.join(_COMMAND)}") from error
    for kind, entities in report.body.items():
        for number, entity in entities.children.items():
            for watch, box in entity.children.get("Errors", _Box()).children.items():
                if box.value in _SEVERITIES and not watch.startswith(_NOT_EXAMINED):
                    yield Finding(
                        severity=_SEVERITIES[box.value] if box.overflow else "risk",
                        subject=f"{kind} {number}",
                        problem=f"DCGM reports for {kind} {number}: {watch}, {box.value.lower()}",
                        evidence=(Evidence(source=" ".join(_COMMAND), value=" ".join(box.overflow) or "no details"),),
                    )


CHECK = Check(
    name="dcgm-health",
    area="scheduler",
    reads="dcgmi health -c -j",
    rule="DCGM reports no warning and no failure, if its watches are enabled.",
    source="https://docs.nvidia.com/datacenter/dcgm/latest/user-guide/feature-overview.html#health-and-diagnostics",
    cost="DCGM watches memory, PCIe and temperature; a failure ends jobs on this GPU.",
    fix="dcgmi diag -r 2 on the drained node",
    examine=_examine,
)
