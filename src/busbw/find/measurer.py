"""Interface of everything that measures flows: a simulation, the engine or another program."""

from collections.abc import Mapping
from typing import Protocol

from busbw.find.cluster import Cluster
from busbw.find.observations import RoundResult
from busbw.find.rounds import Round


class Measurer(Protocol):
    """Measures rounds of flows of one cluster."""

    cluster: Cluster
    """The cluster that is measured. A caller may add leaf switches."""
    lost: Mapping[int, str]
    """GPUs that could not start, with the reason of each."""

    def measure(self, one_round: Round, iterations: int) -> RoundResult:
        """Returns the times of all flows of a round, which run at the same time.

        Raises:
            BusbwError: The round could not be measured.
        """
