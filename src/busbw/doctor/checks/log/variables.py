"""Harmful values of a job's variables. A row of `HARMFUL_VALUES` applies to machines with its traits, such as EFA."""

import re
from collections.abc import Callable, Iterator
from functools import partial

from busbw.doctor.checks.libraries.harmful_variables import DOCUMENTATION, HARMFUL_VALUES
from busbw.doctor.model import Damage, Finding, check
from busbw.doctor.nccl_log.nccl_log import NcclLog
from busbw.doctor.parts.value_patterns import matches

_VARIABLES_OF_OTHER_CHECKS = {
    "NCCL_P2P_DISABLE",
    "NCCL_P2P_LEVEL",
    "NCCL_IB_DISABLE",
    "NCCL_NET",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_DMABUF_ENABLE",
}
"""Variables with an effect that another check finds in the messages about networks and connections."""
_PXN_VARIABLES = {"NCCL_PXN_DISABLE", "NCCL_P2P_PXN_LEVEL"}
"""Variables without an effect on fewer than three nodes."""
_MIN_PXN_NODES = 3


def _shows(pattern: str, log: NcclLog) -> bool | None:
    """True if a log of several nodes has a message with this pattern. None if such a log does not name the network."""
    if log.max_host_count <= 1:
        return False
    return log.contains(re.compile(pattern)) if log.networks else None


def _has_several_pcie_gpus(log: NcclLog) -> bool | None:
    if log.max_ranks_per_host == 1:
        return False
    return None if log.has_nvlink is None else not log.has_nvlink


TRAITS: dict[str, Callable[[NcclLog], bool | None]] = {
    "GPUs": lambda _log: True,
    "NVLink": lambda log: log.has_nvlink,
    "several PCIe GPUs": _has_several_pcie_gpus,
    "NVLS": lambda log: log.system_offers_nvls,
    "MNNVL": partial(_shows, r"fabric UUID [0.]*[1-9a-f]"),
    "RDMA": partial(_shows, "NET/IB : Using|NET/OFI"),
    "InfiniBand or RoCE": partial(_shows, "NET/IB : Using"),
    "InfiniBand": partial(_shows, r"NET/IB : Using.*\d/IB"),
    "EFA": partial(_shows, "NET/OFI Selected [Pp]rovider is efa"),
    "other than Google Cloud": lambda log: (
        not any(name.startswith(("FasTrak", "GPUDirectTCPX", "gIB")) for name, _ in log.networks.values())
    ),
    "other than Azure": lambda _log: None,
}
"""Predicates for the traits of parts/traits.py. A predicate returns None if the log cannot show the trait."""


@check(
    reads='"set by environment to" messages',
    rule="No variable has a value that does harm on the job's machines (the checks env-...).",
    source=DOCUMENTATION,
    cost="Depends on the variable. The finding names the effect.",
    fix="unset the variable",
)
def log_variables(log: NcclLog) -> Iterator[Finding]:
    log.require_info()
    ignored = _ignored_variables(log)
    decided: set[tuple[str, str]] = set()
    for row in HARMFUL_VALUES:
        # Hosts can have different values of a variable. The first row that has a value, and that applies to the job,
        # decides about this value.
        values = [value for name, value in log.variables if name == row.variable and matches(value, row.values)]
        undecided = [(row.variable, value) for value in values if (row.variable, value) not in decided]
        if not undecided or row.variable in ignored:
            continue
        # None: the log cannot show the trait. Without an entry in TRAITS, a trait is absent: no message shows it.
        has_traits = [trait in TRAITS and TRAITS[trait](log) for trait in row.traits.split(", ") if trait]
        if False in has_traits:
            continue
        decided.update(undecided)
        variable, value = undecided[0]
        yield Finding(
            "risk" if None in has_traits else row.severity,
            f"{variable}={value}: {row.effect}",
            (log.variables[variable, value].evidence,),
            subject=row.variable,
            cost=row.effect_sentence,
            # A log does not show the rate of the slots, so the damage "pcie" is unknown. "half" has only a sentence.
            damage=Damage(nvls=False) if row.damage == "nvls" else None,
            fix=f"unset {row.variable}; it can also be in /etc/nccl.conf or ~/.nccl.conf",
        )


def _ignored_variables(log: NcclLog) -> set[str]:
    """Returns the variables without an effect on this job, and those that another check of this log judges."""
    without_effect = _PXN_VARIABLES if log.max_host_count < _MIN_PXN_NODES else set()
    judged_elsewhere = _VARIABLES_OF_OTHER_CHECKS if log.channels or log.networks else set()
    return without_effect | judged_elsewhere
