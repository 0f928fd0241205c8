"""Rounds of disjoint flows: every GPU sends to at most one GPU and receives from at most one."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from busbw.find.cluster import Indices

MIB = 1 << 20
NETWORK_BYTES, NVLINK_BYTES = 64 * MIB, 256 * MIB
"""Size of a flow, so large that its start takes less than 5 % of its time (50 us at 50 and 300 GB/s)."""
ITERATIONS = 10


class Load(IntEnum):
    """Concurrent traffic of a round. Flows of equal load are comparable."""

    INSIDE = 0
    """Pairs of GPUs of one node, both directions."""
    BOTH = 1
    """Pairs of NICs, both directions."""
    ONE_WAY = 2
    """Pairs of NICs, one direction."""
    SPARSE = 3
    """At most one flow leaves and enters each leaf."""
    LIGHT = 4
    """A small part of the NICs of each leaf, one direction each."""
    CROSS = 5
    """Pairs of NICs of different rails, both directions."""


LOAD_CLASSES = 2 * len(Load)
"""Number of classes of flows between two types of GPUs: see `Observations.classes`."""


@dataclass(frozen=True, kw_only=True)
class Round:
    """Flows that start together."""

    load: Load
    source: Indices
    """GPU that sends, for each flow."""
    target: Indices
    """GPU that receives, for each flow."""
    chosen_bytes: int | None = None
    """Bytes of each flow that the user chose. None: the default of the load."""

    @property
    def size_bytes(self) -> int:
        """Bytes of each flow."""
        if self.chosen_bytes is not None:
            return self.chosen_bytes
        return NVLINK_BYTES if self.load is Load.INSIDE else NETWORK_BYTES

    def reversed(self) -> "Round":
        """Returns the round with every flow in the other direction."""
        return replace(self, source=self.target, target=self.source)

    def both_ways(self) -> "Round":
        """Returns the round with every flow in both directions."""
        ends = (self.source, self.target)
        return replace(self, source=np.concatenate(ends), target=np.concatenate(ends[::-1]))


def with_flows(rounds: Iterable[Round]) -> list[Round]:
    """Returns the rounds that have a flow."""
    return [one for one in rounds if len(one.source)]
