"""Measures rounds of a search in a simulated cluster, within this process."""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from busbw.find.cluster import Cluster
from busbw.find.observations import RoundResult
from busbw.find.rounds import Round
from busbw.simulator.simulation import Simulation

_DEAD_FLOW_ERROR = "timed out after 30 s"


class SimulatedMeasurer:
    """A simulated cluster as a measurer."""

    lost: Mapping[int, str] = MappingProxyType({})
    """No GPU is lost."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self.cluster = Cluster(simulation.fabric.describe())

    def measure(self, one_round: Round, iterations: int) -> RoundResult:
        """Returns the simulated times of all flows of a round. A flow with an infinite time has an error instead."""
        times, took_s = self._simulation.measure(one_round.source, one_round.target, one_round.size_bytes, iterations)
        is_dead = np.isinf(times).any(axis=1)
        times[is_dead] = np.nan
        errors = dict.fromkeys(map(int, np.flatnonzero(is_dead)), _DEAD_FLOW_ERROR)
        return RoundResult(times_us=times, errors=errors, took_s=took_s)
