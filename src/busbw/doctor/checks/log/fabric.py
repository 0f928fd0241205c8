"""Connections between the GPUs of a node or of an NVLink domain."""

import re
from collections import Counter
from collections.abc import Iterator

from busbw.doctor.model.check import Check, Finding, NotApplicable, Unreadable
from busbw.doctor.model.damage import Damage
from busbw.doctor.nccl_log.message import Message
from busbw.doctor.nccl_log.nccl_log import NcclLog

_OFF = {"NCCL_P2P_DISABLE": ("1",), "NCCL_P2P_LEVEL": ("LOC", "0")}
"""Variables with the values that turn P2P off."""
_MULTICAST = re.compile(r"NVLS multicast support is (?P<no>not )?available")
_DOMAIN = re.compile(r"MNNVL busId 0x(?P<bus>\w+) fabric UUID (?P<uuid>\w+\.\w+) cliqueId (?P<clique>\w+)")


def _examine_peers(log: NcclLog) -> Iterator[Finding]:
    log.require_info()
    setting = next(
        (message.evidence for name, values in _OFF.items() if (message := log.variable(name, *values)) is not None),
        None,
    )
    inside = [each for each in log.connections if each.host == each.peer_host and each.is_collective]
    if not inside:
        raise NotApplicable("the log has no connection within a node")
    slow = [each for each in inside if each.via.startswith(("SHM", "direct", "NET/"))]
    if not slow:
        return
    if log.has_nvlink is False:
        return  # usual between the sockets of a PCIe machine
    if log.has_nvlink is None and setting is None:
        raise Unreadable("the kind of GPUs; name it with --system")
    totals = Counter(each.host for each in inside)
    firsts = {each.host: each for each in reversed(slow)}
    for host, count in Counter(each.host for each in slow).items():
        first = firsts[host]
        yield Finding(
            severity="slow",
            problem=f"{count} of {totals[host]} connections between GPUs of {host} use "
            f"{first.via.split('/')[0].replace('direct', 'SHM')} instead of NVLink",
            evidence=(first.evidence, *((setting,) if setting else ())),
            subject=host,
        )


def _examine_nvls(log: NcclLog) -> Iterator[Finding]:
    log.require_info()
    missing: dict[str, Message] = {}
    found = list(log.find(_MULTICAST))
    if not found:
        raise NotApplicable("the log has no message about NVLS")
    for message, match in found:
        if match["no"]:
            missing.setdefault(message.host, message)
    if all(match["no"] for _, match in found) and not (log.system and log.system.nvls):
        return  # GPUs without NVLS
    for host, message in missing.items():
        yield Finding(
            severity="slow",
            problem=f"reduction in the NVLink switch (NVLS) is not available on a GPU of {host}",
            evidence=(message.evidence,),
            subject=host,
            damage=Damage(nvls=False),
        )


def _examine_domain(log: NcclLog) -> Iterator[Finding]:
    log.require_info()
    hosts: dict[tuple[str, str], set[str]] = {}
    for message, match in log.find(_DOMAIN):
        if match["uuid"].strip("0."):
            hosts.setdefault((match["uuid"], match["clique"]), set()).add(message.host)
    shared = max(hosts.values(), key=len, default=set())
    if len(shared) < 2:
        raise NotApplicable("no two nodes of the log share an NVLink domain")
    for each in log.communicators:
        count = len(each.hosts & shared)
        if each.uses_mnnvl is False and each.evidence and count > 1:
            yield Finding(
                severity="slow",
                problem=f"{count} nodes share an NVLink domain, but the network connects them",
                evidence=(each.evidence,),
            )
            return


CHECKS = (
    Check(
        name="log-peers",
        area="log",
        reads='"via P2P", "via SHM" and "via NET" messages of ranks on one host',
        rule="GPUs of a node with NVLink are connected by P2P.",
        source="NVIDIA/nccl#324",
        cost="NVLink is not used: data goes through host memory or the network.",
        fix="unset NCCL_P2P_DISABLE and NCCL_P2P_LEVEL; give each rank all GPUs of the job, and all ranks one /dev/shm",
        examine=_examine_peers,
    ),
    Check(
        name="log-nvls",
        area="log",
        reads='"NVLS multicast support" messages',
        rule="All GPUs of a job offer NVLS if one does, or if the named system has it.",
        source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
        cost="NCCL uses rings, which move more data over NVLink.",
        fix="systemctl status nvidia-fabricmanager on this host; unset NCCL_CUMEM_ENABLE",
        examine=_examine_nvls,
    ),
    Check(
        name="log-mnnvl",
        area="log",
        reads='"MNNVL" messages: fabric UUID of each GPU, use by each communicator',
        rule="NCCL uses NVLink between nodes of one NVLink domain.",
        source="NVIDIA/nccl#1925",
        cost="An NVL72 job of 8 GPUs reaches 44 to 387 instead of 841 GB/s.",
        fix="unset NCCL_MNNVL_ENABLE and NCCL_P2P_DISABLE; check nvidia-imex-ctl -N and the IMEX channel",
        examine=_examine_domain,
    ),
)
