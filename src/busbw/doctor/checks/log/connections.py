"""Transports between ranks: NVLink within and between nodes, reduction in its switch, and GPUDirect RDMA."""

import re
from collections.abc import Iterable, Iterator, Mapping

from busbw.doctor.model import Damage, Finding, Severity, Unreadable, check, require
from busbw.doctor.nccl_log.nccl_log import Connection, Message, NcclLog

_PEERS_OFF = {"NCCL_P2P_DISABLE": ("1",), "NCCL_P2P_LEVEL": ("LOC", "0")}
"""Variables with the values that turn P2P off."""
_GPUDIRECT_OFF = {"NCCL_NET_GDR_LEVEL": ("LOC", "0"), "NCCL_DMABUF_ENABLE": ("0",)}
"""Variables with the values that turn GPUDirect RDMA off."""
_DISABLED = re.compile(r"NET/IB\w* : GPU Direct RDMA Disabled for HCA (?P<index>\d+) '(?P<name>[^']+)'")
_MULTICAST = re.compile(r"NVLS multicast support is (?P<no>not )?available")
_DOMAIN = re.compile(r"MNNVL busId 0x(?P<bus>\w+) fabric UUID (?P<uuid>\w+\.\w+) cliqueId (?P<clique>\w+)")
"""NVLink domain of a GPU: "MNNVL busId 0x1b000 fabric UUID 5c.1f cliqueId 0x7ffe"."""


def _group_by_host(connections: Iterable[Connection]) -> dict[str, list[Connection]]:
    found: dict[str, list[Connection]] = {}
    for connection in connections:
        found.setdefault(connection.host, []).append(connection)
    return found


@check(
    reads='"via P2P", "via SHM" and "via NET" messages of ranks on one host',
    rule="GPUs of a node with NVLink are connected by P2P.",
    source="NVIDIA/nccl#324",
    cost="NVLink is not used: data goes through host memory or the network.",
    fix="unset NCCL_P2P_DISABLE and NCCL_P2P_LEVEL; give each rank all GPUs of the job, and all ranks one /dev/shm",
)
def log_peers(log: NcclLog) -> Iterator[Finding]:
    log.require_info()
    within_node = _group_by_host(
        connection for connection in log.connections if connection.host == connection.peer_host
    )
    require(within_node, "the log has no connection within a node")
    setting = log.setting(_PEERS_OFF)
    for host, on_host in within_node.items():
        slow = [connection for connection in on_host if connection.via.startswith(("SHM", "direct", "NET/"))]
        if not slow or log.has_nvlink is False:
            continue  # without NVLink, such connections are usual between the sockets of a machine
        if log.has_nvlink is None and setting is None:
            raise Unreadable("the kind of GPUs; name it with --system")
        # Older versions of NCCL print "via direct shared memory" instead of "via SHM/...".
        is_shared_memory = slow[0].via.startswith(("SHM", "direct"))
        transport = "SHM" if is_shared_memory else slow[0].via.split("/")[0]
        problem = f"{len(slow)} of {len(on_host)} connections between GPUs of {host} use {transport} instead of NVLink"
        yield Finding("slow", problem, (slow[0].evidence, *((setting,) if setting else ())), subject=host)


def _disabled_adapters(
    log: NcclLog, rdma_connections: Mapping[str, Iterable[Connection]]
) -> dict[str, dict[str, Message]]:
    """Returns the messages that GPUDirect RDMA is off for an adapter that may carry data, by host and adapter name."""
    disabled: dict[str, dict[str, Message]] = {}
    for message, match in log.find(_DISABLED):
        used_adapters = {connection.adapter for connection in rdma_connections.get(message.host, ())}
        # Without connections of the host, the log does not show the used adapters. Then any adapter may carry data.
        may_carry_data = not used_adapters or match["index"] in used_adapters
        if message.host and may_carry_data:
            disabled.setdefault(message.host, {}).setdefault(match["name"], message)
    return disabled


@check(
    reads='"GPU Direct RDMA Disabled for HCA" messages, "[receive] via NET/IB" messages without GDRDMA',
    rule="GPUDirect RDMA is on: the adapters of the job write received data into GPU memory.",
    source="NVIDIA/nccl#1676",
    cost="Data is copied through host memory: 180 GB/s between two nodes fell to 10 GB/s.",
    fix="modprobe nvidia_peermem, which NCCL 2.23 and newer find on DGX OS 7, or the open driver with kernel 5.12 or "
    "newer (DMA-BUF); unset NCCL_NET_GDR_LEVEL and NCCL_DMABUF_ENABLE; see the distance of GPU and adapter with "
    "nvidia-smi topo -m",
)
def log_gpudirect(log: NcclLog) -> Iterator[Finding]:
    log.require_network()
    connections = _group_by_host(connection for connection in log.connections if connection.adapter)
    disabled = _disabled_adapters(log, connections)
    require(connections or disabled, "the log has no InfiniBand or RoCE connection of known hosts")
    for host, adapters in disabled.items():
        problem = f"GPUDirect RDMA is off for {', '.join(adapters)} of {host}"
        yield Finding("slow", problem, (next(iter(adapters.values())).evidence,), subject=host)
    setting = log.setting(_GPUDIRECT_OFF)
    all_received = [connection for on_host in connections.values() for connection in on_host if connection.is_receive]
    # Data through host memory is avoidable if a setting turns GPUDirect RDMA off, or if other connections use it.
    # Otherwise the hosts may not support it.
    is_used = any("/GDRDMA" in connection.via for connection in all_received)
    severity: Severity = "slow" if setting is not None or is_used else "risk"
    for host, received in _group_by_host(all_received).items():
        staged = [connection for connection in received if "/GDRDMA" not in connection.via]
        if staged and host not in disabled:
            problem = f"{len(staged)} of {len(received)} connections to {host} copy data through host memory"
            evidence = (staged[0].evidence, *((setting,) if setting else ()))
            yield Finding(severity, problem, evidence, subject=host)


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
