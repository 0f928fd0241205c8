"""Rounds: flows that start together.

In most rounds, every GPU sends to at most one GPU and receives from at most one. In a round with hubs, some GPUs send
to all others of their node, or receive from all.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from busbw.find.cluster import Indices, Mask

MIB = 1 << 20
NETWORK_BYTES, NVLINK_BYTES = 64 * MIB, 256 * MIB
"""Size of a flow, so large that its start takes at most 6 % of its time (50 us at 50 and 300 GB/s)."""
HUB_GPUS = 8
"""Maximum number of GPUs of a hub and its partners. A node with more GPUs has several hubs at a time."""
ITERATIONS = 10
"""Number of times that each flow of a round transfers its bytes."""


class Load(IntEnum):
    """Traffic of a round, which its flows share. Only flows of rounds with equal load are comparable."""

    INSIDE = 0
    """Pairs of GPUs of one node, both directions."""
    BOTH = 1
    """Full load: pairs of NICs, both directions, and any number of flows per leaf."""
    ONE_WAY = 2
    """Pairs of NICs, one direction."""
    SPARSE = 3
    """At most one flow leaves and enters each leaf."""
    LIGHT = 4
    """Light: at most one flow for eight NICs of the largest leaf leaves and enters each leaf."""
    CROSS = 5
    """NICs of different lanes (`Cluster.lanes`). Each NIC sends one flow and receives one flow."""
    ONE_TO_ALL = 6
    """One GPU of a node, the hub, sends to the others."""
    ALL_TO_ONE = 7
    """The other GPUs of a node send to the hub."""

    @property
    def has_hubs(self) -> bool:
        """True if the flows of a hub share its rate."""
        return self in (Load.ONE_TO_ALL, Load.ALL_TO_ONE)

    @property
    def is_inside(self) -> bool:
        """True if the flows stay within nodes."""
        return self is Load.INSIDE or self.has_hubs


LOAD_CLASSES = 2 * len(Load)
"""Number of classes of flows between two types of GPUs."""


def load_class(load: Load | Indices, *, is_across: bool | Mask) -> Indices:
    """Returns the number of a class among the flows between two types of GPUs, below LOAD_CLASSES.

    Args:
        load: Load of the round, or of each flow.
        is_across: True for flows between leaves, False for flows within a leaf.
    """
    return np.asarray(2 * np.asarray(load) + is_across)


@dataclass(frozen=True, kw_only=True)
class Round:
    """Flows that start together."""

    load: Load
    source: Indices
    """GPU that sends, for each flow."""
    target: Indices
    """GPU that receives, for each flow."""
    chosen_bytes: int | None = None
    """Bytes of each flow. None: the default of the load."""

    @property
    def size_bytes(self) -> int:
        """Bytes of each flow."""
        if self.chosen_bytes is not None:
            return self.chosen_bytes
        return self._bytes_of_share(NVLINK_BYTES if self.load.is_inside else NETWORK_BYTES)

    @property
    def hub(self) -> Indices:
        """Hub of each flow, in a round with hubs."""
        return self.source if self.load is Load.ONE_TO_ALL else self.target

    def with_bytes(self, pair_bytes: int | None) -> "Round":
        """Returns the round with a size for each flow. `pair_bytes`: size of a flow between GPUs that are no hubs.

        None: the default of the load.
        """
        return replace(self, chosen_bytes=None if pair_bytes is None else self._bytes_of_share(pair_bytes))

    def _bytes_of_share(self, pair_bytes: int) -> int:
        """Returns the bytes of a flow. The flows of a hub together have the bytes of one flow of a pair."""
        partners = int(np.bincount(self.hub).max(initial=1)) if self.load.has_hubs else 1
        return max(pair_bytes // partners, 1)

    def reversed(self) -> "Round":
        """Returns the round with every flow in the other direction."""
        return replace(self, source=self.target, target=self.source)

    def both_ways(self) -> "Round":
        """Returns the round with every flow in both directions."""
        source = np.concatenate([self.source, self.target])
        target = np.concatenate([self.target, self.source])
        return replace(self, source=source, target=target)


def with_flows(rounds: Iterable[Round]) -> list[Round]:
    """Returns the rounds that have a flow."""
    return [one for one in rounds if len(one.source)]
