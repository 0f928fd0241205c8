"""Three existing rules that name slow nodes, on simulated jobs: baselines for `busbw find`.

Each rule judges a job by one number, the bandwidth of an all-reduce over its nodes. A ring is as slow as its slowest
link. So the number here is the smallest rate of any flow of the job, relative to the nominal rate. A job below a floor
fails. The floors are those of the tools, relative to the rate of a healthy H100 node:

- cluster-health-scanner (81c525d): the first jobs are random pairs of nodes, with a floor of 250 of 355 GB/s (A3
  Ultra). Each suspect runs again with a node that passed. A node that has passed once stays passed.
- ncclscout (oci-hpc, b5285a68): the first jobs are neighbors in list order, with a floor of 440 of 480 GB/s. Then the
  suspects run with good nodes, and with each other. A node passes by its best job.
- cluster-readiness-engine (908cb14, designs 055 and 056): groups of ceil(sqrt(nodes)) nodes run at once, and failed
  groups are bisected. If both halves pass, the fault is between them. Each suspect runs again with a healthy node.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil, sqrt

import numpy as np

from busbw.find.rounds import NETWORK_BYTES
from busbw.simulator.fabric import NIC_GBPS, NVLINK_GBPS
from busbw.simulator.simulation import Simulation

_ITERATIONS = 10
CHS_FLOOR, SCOUT_FLOOR, ENGINE_FLOOR = 250 / 355, 440 / 480, 0.8
"""Floors of cluster-health-scanner (CHS), ncclscout and cluster-readiness-engine."""
_SCOUT_MAX_SUSPECT_PAIRS = 10
"""Maximum number of pairs of suspects that run together in ncclscout."""
_CHS_REPEATS = 3
"""Rounds of each job of cluster-health-scanner, which judges by their mean."""

Nodes = Sequence[int]


@dataclass(frozen=True)
class Accusation:
    """Nodes that a rule calls slow, and the rounds of jobs that it used."""

    nodes: frozenset[int]
    rounds: int


class JobMeasurer:
    """Measures jobs: a ring over the nodes on every rail, and a ring over the GPUs of each node."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    def scores(self, jobs: Sequence[Nodes]) -> list[float]:
        """Returns the bandwidth of each job relative to its nominal value. All jobs run at once."""
        network_flows, node_flows = zip(*(self._flows(job) for job in jobs), strict=True)
        scores = np.full(len(jobs), np.inf)
        for flows_of_jobs, nominal_gbps in ((network_flows, NIC_GBPS), (node_flows, NVLINK_GBPS)):
            job_of_flow = np.repeat(np.arange(len(jobs)), [len(flows) for flows in flows_of_jobs])
            relative_rates = self._rates(np.concatenate(flows_of_jobs)) / nominal_gbps
            np.minimum.at(scores, job_of_flow, relative_rates)  # the slowest flow of each job
        return [float(score) for score in scores]

    def _flows(self, job: Nodes) -> tuple[np.ndarray, np.ndarray]:
        """Returns sending and receiving GPU of each flow of a job: first between nodes, second within nodes."""
        gpus = self._simulation.fabric.gpus
        local = np.arange(gpus)
        nodes = np.array(job)
        network = np.empty((0, 2), dtype=np.int64)
        if len(job) > 1:
            next_nodes = np.roll(nodes, -1)
            network = np.stack(
                [(nodes[:, None] * gpus + local).ravel(), (next_nodes[:, None] * gpus + local).ravel()], axis=1
            )
        inside = np.empty((0, 2), dtype=np.int64)
        if gpus > 1:
            first = nodes[:, None] * gpus
            inside = np.stack([(first + local).ravel(), (first + np.roll(local, -1)).ravel()], axis=1)
        return network, inside

    def _rates(self, flows: np.ndarray) -> np.ndarray:
        if not len(flows):
            return np.zeros(0)
        times, _ = self._simulation.measure(flows[:, 0], flows[:, 1], NETWORK_BYTES, _ITERATIONS)
        return np.asarray(NETWORK_BYTES / times.mean(axis=1) / 1e3)


def cluster_health_scanner(jobs: JobMeasurer, nodes: int, random: np.random.Generator) -> Accusation:
    """Returns the nodes that fail twice."""

    def passing_nodes(pairs: Sequence[Nodes]) -> set[int]:
        means = np.mean([jobs.scores(pairs) for _ in range(_CHS_REPEATS)], axis=0)
        passing_pairs = [pair for pair, mean in zip(pairs, means, strict=True) if mean >= CHS_FLOOR]
        return {node for pair in passing_pairs for node in pair}

    order = [int(node) for node in random.permutation(nodes)]
    passed = passing_nodes(_neighbors(order))
    suspects = [node for node in order if node not in passed]
    rounds = _CHS_REPEATS
    if passed and suspects:
        partners = sorted(passed)
        retests = [(node, partners[int(random.integers(len(partners)))]) for node in suspects]
        for batch in _disjoint(retests):
            passed |= passing_nodes(batch)
            rounds += _CHS_REPEATS
    return Accusation(frozenset(set(order) - passed), rounds)


def ncclscout(jobs: JobMeasurer, nodes: int, random: np.random.Generator) -> Accusation:
    """Returns the nodes with a best job below the floor."""
    del random  # the other rules need it
    best = np.zeros(nodes)  # score of the best job of each node
    rounds = 0

    def measure(pairs: Sequence[Nodes]) -> None:
        nonlocal rounds
        for batch in _disjoint(pairs):
            for pair, score in zip(batch, jobs.scores(batch), strict=True):
                best[list(pair)] = np.maximum(best[list(pair)], score)
            rounds += 1

    measure(_neighbors(list(range(nodes))))
    good = np.flatnonzero(best >= SCOUT_FLOOR)
    bad = np.flatnonzero(best < SCOUT_FLOOR)
    if len(good):
        measure([(int(node), int(good[index % len(good)])) for index, node in enumerate(bad)])
    bad = np.flatnonzero(best < SCOUT_FLOOR)
    pairs = [(int(left), int(right)) for index, left in enumerate(bad) for right in bad[index + 1 :]]
    measure(pairs[:_SCOUT_MAX_SUSPECT_PAIRS])
    return Accusation(frozenset(map(int, np.flatnonzero(best < SCOUT_FLOOR))), rounds)


@dataclass
class _Bisection:
    """Result of bisecting the groups that fail."""

    suspects: set[int] = field(default_factory=set)
    """Nodes of failed groups of at most two nodes, which are not bisected."""
    boundary: set[int] = field(default_factory=set)
    """Nodes of failed groups with halves that both passed: the fault is between the halves."""
    healthy: set[int] = field(default_factory=set)
    """Nodes of groups that passed."""
    rounds: int = 0


def _bisect_failed_groups(jobs: JobMeasurer, nodes: int) -> _Bisection:
    """Measures groups of ceil(sqrt(nodes)) nodes, then the halves of each failed group, and so on."""
    size = max(ceil(sqrt(nodes)), 2)
    order = list(range(nodes))
    groups: list[Nodes] = [order[start : start + size] for start in range(0, nodes, size)]
    parents: list[Nodes] = []  # groups of the previous round with halves that are measured now
    result = _Bisection()
    while groups:
        scores = jobs.scores(groups)
        result.rounds += 1
        failed = [group for group, score in zip(groups, scores, strict=True) if score < ENGINE_FLOOR]
        passed = [group for group, score in zip(groups, scores, strict=True) if score >= ENGINE_FLOOR]
        result.healthy |= {node for group in passed for node in group}
        result.boundary |= {node for parent in parents if _both_passed(parent, passed) for node in parent}
        result.suspects |= {node for group in failed if len(group) <= 2 for node in group}
        parents = [group for group in failed if len(group) > 2]
        groups = [half for parent in parents for half in _halves(parent)]
    return result


def cluster_readiness_engine(jobs: JobMeasurer, nodes: int, random: np.random.Generator) -> Accusation:
    """Returns the nodes that bisection and a retest leave, or both halves of a boundary fault."""
    bisection = _bisect_failed_groups(jobs, nodes)
    rounds = bisection.rounds
    suspects = bisection.suspects
    partners = [int(node) for node in random.permutation(sorted(bisection.healthy - suspects))]
    cleared: set[int] = set()
    if partners:
        retests = [(node, partners[index % len(partners)]) for index, node in enumerate(sorted(suspects))]
        for batch in _disjoint(retests):
            scores = jobs.scores(batch)
            rounds += 1
            cleared |= {suspect for (suspect, _), score in zip(batch, scores, strict=True) if score >= ENGINE_FLOOR}
    return Accusation(frozenset((suspects - cleared) | bisection.boundary), rounds)


def _halves(group: Nodes) -> tuple[Nodes, Nodes]:
    middle = len(group) // 2
    return group[:middle], group[middle:]


def _both_passed(parent: Nodes, passed: Sequence[Nodes]) -> bool:
    return all(half in passed for half in _halves(parent))


def _neighbors(order: Sequence[int]) -> list[Nodes]:
    """Returns pairs of neighbors. A last node without a neighbor is paired with the first node."""
    pairs: list[Nodes] = [order[start : start + 2] for start in range(0, len(order) - 1, 2)]
    if len(order) % 2 == 1 and len(order) > 1:
        pairs.append((order[-1], order[0]))
    return pairs


def _disjoint(pairs: Sequence[Nodes]) -> Iterator[list[Nodes]]:
    """Yields batches of pairs that share no node."""
    remaining = list(pairs)
    while remaining:
        seen_nodes: set[int] = set()
        batch: list[Nodes] = []
        later: list[Nodes] = []
        for pair in remaining:
            if seen_nodes.isdisjoint(pair):
                batch.append(pair)
            else:
                later.append(pair)
            seen_nodes.update(pair)
        yield batch
        remaining = later


Rule = Callable[[JobMeasurer, int, np.random.Generator], Accusation]
RULES: dict[str, Rule] = {
    "cluster-health-scanner": cluster_health_scanner,
    "ncclscout": ncclscout,
    "cluster-readiness-engine": cluster_readiness_engine,
}
"""The three rules by the name of their tool."""
