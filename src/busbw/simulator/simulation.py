"""Times of the flows of a round in a simulated cluster.

Each link of a path has a capacity, which its flows share equally. The rate of a flow is the smallest share on its path.
Noise is multiplicative: drift of the round, differences between NICs, between flows and between iterations. A few flows
are slowed by the traffic of other jobs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from busbw.simulator.fabric import NIC_GBPS, NVLINK_GBPS, UPLINK_GBPS, Fabric
from busbw.simulator.faults import SimulatedFault

Numbers = NDArray[np.int64]
Values = NDArray[np.float64]

_START_US, _CONNECT_S = 20.0, 0.12
"""Start of a flow, and start of a round with its connections and its warm-up."""
_LINKS_OF_A_DIRECTION = 0.97
"""Rate of a NIC in each direction, relative to one direction alone, if both are busy."""


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Relative noise of a simulated cluster."""

    drift: float = 0.01
    """Standard deviation of the level of a round."""
    part: float = 0.004
    """Standard deviation between healthy NICs and GPUs."""
    flow: float = 0.01
    """Standard deviation between flows of one leaf or node. Flows between leaves have twice as much."""
    iteration: float = 0.01
    spike_share: float = 0.004
    """Share of iterations that take 1.2 to 3 times as long."""
    other_jobs: float = 0.01
    """Share of flows between nodes that other jobs slow, by 10 % to 100 %. Three times as many between leaves."""


class Simulation:
    """A cluster with faults that measures flows."""

    is_coupled: bool = False
    """True if one kernel of a GPU sends and receives, so that the slower one determines both times."""

    def __init__(self, fabric: Fabric, faults: Sequence[SimulatedFault], noise: Noise, seed: int) -> None:
        self.fabric, self.faults, self.noise = fabric, tuple(faults), noise
        self._random = np.random.default_rng(seed)
        self._salt = int(self._random.integers(1 << 30))
        count = fabric.nodes * fabric.gpus
        self._gpu_level = np.exp(self._random.normal(0, noise.part, count))
        self._nic_level = np.exp(self._random.normal(0, noise.part, (2, count)))
        self._leaf = np.array([fabric.leaf(node, nic) for node in range(fabric.nodes) for nic in range(fabric.gpus)])

    def measure(self, source: Numbers, target: Numbers, size_bytes: int, iterations: int) -> tuple[Values, float]:
        """Returns the time in us of each iteration of each flow, infinite if it is dead, and the duration in s.

        Args:
            source: Sending GPU of each flow, numbered over all nodes.
            target: Receiving GPU of each flow.
            size_bytes: Bytes of a flow.
            iterations: Number of iterations.
        """
        gpus = self.fabric.gpus
        is_network = source // gpus != target // gpus
        shape = (len(source), iterations)
        slowdown = np.ones(shape)
        nic_of = self._carrying_nics(source, target)
        rate = np.where(is_network, self._network_rate(*nic_of, is_network), self._nvlink_rate(source, target))
        for fault in self.faults:
            hit = self._hit(fault, source, target, is_network)
            affected = self._random.random(shape) < fault.share
            factor = np.where(hit[:, None] & affected, fault.slowdown, 1.0)
            slowdown = np.maximum(slowdown, factor)
        times = (size_bytes / rate / 1e3)[:, None] * slowdown * self._noise_factor(source, target, is_network, shape)
        if self.is_coupled:
            sent = np.full(len(self._leaf), -1)
            sent[source] = np.arange(len(source))
            other = sent[target]  # flow that the receiver sends; its kernel ends with the later one
            times = np.where((other >= 0)[:, None], np.maximum(times, times[other]), times)
        finite = times[np.isfinite(times)]
        took_s = _CONNECT_S + float(finite.max(initial=0.0)) * iterations / 1e6 + 30.0 * bool(np.isinf(times).any())
        return times + _START_US, took_s

    def _carrying_nics(self, source: Numbers, target: Numbers) -> tuple[Numbers, Numbers]:
        """Returns the NICs that carry each flow. Another NIC of the node carries the traffic of a failed one."""
        carrier = np.arange(self.fabric.nodes * self.fabric.gpus)
        for fault in self.faults:
            if fault.kind == "failover":
                node, nic = fault.place
                first = node * self.fabric.gpus
                carrier[first + nic] = first + (nic + 1) % self.fabric.gpus
        return carrier[source], carrier[target]

    def _nvlink_rate(self, source: Numbers, target: Numbers) -> Values:
        count = len(self._gpu_level)
        sends, receives = np.bincount(source, minlength=count), np.bincount(target, minlength=count)
        level = np.minimum(self._gpu_level[source], self._gpu_level[target])
        return np.asarray(NVLINK_GBPS * level / np.maximum(sends[source], receives[target]))

    def _network_rate(self, source: Numbers, target: Numbers, is_network: NDArray[np.bool_]) -> Values:
        count = len(self._leaf)
        sends = np.bincount(source[is_network], minlength=count)
        receives = np.bincount(target[is_network], minlength=count)
        is_busy = (sends > 0) & (receives > 0)
        nic_gbps = NIC_GBPS * self._nic_level * np.where(is_busy, _LINKS_OF_A_DIRECTION, 1.0)
        rate = np.minimum(
            nic_gbps[0, source] / np.maximum(sends[source], 1), nic_gbps[1, target] / np.maximum(receives[target], 1)
        )
        up, down = self._leaf[source], self._leaf[target]
        is_across = is_network & (up != down)
        links = self.fabric.uplinks
        if self.fabric.is_adaptive:
            for leaf in (up, down):
                load = np.bincount(leaf[is_across], minlength=int(self._leaf.max()) + 1)
                rate[is_across] = np.minimum(rate, links * UPLINK_GBPS / np.maximum(load[leaf], 1))[is_across]
            return np.asarray(rate)
        for plane, leaf in product(range(self.fabric.planes), (up, down)):
            # A flow has an equal part in each plane, and ends with the last one.
            link = leaf * links + self._hashed_uplink(source, target, plane)
            load = np.bincount(link[is_across], minlength=(int(self._leaf.max()) + 1) * links)
            rate[is_across] = np.minimum(rate, UPLINK_GBPS / np.maximum(load[link], 1))[is_across]
        return np.asarray(rate)

    def _hashed_uplink(self, source: Numbers, target: Numbers, plane: int = 0) -> Numbers:
        """Returns the uplink of each flow. It depends on the connection, and does not change."""
        mixed = ((source << 20) + target * 40503 + plane * 977 + self._salt) & 0xFFFFFFFF
        for factor in (2246822519, 3266489917):
            mixed = ((mixed ^ (mixed >> 15)) * factor) & 0xFFFFFFFF
        return np.asarray((mixed ^ (mixed >> 13)) % self.fabric.uplinks)

    def _hit(
        self, fault: SimulatedFault, source: Numbers, target: Numbers, is_network: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Returns True for each flow that crosses the slow part."""
        gpus, place = self.fabric.gpus, fault.place
        nodes = source // gpus, target // gpus
        leaves = self._leaf[source], self._leaf[target]
        is_across = is_network & (leaves[0] != leaves[1])
        number = place[0] * gpus + place[1] if len(place) > 1 else place[0]
        if fault.kind == "gpu":
            return np.asarray((source == number) | (target == number))
        if fault.kind == "nvlink":
            other = place[0] * gpus + place[2] if len(place) > 2 else None
            first, second = source == number, target == number
            if other is not None:
                first, second = first & (target == other), second & (source == other)
            return np.asarray(~is_network & (first | second))
        if fault.kind in ("nic", "nic-send", "nic-receive"):
            sends = (source == number) & (fault.kind != "nic-receive")
            return np.asarray(is_network & (sends | ((target == number) & (fault.kind != "nic-send"))))
        if fault.kind == "node":
            return np.asarray(is_network & ((nodes[0] == place[0]) | (nodes[1] == place[0])))
        if fault.kind == "pair":
            return np.asarray(np.isin(nodes[0], place) & np.isin(nodes[1], place) & is_network)
        if fault.kind == "rail":
            return np.asarray(is_network & (source % gpus == place[0]) & (target % gpus == place[0]))
        if fault.kind == "leaf":
            return np.asarray(is_network & ((leaves[0] == place[0]) | (leaves[1] == place[0])))
        touches = is_across & ((leaves[0] == place[0]) | (leaves[1] == place[0]))
        if fault.kind == "uplink":
            return np.asarray(touches)
        if fault.kind == "one-uplink":
            return np.asarray(touches & (self._hashed_uplink(source, target) == place[1]))
        return np.zeros(len(source), dtype=bool)  # failover: the carrying NIC shares its rate

    def _noise_factor(
        self, source: Numbers, target: Numbers, is_network: NDArray[np.bool_], shape: tuple[int, int]
    ) -> Values:
        random, noise = self._random, self.noise
        is_across = is_network & (self._leaf[source] != self._leaf[target])
        flow = random.normal(0, noise.flow * np.where(is_across, 2, 1))
        jobs = random.random(shape[0]) < noise.other_jobs * np.where(is_across, 3, np.where(is_network, 1, 0))
        factor = np.exp(random.normal(0, noise.drift) + flow) * np.where(jobs, 1 + random.uniform(0.1, 1, shape[0]), 1)
        spikes = np.where(random.random(shape) < noise.spike_share, random.uniform(1.2, 3, shape), 1)
        return np.asarray(factor[:, None] * spikes * np.exp(random.normal(0, noise.iteration, shape)))
