"""Simulated fabrics: the leaf of each NIC, the uplinks of each leaf, and the rate of each link."""

import re
from dataclasses import dataclass
from itertools import product
from typing import Literal

from busbw.errors import UsageError
from busbw.find.cluster import NicDescription, NodeDescription

Layout = Literal["rail", "leaf-spine"]

NIC_GBPS, UPLINK_GBPS, NVLINK_GBPS = 48.0, 48.0, 360.0
"""Rates in GB/s of a NIC and an uplink of 400 Gb/s, and of the NVLinks of one GPU."""
DEFAULT_NODES_PER_GROUP = 32
_MAX_GPUS = 1 << 16
"""Maximum number of GPUs, because the arrays of a larger cluster need much time and memory."""


@dataclass(frozen=True, kw_only=True)
class Fabric:
    """Shape of a simulated cluster. Each GPU has its own NIC."""

    nodes: int
    gpus: int
    layout: Layout = "rail"
    """rail: NIC k of all nodes of a group is on leaf k of the group. leaf-spine: a group has one leaf."""
    nodes_per_group: int = DEFAULT_NODES_PER_GROUP
    oversubscription: float = 1.0
    """Rate of the NICs of a leaf divided by the rate of its uplinks."""
    planes: int = 1
    """Parallel networks. A flow uses all planes, and each plane has an equal share of the rate of NICs and uplinks."""
    is_adaptive: bool = False
    """True if each flow of a leaf uses all uplinks. False if a hash selects one uplink for each flow."""

    def __post_init__(self) -> None:
        if self.nodes < 1 or self.gpus < 1:
            raise UsageError(
                f"a cluster of {self.nodes}x{self.gpus} has no GPU", remedy="simulate NODESxGPUS, such as 16x8"
            )

    @property
    def uplinks(self) -> int:
        """Number of uplinks of each leaf."""
        nics_of_leaf = self.nodes_per_group if self.layout == "rail" else self.nodes_per_group * self.gpus
        return max(round(nics_of_leaf / self.oversubscription), 1)

    def leaf(self, node: int, nic: int) -> int:
        """Returns the number of the leaf of a NIC."""
        group = self._group(node)
        return group * self.gpus + nic if self.layout == "rail" else group

    def leaf_name(self, node: int, nic: int) -> str:
        """Returns the name of the leaf of a NIC."""
        group_name = f"leaf{self._group(node)}"
        return f"{group_name}-{nic}" if self.layout == "rail" else group_name

    def _group(self, node: int) -> int:
        """Returns the number of the group of nodes that shares leaf switches."""
        return node // self.nodes_per_group

    def leaf_numbers(self) -> dict[str, int]:
        """Returns the number of each leaf by its name."""
        nics = product(range(self.nodes), range(self.gpus))
        return {self.leaf_name(node, nic): self.leaf(node, nic) for node, nic in nics}

    def describe(self) -> list[NodeDescription]:
        """Returns the description that a measuring program of this cluster gives."""
        return [
            NodeDescription(
                name=f"n{node}",
                gpus=self.gpus,
                nics=tuple(
                    NicDescription(name=f"mlx5_{nic}", rail=nic, gpus=(nic,), leaf=self.leaf_name(node, nic))
                    for nic in range(self.gpus)
                ),
            )
            for node in range(self.nodes)
        ]


def parse_shape(text: str) -> tuple[int, int]:
    """Returns nodes and GPUs per node of a text such as "128x8".

    Raises:
        UsageError: The text has another form, or the cluster is too large to simulate.
    """
    match = re.fullmatch(r"(\d{1,5})x(\d{1,3})", text)
    if not match:
        raise UsageError(f'"{text}" is not a cluster', remedy="write NODESxGPUS, such as 128x8")
    nodes, gpus = int(match[1]), int(match[2])
    if nodes * gpus > _MAX_GPUS:
        raise UsageError(f"{text} has {nodes * gpus:,} GPUs", remedy=f"simulate at most {_MAX_GPUS:,}")
    return nodes, gpus
