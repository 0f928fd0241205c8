"""Checks of a log: reduction in the NVLink switch (NVLS), and NVLink between nodes (MNNVL)."""

import re
from collections.abc import Iterator

from busbw.doctor.model import Damage, Finding, check, require
from busbw.doctor.nccl_log.nccl_log import NcclLog

_MULTICAST = re.compile(r"NVLS multicast support is (?P<no>not )?available")
_DOMAIN = re.compile(r"MNNVL busId 0x(?P<bus>\w+) fabric UUID (?P<uuid>\w+\.\w+) cliqueId (?P<clique>\w+)")
"""NVLink domain of a GPU: "MNNVL busId 0x1b000 fabric UUID 5c.1f cliqueId 0x7ffe"."""


@check(
    reads='"NVLS multicast support" messages',
    rule="All GPUs of a job offer NVLS if one does, or if the named system has it.",
    source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
    cost="NCCL uses rings, which move more data over NVLink.",
    fix="systemctl status nvidia-fabricmanager on this host; unset NCCL_CUMEM_ENABLE",
)
def log_nvls(log: NcclLog) -> Iterator[Finding]:
    log.require_info()
    found = list(log.find(_MULTICAST))
    require(found, "the log has no message about NVLS")
    is_nvls_expected = log.system_offers_nvls
    if is_nvls_expected is None:  # no system is named, so one GPU with NVLS decides
        is_nvls_expected = any(not match["no"] for _, match in found)
    if not is_nvls_expected:
        return  # GPUs without NVLS, or too few of them
    # In the reversed order, the first message of a host replaces its later ones.
    first_by_host = {message.host: message for message, match in reversed(found) if match["no"]}
    for host, message in first_by_host.items():
        problem = f"reduction in the NVLink switch (NVLS) is not available on a GPU of {host}"
        yield Finding("slow", problem, (message.evidence,), subject=host, damage=Damage(nvls=False))


@check(
    reads='"MNNVL" messages: fabric UUID of each GPU, use by each communicator',
    rule="NCCL uses NVLink between nodes of one NVLink domain.",
    source="NVIDIA/nccl#1925",
    cost="An NVL72 job of 8 GPUs reaches 44 to 387 instead of 841 GB/s.",
    fix="unset NCCL_MNNVL_ENABLE and NCCL_P2P_DISABLE; check nvidia-imex-ctl -N and the IMEX channel",
)
def log_mnnvl(log: NcclLog) -> Iterator[Finding]:
    log.require_info()
    hosts_by_domain: dict[tuple[str, str], set[str]] = {}  # by the UUID of the domain, and the clique within the domain
    for message, match in log.find(_DOMAIN):
        is_in_domain = match["uuid"].strip("0.") != ""  # "0.0" is the UUID of no domain
        if is_in_domain:
            hosts_by_domain.setdefault((match["uuid"], match["clique"]), set()).add(message.host)
    # Only the domain with the most hosts is examined, and one communicator is enough for a finding.
    domain_hosts = max(hosts_by_domain.values(), key=len, default=set())
    require(len(domain_hosts) > 1, "no two nodes of the log share an NVLink domain")
    for communicator in log.communicators:
        count = len(communicator.hosts & domain_hosts)
        if communicator.uses_mnnvl is False and communicator.evidence and count > 1:
            problem = f"{count} nodes share an NVLink domain, but the network connects them"
            yield Finding("slow", problem, (communicator.evidence,))
            return
