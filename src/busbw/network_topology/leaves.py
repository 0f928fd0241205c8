"""Completes the description of a cluster with leaf switches."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import product
from typing import NamedTuple

from msgspec.structs import replace

from busbw.errors import UsageError
from busbw.find.cluster import NicDescription, NodeDescription


class Attachment(NamedTuple):
    """A NIC and its leaf switch."""

    node: str
    """Full or short host name."""
    nic: str | None
    """None for all NICs of the node."""
    leaf: str


def with_leaves(
    nodes: Sequence[NodeDescription], attachments: Iterable[Attachment], source: str
) -> list[NodeDescription]:
    """Returns the nodes with the leaf switches that they do not state.

    Args:
        nodes: Nodes of a cluster.
        attachments: NICs and leaf switches of these nodes. Attachments of unknown nodes are ignored. If a NIC has no
            attachment under the full name of its node, an attachment under the short name applies, from any domain.
        source: File of the attachments, for errors.

    Raises:
        UsageError: The attachments contradict each other or the nodes.
    """
    leaves_by_nic: dict[tuple[str, str | None], set[str]] = defaultdict(set)
    for node_name, nic_name, leaf in attachments:
        for name in (node_name, _short(node_name)):
            leaves_by_nic[name, nic_name].add(leaf)

    def complete(node: NodeDescription, nic: NicDescription) -> NicDescription:
        leaves = {leaf for leaf in (nic.leaf, node.leaf) if leaf is not None}
        # In this order: full name with NIC, full name, short name with NIC, short name.
        for key in product((node.name, _short(node.name)), (nic.name, None)):
            if key in leaves_by_nic:
                leaves |= leaves_by_nic[key]
                break
        if len(leaves) > 1:
            raise UsageError(
                f"{source}: NIC {nic.name} of {node.name} has several leaf switches: {', '.join(sorted(leaves))}",
                remedy="correct the file, or the description of the cluster",
            )
        return replace(nic, leaf=next(iter(leaves), None))

    return [replace(node, nics=tuple(complete(node, nic) for nic in node.nics)) for node in nodes]


def _short(name: str) -> str:
    """Returns a host name without its domain. An IPv4 address stays unchanged."""
    short = name.partition(".")[0]
    is_ipv4_address = short.isdigit()
    return name if is_ipv4_address else short
