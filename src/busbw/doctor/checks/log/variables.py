"""Variables that NCCL read from the environment or a configuration file, and that do harm on the job's machines."""

import re
from collections.abc import Callable, Iterator

from busbw.doctor.checks.libraries.harmful_variables import DOCUMENTATION, HARMFUL_VALUES
from busbw.doctor.model import Damage, Finding, check
from busbw.doctor.nccl_log.nccl_log import NcclLog
from busbw.doctor.parts.value_patterns import matches

_OTHER_CHECKS = {
    "NCCL_P2P_DISABLE",
    "NCCL_P2P_LEVEL",
    "NCCL_IB_DISABLE",
    "NCCL_NET",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_DMABUF_ENABLE",
}
"""Variables with an effect that another check finds in the log."""
_PXN = {"NCCL_PXN_DISABLE", "NCCL_P2P_PXN_LEVEL"}
"""Variables without effect on two nodes."""


def _has(pattern: str) -> Callable[[NcclLog], bool | None]:
    """Returns a predicate on messages about the network. It is None if a log of several nodes has no such messages."""

    def has(log: NcclLog) -> bool | None:
        if log.node_count > 1 and not log.networks:
            return None
        return log.node_count > 1 and any(True for _ in log.find(re.compile(pattern)))

    return has


TRAITS: dict[str, Callable[[NcclLog], bool | None]] = {
    "GPUs": lambda _log: True,
    "NVLink": lambda log: log.has_nvlink,
    "several PCIe GPUs": lambda log: None if log.has_nvlink is None else not log.has_nvlink,
    "NVLS": lambda log: log.uses_nvls,
    "MNNVL": _has(r"fabric UUID [0.]*[1-9a-f]"),
    "RDMA": _has("NET/IB : Using|NET/OFI"),
    "InfiniBand or RoCE": _has("NET/IB : Using"),
    "InfiniBand": _has(r"NET/IB : Using.*\d/IB"),
    "EFA": _has("NET/OFI Selected [Pp]rovider is efa"),
    "other than Google Cloud": lambda log: (
        not any(name.startswith(("FasTrak", "GPUDirectTCPX", "gIB")) for name, _ in log.networks.values())
    ),
    "other than Azure": lambda _log: None,
}
"""Predicates of parts/traits.py for the machines of a log. None if the log does not tell."""


@check(
    reads='"set by environment to" messages',
    rule="No variable has a value that does harm on the job's machines (the checks env-...).",
    source=DOCUMENTATION,
    cost="NCCL leaves out the part or the algorithm that the finding names.",
    fix="unset the variable",
)
def log_variables(log: NcclLog) -> Iterator[Finding]:
    log.require_info()
    done = (_PXN if log.node_count < 3 else set()) | (_OTHER_CHECKS if log.channels or log.networks else set())
    for row in HARMFUL_VALUES:
        values = [(value, message) for (name, value), message in log.variables.items() if name == row.variable]
        if row.variable in done or not values or not matches(values[0][0], row.values):
            continue
        value, message = values[0]
        traits = [trait in TRAITS and TRAITS[trait](log) for trait in row.traits.split(", ") if trait]
        if False in traits:
            continue
        done.add(row.variable)
        yield Finding(
            "risk" if None in traits else row.severity,
            f"{row.variable}={value}: {row.effect}",
            (message.evidence,),
            subject=row.variable,
            cost=row.effect_sentence,
            damage=Damage(nvls=False) if row.damage == "nvls" else None,
            fix=f"unset {row.variable}; it can also be in /etc/nccl.conf or ~/.nccl.conf",
        )
