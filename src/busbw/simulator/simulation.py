"""Times of the flows of a round in a simulated cluster.

Each link of a path has a capacity, which its flows share equally. The rate of a flow is the smallest share on its path.
Noise is multiplicative: drift of the round, differences between NICs, between flows and between iterations. The traffic
of other jobs slows a few flows.
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
Mask = NDArray[np.bool_]

_FLOW_START_US = 20.0
"""Time from the start of a flow to its first byte."""
_ROUND_START_S = 0.12
"""Time in which a round makes its connections and warms up."""
_TIMEOUT_S = 30.0
"""Additional time of a round with a dead flow."""
_DUPLEX_RATE = 0.97
"""Rate of a NIC in each direction if both directions are busy, relative to a single busy direction."""


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Relative noise of a simulated cluster."""

    drift: float = 0.01
    """Standard deviation of the level of a round."""
    part: float = 0.004
    """Standard deviation between healthy NICs and GPUs."""
    flow: float = 0.01
    """Standard deviation between flows of one leaf or node. The deviation between leaves is twice as large."""
    iteration: float = 0.01
    """Standard deviation between iterations of a flow."""
    spike_share: float = 0.004
    """Share of iterations that take 1.2 to 3 times as long."""
    other_jobs: float = 0.01
    """Share of flows within a leaf that other jobs slow by 10 % to 100 %. Between leaves: three times as many."""


class Simulation:
    """A cluster with faults that measures flows."""

    is_coupled: bool = False
    """True if one kernel of a GPU sends and receives, so that the slower one determines both times."""

    def __init__(self, fabric: Fabric, faults: Sequence[SimulatedFault], noise: Noise, seed: int) -> None:
        self.fabric, self.faults, self.noise = fabric, tuple(faults), noise
        self._random = np.random.default_rng(seed)
        self._salt = int(self._random.integers(1 << 30))
        """Number that makes the hashes of uplinks depend on the seed."""
        count = fabric.nodes * fabric.gpus
        self._gpu_level = np.exp(self._random.normal(0, noise.part, count))
        """Relative rate of the NVLinks of each GPU."""
        self._nic_level = np.exp(self._random.normal(0, noise.part, (2, count)))
        """Relative rate of each NIC, sending and receiving."""
        nics = product(range(fabric.nodes), range(fabric.gpus))
        self._leaf: Numbers = np.array([fabric.leaf(node, nic) for node, nic in nics])

    def measure(self, source: Numbers, target: Numbers, size_bytes: int, iterations: int) -> tuple[Values, float]:
        """Returns the time in us of each iteration of each flow, and the duration in s. A dead flow has infinite times.

        `source` and `target`: sending and receiving GPU of each flow, numbered over all nodes.
        """
        gpus = self.fabric.gpus
        is_network = source // gpus != target // gpus
        shape = (len(source), iterations)
        source_nic, target_nic = self._carrying_nics(source, target)
        network_gbps = self._network_gbps(source_nic, target_nic, is_network)
        rate_gbps = np.where(is_network, network_gbps, self._nvlink_gbps(source, target))
        fault_factor = self._fault_factor(source, target, is_network, shape)
        noise_factor = self._noise_factor(source, target, is_network, shape)
        times = (size_bytes / rate_gbps / 1e3)[:, None] * fault_factor * noise_factor  # 1 GB/s is 1e3 bytes per us
        if self.is_coupled:
            times = self._coupled_times(source, target, times)
        longest_us = float(times[np.isfinite(times)].max(initial=0.0))
        timeout_s = _TIMEOUT_S if np.isinf(times).any() else 0.0
        return times + _FLOW_START_US, _ROUND_START_S + longest_us * iterations / 1e6 + timeout_s

    def _fault_factor(self, source: Numbers, target: Numbers, is_network: Mask, shape: tuple[int, int]) -> Values:
        """Returns [flows, iterations]: the factor by which the worst fault on the path prolongs an iteration."""
        worst: Values = np.ones(shape)
        for fault in self.faults:
            is_crossing = self._crosses_fault(fault, source, target, is_network)
            is_slow_iteration = self._random.random(shape) < fault.share
            reserve = self._reserve(fault, source, target)
            factor = np.where(is_crossing[:, None] & is_slow_iteration, fault.slowdown / reserve[:, None], 1.0)
            worst = np.maximum(worst, factor)
        return worst

    def _coupled_times(self, source: Numbers, target: Numbers, times: Values) -> Values:
        """Returns the times if one kernel receives a flow and sends another flow, and ends with the later flow."""
        flow_sent_by = np.full(len(self._leaf), -1)
        flow_sent_by[source] = np.arange(len(source))
        sent_by_receiver = flow_sent_by[target]  # -1: the receiver sends no flow
        return np.where((sent_by_receiver >= 0)[:, None], np.maximum(times, times[sent_by_receiver]), times)

    def _carrying_nics(self, source: Numbers, target: Numbers) -> tuple[Numbers, Numbers]:
        """Returns the NICs that carry each flow. The next NIC of the node carries the traffic of a failed NIC."""
        carrier = np.arange(self.fabric.nodes * self.fabric.gpus)
        for fault in self.faults:
            if fault.kind == "failover":
                node, nic = fault.place
                first = node * self.fabric.gpus
                carrier[first + nic] = first + (nic + 1) % self.fabric.gpus
        return carrier[source], carrier[target]

    def _flows_at_ends(self, source: Numbers, target: Numbers) -> Numbers:
        """Returns an array [2, flows]: number of flows of the same sender, and number of flows of the same receiver."""
        return np.stack([np.bincount(end, minlength=len(self._leaf))[end] for end in (source, target)])

    def _reserve(self, fault: SimulatedFault, source: Numbers, target: Numbers) -> Values:
        """Returns, for each flow, the rate that the slow part has without the fault, divided by the rate of the flow.

        With a ratio of 4, the flow uses a quarter of the part, because four flows share the other end of the flow. So
        the flow becomes slower only by a quarter of the slowdown.
        """
        flows = self._flows_at_ends(source, target)
        if fault.peer_gpus:  # one flow crosses the links between two GPUs, and its busier end limits its rate
            return np.asarray(flows.max(axis=0).astype(float))
        if fault.kind not in ("gpu", "nvlink"):
            return np.ones(len(source))
        slow_gpu = fault.place[0] * self.fabric.gpus + fault.place[1]
        flows_at_slow_end = np.where(source == slow_gpu, flows[0], flows[1])
        return np.asarray(flows.max(axis=0) / flows_at_slow_end)

    def _nvlink_gbps(self, source: Numbers, target: Numbers) -> Values:
        """Returns the rate of each flow if its GPUs are on one node. The slower end determines the rate."""
        levels = np.stack([self._gpu_level[source], self._gpu_level[target]]) / self._flows_at_ends(source, target)
        return np.asarray(NVLINK_GBPS * levels.min(axis=0))

    def _network_gbps(self, source: Numbers, target: Numbers, is_network: Mask) -> Values:
        """Returns the rate of each flow between nodes. `source` and `target`: NICs, numbered as their GPUs."""
        count = len(self._leaf)
        sent_flows = np.bincount(source[is_network], minlength=count)
        received_flows = np.bincount(target[is_network], minlength=count)
        is_duplex = (sent_flows > 0) & (received_flows > 0)
        nic_gbps = NIC_GBPS * self._nic_level * np.where(is_duplex, _DUPLEX_RATE, 1.0)
        source_gbps = nic_gbps[0, source] / np.maximum(sent_flows[source], 1)
        target_gbps = nic_gbps[1, target] / np.maximum(received_flows[target], 1)
        rate_gbps = np.minimum(source_gbps, target_gbps)
        source_leaf, target_leaf = self._leaf[source], self._leaf[target]
        is_across = is_network & (source_leaf != target_leaf)
        uplinks = self.fabric.uplinks

        def limit_by(links: Numbers, link_gbps: float) -> None:
            """Limits the flows between leaves to their share of a link. `links`: link of each flow."""
            flows_of_link = np.bincount(links[is_across])
            used = links[is_across]
            rate_gbps[is_across] = np.minimum(rate_gbps[is_across], link_gbps / flows_of_link[used])

        if self.fabric.is_adaptive:
            for leaf in (source_leaf, target_leaf):
                limit_by(leaf, uplinks * UPLINK_GBPS)
            return np.asarray(rate_gbps)
        # A flow has an equal part in each plane, and ends with its last part.
        for plane, leaf in product(range(self.fabric.planes), (source_leaf, target_leaf)):
            limit_by(leaf * uplinks + self._hashed_uplink(source, target, plane), UPLINK_GBPS)
        return np.asarray(rate_gbps)

    def _hashed_uplink(self, source: Numbers, target: Numbers, plane: int = 0) -> Numbers:
        """Returns the uplink of each flow, by a hash of its GPUs or NICs. A connection keeps its uplink."""
        mixed = ((source << 20) + target * 40503 + plane * 977 + self._salt) & 0xFFFFFFFF
        for factor in (2246822519, 3266489917):  # factors of xxHash32
            mixed = ((mixed ^ (mixed >> 15)) * factor) & 0xFFFFFFFF
        return np.asarray((mixed ^ (mixed >> 13)) % self.fabric.uplinks)

    def _crosses_fault(self, fault: SimulatedFault, source: Numbers, target: Numbers, is_network: Mask) -> Mask:
        """Returns True for each flow that crosses the slow part."""
        gpus, place = self.fabric.gpus, fault.place
        ends = np.stack([source, target])
        nodes, rails, leaves = ends // gpus, ends % gpus, self._leaf[ends]
        # The numbers of a place have another meaning for each kind, so each case uses only the masks of its kind.
        is_at_leaf = is_network & (leaves == place[0]).any(axis=0)
        is_at_uplink = is_at_leaf & (leaves[0] != leaves[1])
        # In each node, a GPU, its NIC and the rail of the NIC have the same number. -1: the fault has no such part.
        slow_number = place[1] if len(place) > 1 else -1
        is_slow_end = (nodes == place[0]) & (rails == slow_number)
        match fault.kind:
            case "gpu":
                is_crossing = is_slow_end.any(axis=0)
            case "gpu-ports":
                is_crossing = ~is_network & (is_slow_end & (self._flows_at_ends(source, target) > 1)).any(axis=0)
            case "nvlink":
                peers = fault.peer_gpus or range(gpus)
                gpus_at_other_end = rails[::-1]
                is_crossing = ~is_network & (is_slow_end & np.isin(gpus_at_other_end, peers)).any(axis=0)
            case "nic":
                is_crossing = is_network & is_slow_end.any(axis=0)
            case "nic-send":
                is_crossing = is_network & is_slow_end[0]
            case "nic-receive":
                is_crossing = is_network & is_slow_end[1]
            case "node":
                is_crossing = is_network & (nodes == place[0]).any(axis=0)
            case "pair":
                is_crossing = is_network & np.isin(nodes, place).all(axis=0)
            case "rail":
                is_crossing = is_network & (rails == place[0]).all(axis=0)
            case "leaf":
                is_crossing = is_at_leaf
            case "uplink":
                is_crossing = is_at_uplink
            case "one-uplink":
                is_crossing = is_at_uplink & (self._hashed_uplink(source, target) == place[1])
            case "failover":  # `_carrying_nics` has the effect of this fault
                is_crossing = np.zeros(len(source), dtype=bool)
            case _:
                raise AssertionError(f"the simulation has no effect of the fault {fault.kind}")
        return np.asarray(is_crossing)

    def _noise_factor(self, source: Numbers, target: Numbers, is_network: Mask, shape: tuple[int, int]) -> Values:
        """Returns the factor by which noise changes each iteration of each flow."""
        random, noise = self._random, self.noise
        is_across = is_network & (self._leaf[source] != self._leaf[target])
        log_of_flow = random.normal(0, noise.flow * np.where(is_across, 2, 1))
        other_job_probability = noise.other_jobs * np.select([is_across, is_network], [3, 1], default=0)
        has_other_job = random.random(shape[0]) < other_job_probability
        log_of_round = random.normal(0, noise.drift)
        other_job_factor = np.where(has_other_job, 1 + random.uniform(0.1, 1, shape[0]), 1)
        flow_factor = np.exp(log_of_round + log_of_flow) * other_job_factor
        spike_factor = np.where(random.random(shape) < noise.spike_share, random.uniform(1.2, 3, shape), 1)
        iteration_factor = np.exp(random.normal(0, noise.iteration, shape))
        return np.asarray(flow_factor[:, None] * spike_factor * iteration_factor)
