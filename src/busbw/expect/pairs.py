"""Says how the bandwidth between two GPUs of an NVSwitch node rises with the message size.

Two GPUs reach their plateau at larger messages than more GPUs do. The plateau of all_gather and reduce_scatter is lower
than that of all_reduce. NCCL's model does not explain this, so the figures are measured ones.
"""

from typing import NamedTuple

from busbw.expect.types import Efficiency, Fractions, Scenario
from busbw.system import Fabric, System

_LOW, _HIGH = 0.88, 1.08
"""Ends of the range, as factors on the typical figure. Measured figures are 0.94 to 1.06 times the typical figure.

A fault that leaves two thirds of the links is below this range."""
_SOURCE = (
    "2 x H200 with nccl-tests, after the latency is subtracted (busbw reference h200-x2); "
    f"the range is {_LOW} to {_HIGH} of the typical figure"
)


class Pair(NamedTuple):
    """Bandwidth of a collective between two GPUs."""

    plateau: float
    """Fraction of the limit that large messages reach."""
    fractions: Fractions
    """Fractions of the plateau by message size."""

    @property
    def efficiency(self) -> Efficiency:
        """Range of the plateau."""
        return Efficiency(low=_LOW * self.plateau, typical=self.plateau, high=_HIGH * self.plateau, source=_SOURCE)


_REDUCE = Pair(0.92, ((8 << 20, 0.83), (32 << 20, 0.83), (128 << 20, 0.87), (512 << 20, 0.93), (2 << 30, 1)))
_GATHER = Pair(0.79, ((8 << 20, 0.78), (32 << 20, 0.81), (128 << 20, 0.86), (512 << 20, 0.92), (2 << 30, 1)))
_EXCHANGE = Pair(0.98, ((8 << 20, 0.66), (32 << 20, 0.72), (128 << 20, 0.84), (512 << 20, 1)))
# In an alltoall of two ranks, a rank sends half of its data to the other one, and keeps half.
_ALLTOALL = Pair(_EXCHANGE.plateau, tuple((2 * size_bytes, fraction) for size_bytes, fraction in _EXCHANGE.fractions))
_PAIRS = {
    "all_reduce": _REDUCE,
    "all_gather": _GATHER,
    "reduce_scatter": _GATHER,
    "sendrecv": _EXCHANGE,
    "alltoall": _ALLTOALL,
}


def find_pair(scenario: Scenario, system: System, fabric: Fabric | None) -> Pair | None:
    """Returns the figures for two GPUs. None for other scenarios and systems, which have no measurements.

    Bridges join pairs directly, and two GPUs of a mesh have a link of their own: both reach their plateau earlier.
    """
    is_pair = scenario.ranks == 2 and scenario.ranks_per_node >= 2  # two GPUs of one node
    is_nvswitch = fabric is not None and fabric.kind == "NVLink" and fabric.layout == "switch" and fabric.most_ranks > 2
    is_measured = is_pair and is_nvswitch and system.generation == "hopper"
    return _PAIRS.get(scenario.collective) if is_measured else None
