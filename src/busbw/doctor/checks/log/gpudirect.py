"""Transfers between GPU and adapter without a copy in host memory (GPUDirect RDMA)."""

import re
from collections import Counter
from collections.abc import Iterator

from busbw.doctor.model.check import Check, Evidence, Finding, NotApplicable
from busbw.doctor.nccl_log.nccl_log import NcclLog

_DISABLED = re.compile(r"NET/IB\w* : GPU Direct RDMA Disabled for HCA (?P<index>\d+) '(?P<name>[^']+)'")
_OFF = {"NCCL_NET_GDR_LEVEL": ("LOC", "0"), "NCCL_DMABUF_ENABLE": ("0",)}
"""Variables with the values that turn GPUDirect RDMA off."""
_NEWER_MODULE = 23
"""First minor version of NCCL 2 that knows the module nvidia_peermem of DGX OS 7 (NVIDIA/nccl#1676)."""


def _examine_disabled(log: NcclLog) -> Iterator[Finding]:
    log.require_network()
    names: dict[str, list[str]] = {}
    evidence: dict[str, Evidence] = {}
    used: dict[str, set[str]] = {}
    for each in log.connections:
        if _is_rdma(each.via):
            used.setdefault(each.host, set()).add(each.via.split("/")[2].partition("(")[0])
    for message, match in log.find(_DISABLED):
        if not message.host or match["index"] not in used.get(message.host, {match["index"]}):
            continue  # other adapters carry the data
        evidence.setdefault(message.host, message.evidence)
        if match["name"] not in names.setdefault(message.host, []):
            names[message.host].append(match["name"])
    for host, adapters in names.items():
        yield Finding(
            severity="slow",
            problem=f"GPUDirect RDMA is off for {', '.join(adapters)} of {host}",
            evidence=(evidence[host],),
            subject=host,
            fix="update NCCL to 2.23 or newer, which finds nvidia_peermem, or use DMA-BUF; modprobe nvidia_peermem"
            if log.minor_version is not None and log.minor_version < _NEWER_MODULE
            else None,
        )


def _is_rdma(via: str) -> bool:
    return via.startswith("NET/IB") and via.count("/") >= 2


def _examine_staged(log: NcclLog) -> Iterator[Finding]:
    log.require_network()
    disabled = {message.host for message, _ in log.find(_DISABLED)}
    received = [each for each in log.connections if each.is_receive and each.is_collective and _is_rdma(each.via)]
    if not received:
        raise NotApplicable("the log has no InfiniBand or RoCE connection of known hosts")
    setting = next(
        (message.evidence for name, values in _OFF.items() if (message := log.variable(name, *values)) is not None),
        None,
    )
    totals = Counter(each.host for each in received)
    staged = [each for each in received if "/GDRDMA" not in each.via and each.host not in disabled]
    firsts = {each.host: each for each in reversed(staged)}
    for host, count in Counter(each.host for each in staged).items():
        first = firsts[host]
        yield Finding(
            severity="slow" if setting or count < totals[host] else "risk",
            problem=f"{count} of {totals[host]} connections to {host} copy data through host memory",
            evidence=(first.evidence, *((setting,) if setting else ())),
            subject=host,
        )


CHECKS = (
    Check(
        name="log-gpudirect",
        area="log",
        reads='"GPU Direct RDMA Disabled for HCA" messages',
        rule="GPUDirect RDMA is not disabled for an adapter that the job uses.",
        source="NVIDIA/nccl#1676",
        cost="Data is copied through host memory: 180 GB/s between two nodes fell to 10 GB/s.",
        fix="modprobe nvidia_peermem, or the open driver with kernel 5.12 or newer (DMA-BUF)",
        examine=_examine_disabled,
    ),
    Check(
        name="log-staging",
        area="log",
        reads='"[receive] via NET/IB" messages without GDRDMA',
        rule="Adapters write received data into GPU memory.",
        source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
        cost="Data is copied through host memory, which limits the bandwidth between nodes.",
        fix="unset NCCL_NET_GDR_LEVEL and NCCL_DMABUF_ENABLE; nvidia-smi topo -m shows the distance of GPU and adapter",
        examine=_examine_staged,
    ),
)
