"""Nodes and processors of the processes of a job."""

import re
from collections.abc import Iterator

from busbw.doctor.model.check import Check, Finding, NotApplicable
from busbw.doctor.nccl_log.message import Message
from busbw.doctor.nccl_log.nccl_log import NcclLog

_VERSION_WITH_RANGES = 27
_AFFINITY = re.compile(r"Setting affinity for GPU (?P<gpu>\d+) to (?P<mask>[0-9a-f,-]+)$")


def _examine_nodes(log: NcclLog) -> Iterator[Finding]:
    log.require_info()
    known = [each for each in log.communicators if each.is_complete and each.node_count and not each.uses_mnnvl]
    if not known:
        raise NotApplicable("the log has no communicator with all ranks and NCCL's count of nodes")
    for each in known:
        if each.node_count and each.evidence and each.node_count != len(each.hosts):
            yield Finding(
                severity="slow",
                problem=f"NCCL counts {each.node_count} nodes, but the ranks run on {len(each.hosts)} hosts",
                evidence=(each.evidence,),
            )
            return


def _examine_affinity(log: NcclLog) -> Iterator[Finding]:
    log.require_info()
    counts: dict[str, list[tuple[int, Message]]] = {}
    for message, match in log.find(_AFFINITY):
        counts.setdefault(message.host, []).append((_processor_count(match["mask"], log.minor_version), message))
    if not counts:
        raise NotApplicable("the log has no message about processor affinity")
    for host, masks in counts.items():
        if all(count == 1 for count, _ in masks):
            yield Finding(
                severity="slow",
                problem=f"each rank of {host} has a single processor for all its threads",
                evidence=(masks[0][1].evidence,),
                subject=host,
            )


def _processor_count(mask: str, minor_version: int | None) -> int:
    """Returns the number of processors of a mask "ff,ffffffff", or of ranges "0-31,64-95" as NCCL 2.27 prints."""
    groups = mask.split(",")
    if "-" in mask or minor_version == _VERSION_WITH_RANGES:
        return sum(int(end or start) - int(start) + 1 for start, _, end in (group.partition("-") for group in groups))
    return sum(int(group or "0", 16).bit_count() for group in groups)


CHECKS = (
    Check(
        name="log-nodes",
        area="log",
        reads='"nNodes" in messages of ncclCommInitRank, and their hosts',
        rule="NCCL counts as many nodes as there are hosts.",
        source="NVIDIA/nccl#1781",
        cost="If NCCL counts more nodes, it uses the network within a node; if fewer, it tries NVLink between nodes.",
        fix="unset NCCL_HOSTID; run the ranks of a node in one container, or with the host's IPC namespace",
        examine=_examine_nodes,
    ),
    Check(
        name="log-affinity",
        area="log",
        reads='"Setting affinity for GPU" messages (NCCL 2.4 to 2.27)',
        rule="Each rank has more than one processor.",
        source="NVIDIA/nccl-tests#57",
        cost="Network threads share one processor with the application: half of the bandwidth between nodes, or less.",
        fix="srun --cpus-per-task=N --cpu-bind=none; mpirun --bind-to none",
        examine=_examine_affinity,
    ),
)
