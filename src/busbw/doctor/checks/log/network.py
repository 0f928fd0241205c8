"""Checks of the network, adapters and rails that NCCL selected. A rail is the adapters of one number on all hosts."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import TypeAlias

from busbw.doctor.model import Damage, Evidence, Finding, Severity, Unreadable, check, require
from busbw.doctor.nccl_log.nccl_log import Connection, NcclLog

_REASONS = (
    re.compile(r"NCCL_(?:IB_DISABLE set (?:by environment )?to 1|NET set (?:by environment )?to Socket)"),
    re.compile(r"NET/OFI (?:Only EFA provider|aws-ofi-nccl init)"),
    re.compile(r"Failed to open libibverbs"),
    re.compile(r"NET/IB : Unable to open device"),
    re.compile(r"NET/IB : No device found"),
    re.compile(r"NET/Plugin.*(?:No plugin found|Could not find|returned \d+)"),
)
"""Messages that explain TCP sockets, the most certain first."""
_EXPECTS_RDMA = re.compile(
    r"NCCL_IB_(?!DISABLE)\w+ set|NET/OFI|NET/IB : (?:Using|Unable to open)|NET/Plugin.*(?:hpcx|rdma)"
    r"|NET/Socket : Using.*\]ib\w+:"
)
"""Messages of nodes that have RDMA, or of users who expect it."""
_ADAPTERS = re.compile(r"NET/IB : Using (?P<list>\[\d+\].*?); OOB")
"""Message with the adapters of a host: "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>"."""
_ADAPTER = re.compile(r"\[\d+\](\w+):\d+")
_Link: TypeAlias = tuple[frozenset[str], str, int]
"""Both hosts, both ends (`Connection.ends`) and the channel. Connections of several communicators can share a link."""
_ByAdapter: TypeAlias = dict[str, Connection]
"""Connections of one side of a link, by the number of the adapter."""


@check(
    reads='"Using network", NET/IB, NET/OFI and NET/Plugin messages',
    rule="A job on several nodes does not use TCP sockets, and all hosts use the same network.",
    source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
    cost="TCP sockets reach a small share of the bandwidth of RDMA.",
    fix="unset NCCL_IB_DISABLE and NCCL_NET; ibv_devinfo in the job; give a container /dev/infiniband; in clouds, "
    "install the network plug-in",
)
def log_network(log: NcclLog) -> Iterator[Finding]:
    log.require_network()
    if not log.networks:
        raise Unreadable('the message "Using network" of NCCL')
    on_sockets = {host: message for host, (name, message) in log.networks.items() if name == "Socket"}
    if not on_sockets:
        return
    host, message = next(iter(on_sockets.items()))
    reason = next((found for pattern in _REASONS for found, _ in log.find(pattern)), None)
    other_networks = {name for name, _ in log.networks.values()} - {"Socket"}
    hosts_text = host
    if len(log.networks) > 1:
        hosts_text = f"{len(on_sockets)} of {len(log.networks)} hosts, such as {host}"
    problem = f"NCCL uses TCP sockets on {hosts_text}"
    is_requested = reason is not None and " set " in reason.text  # such as "NCCL_NET set to Socket"
    severity: Severity = "slow" if is_requested or log.contains(_EXPECTS_RDMA) else "risk"
    if other_networks:
        problem += f"; others use {', '.join(sorted(other_networks))}"
        severity = "broken"
    evidence = tuple(shown.evidence for shown in (reason, message) if shown is not None)
    yield Finding(severity, problem, evidence, subject=host if len(on_sockets) == 1 else None)


@check(
    reads='"NET/IB : Using" messages',
    rule="All hosts use the same number of adapters.",
    source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
    cost="All nodes wait for the node with the fewest adapters.",
    fix="ibstat on this host; compare NCCL_IB_HCA",
)
def log_adapters(log: NcclLog) -> Iterator[Finding]:
    log.require_network()
    adapters: dict[str, frozenset[str]] = {}
    evidence: dict[str, Evidence] = {}
    for message, match in log.find(_ADAPTERS):
        if message.host:
            names = frozenset(_ADAPTER.findall(match["list"]))
            adapters[message.host] = adapters.get(message.host, frozenset()) | names
            evidence.setdefault(message.host, message.evidence)
    require(adapters, "the job uses no InfiniBand or RoCE")
    # The reference is the most frequent set, because single hosts can also use an adapter for storage.
    sets = Counter(adapters.values())
    usual = max(sets, key=lambda names: (sets[names], len(names)))
    for host, names in adapters.items():
        if len(names) < len(usual):
            yield Finding(
                "slow",
                f"{host} uses {len(names)} adapters, other hosts use {len(usual)} "
                f"(without {', '.join(sorted(usual - names))})",
                (evidence[host],),
                subject=host,
                damage=Damage(nic_share=len(names) / len(usual)),
            )


@check(
    reads='"via NET/IB" messages of both ends of a connection; "NET/IB : Using" messages',
    rule="Both ends of a connection use the adapter of the same number, on hosts with the same adapters.",
    source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-cross-nic",
    cost="In a network with one switch for each rail, this data crosses the spine, where flows collide.",
    fix="export NCCL_CROSS_NIC=0 on all nodes, if the network has one switch for each rail",
)
def log_rails(log: NcclLog) -> Iterator[Finding]:
    log.require_network()
    lists = {message.host: match["list"] for message, match in log.find(_ADAPTERS)}
    senders: dict[_Link, _ByAdapter] = {}
    receivers: dict[_Link, _ByAdapter] = {}
    for connection in log.connections:
        # A number means the same adapter on two hosts only if both hosts list the same adapters.
        own_list, peer_list = lists.get(connection.host), lists.get(connection.peer_host)
        if connection.adapter and own_list is not None and own_list == peer_list:
            link = (frozenset((connection.host, connection.peer_host)), connection.ends, connection.channel)
            side = receivers if connection.is_receive else senders
            side.setdefault(link, {})[connection.adapter] = connection
    both = [(senders[link], receivers[link]) for link in senders if link in receivers]
    require(both, "the log has no connection by InfiniBand or RoCE with both ends")
    leaving = [(sent, received) for sent, received in both if not sent.keys() & received.keys()]
    if leaving:
        sent, received = leaving[0]
        sending_adapter, sender = next(iter(sent.items()))
        receiving_adapter, receiver = next(iter(received.items()))
        yield Finding(
            "risk",
            f"{len(leaving)} of {len(both)} connections between nodes leave their rail: "
            f"from adapter {sending_adapter} of {sender.host} to adapter {receiving_adapter} of {receiver.host}",
            (sender.evidence, receiver.evidence),
        )
