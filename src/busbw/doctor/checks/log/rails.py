"""Rails: adapters of the same number on all nodes, which a rail-optimized network joins by a switch of their own."""

import re
from collections.abc import Iterator
from typing import TypeAlias

from busbw.doctor.checks.log.network import ADAPTERS
from busbw.doctor.model import Finding, NotApplicable, check
from busbw.doctor.nccl_log.nccl_log import Connection, NcclLog

_Ends: TypeAlias = tuple[frozenset[str], str, int]
"""Hosts, ranks and channel of a connection."""
_ADAPTER = re.compile(r"NET/IB\w*/(\d+)")


@check(
    reads='"via NET/IB" messages of both ends of a connection; "NET/IB : Using" messages',
    rule="Both ends of a connection use the adapter of the same number, on hosts with the same adapters.",
    source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-cross-nic",
    cost="In a network with one switch for each rail, this data crosses the spine, where flows collide.",
    fix="export NCCL_CROSS_NIC=0 on all nodes, if the network has one switch for each rail",
)
def log_rails(log: NcclLog) -> Iterator[Finding]:
    log.require_network()
    listed = {message.host: match["list"] for message, match in log.find(ADAPTERS)}
    # Several communicators can have the same ends, so each end has a set of adapters.
    senders: dict[_Ends, dict[str, Connection]] = {}
    receivers: dict[_Ends, dict[str, Connection]] = {}
    for each in log.connections:
        adapter = _ADAPTER.match(each.via)
        # A number means the same adapter on two hosts only if they list the same ones.
        if adapter and listed.get(each.host, "") == listed.get(each.peer_host):
            ends = (frozenset((each.host, each.peer_host)), each.ends, each.channel)
            (receivers if each.is_receive else senders).setdefault(ends, {})[adapter[1]] = each
    both = [(senders[ends], receivers[ends]) for ends in senders if ends in receivers]
    if not both:
        raise NotApplicable("the log has no connection by InfiniBand or RoCE with both ends")
    leaving = [(sent, received) for sent, received in both if not sent.keys() & received.keys()]
    if leaving:
        (first, sent), (second, received) = (next(iter(end.items())) for end in leaving[0])
        yield Finding(
            "risk",
            f"{len(leaving)} of {len(both)} connections between nodes leave their rail: "
            f"from adapter {first} of {sent.host} to adapter {second} of {received.host}",
            (sent.evidence, received.evidence),
        )
