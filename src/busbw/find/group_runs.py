"""Slow nodes from the times of many jobs, each on some of the nodes (group testing), for `busbw find --logs`.

A run is as slow as its slowest node. For each node, the runs with the node are compared with comparable runs without
the node. The runs without the node give the healthy level, the noise, and the share of runs that are slow for another
reason. So a node is named only if it is in slow runs more often than chance allows. `evidence` computes the evidence
and the error bounds, as for flows.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec import Struct
from scipy.special import logsumexp

from busbw.find.cluster import Indices, Mask
from busbw.find.evidence import LEVELS, SHARES, persistent_evidence
from busbw.find.explanation import FALSE_ACCUSATION, MIN_SLOWDOWN, UNDECIDED_MARGIN
from busbw.find.findings import MAX_CONFIDENCE, Finding, UndecidedParts
from busbw.find.naming import NamedPart
from busbw.find.observations import Values
from busbw.find.peers import MIN_SLOW
from busbw.find.power import KindPower, evidence_moments, kind_power
from busbw.statistics.bands import find_plateau_start
from busbw.statistics.healthy import healthy_level, healthy_spread
from busbw.units import count_text

MIN_RUNS = 4
"""Minimum number of runs of one configuration, and of runs at each size, for a comparison."""
_MIN_OTHERS = 3
"""Minimum number of comparable runs without a node, so that the runs with the node are evidence."""
_FALSE_SUSPICION = 0.05
"""Bound of the probability that any node of a healthy cluster is undecided."""
_QN = 2.2219
"""Ratio of the standard deviation of normal noise to the first quartile of the absolute differences between pairs.

The estimate stays correct if up to half of the runs are slow (Rousseeuw and Croux, J. Am. Stat. Assoc. 88, 1993)."""
_MAX_PAIR_DISTANCE = 15
"""Each run is paired with at most this many runs that follow it. All pairs would be too many."""
_MIN_NOISE = 0.004
"""Minimum noise of a run, in log time. Few equal times could otherwise give a noise of 0."""
_MIN_OWN_NOISE_RUNS = 20
"""Minimum number of runs of a configuration with its own noise. Smaller configurations have the noise of all runs."""
_SLOW_DEVIATIONS = 4.0
"""A run is slow if its excess is more than this many times its noise, and more than `MIN_SLOW`."""
_MIN_SLOW_SHARE, _MAX_SLOW_SHARE = 0.01, 0.5
"""Bounds of the share of runs that are slow without a slow node."""
_PRIOR_RUNS = 4.0
"""The estimate of this share adds this many runs with the share `_MIN_SLOW_SHARE`, because there may be few runs."""
_TAIL_WIDTH = 0.05
"""Width, in log time, of the kernel for the density of the excess of slow runs without a node."""
_SHARES: Values = np.array([*SHARES, 0.85])
"""Shares of slow runs of the hypotheses about a node that is slow now and then."""
_MAX_FAST_SHARE = 0.15
"""Maximum share of fast runs of a node that is always slow. Noise makes some runs fast."""
_MIN_SHARED = 0.5
"""A second node could explain the slow runs of a node if it takes part in at least this share of these runs."""
_ALSO_ALONE, _ONLY_WITH_OTHERS = 0, 1
"""Rows of `_evidence`: the node is slow even in runs of this node alone, or only in runs with other nodes."""


class GroupRun(Struct, frozen=True, kw_only=True):
    """One run of a job."""

    nodes: frozenset[str]
    configuration: Hashable
    """Runs with the same configuration are comparable."""
    times_us: Mapping[tuple[Hashable, int], float]
    """Time by series (collective, type, placement, ...) and size in bytes."""


class GroupRuns:
    """Runs as arrays."""

    def __init__(self, runs: Sequence[GroupRun]) -> None:
        configurations = dict.fromkeys(run.configuration for run in runs)
        numbers = {configuration: number for number, configuration in enumerate(configurations)}
        self.configuration_numbers: Indices = np.array([numbers[run.configuration] for run in runs], dtype=np.int64)
        """Number of the configuration, for each run."""
        self.by_configuration = [np.flatnonzero(self.configuration_numbers == number) for number in numbers.values()]
        """Positions of the runs of each configuration."""
        levels = np.full(len(runs), np.nan)
        for same_runs in self.by_configuration:
            levels[same_runs] = _relative_times([runs[int(run)].times_us for run in same_runs])
        self.is_compared: Mask = ~np.isnan(levels)
        """True for each run with enough comparable runs."""
        self.levels: Values = np.where(self.is_compared, levels, 0.0)
        """Log time of each run relative to its configuration. 0 for a run that is not compared."""
        self.has_several_nodes: Mask = np.array([len(run.nodes) > 1 for run in runs], dtype=bool)
        self.nodes = tuple(sorted({node for run in runs for node in run.nodes}))
        takes_part = np.array([[node in run.nodes for run in runs] for node in self.nodes], dtype=bool)
        self.has_node: Mask = takes_part.reshape(len(self.nodes), len(runs)) & self.is_compared
        """True for each node (row) and each compared run with this node (column)."""
        self.is_usable: Mask = self.has_node.copy()
        """As `has_node`, without the runs of configurations that have too few runs without the node."""
        for same_runs in self.by_configuration:
            other_counts = self.is_compared[same_runs].sum() - self.has_node[:, same_runs].sum(axis=1)
            self.is_usable[np.ix_(other_counts < _MIN_OTHERS, same_runs)] = False


def _relative_times(runs: Sequence[Mapping[tuple[Hashable, int], float]]) -> Values:
    """Returns the log time of each run of a configuration relative to the others. NaN if there are too few runs.

    A run is judged at the sizes of the plateau of its configuration, because bandwidth limits these sizes.
    """
    log_times: dict[tuple[Hashable, int], list[float]] = {}
    for run in runs:
        for point, time_us in run.items():
            log_times.setdefault(point, []).append(np.log(time_us))
    medians = {point: float(np.median(values)) for point, values in log_times.items() if len(values) >= MIN_RUNS}
    speed_curves: dict[Hashable, list[tuple[int, float]]] = {}
    for (series, size), median in medians.items():
        speed_curves.setdefault(series, []).append((size, size / np.exp(median)))
    # A series without a plateau is judged at all sizes.
    plateau_starts = {series: find_plateau_start(curve) or 0 for series, curve in speed_curves.items()}
    plateau = {(series, size): median for (series, size), median in medians.items() if size >= plateau_starts[series]}
    relative = np.full(len(runs), np.nan)
    for number, run in enumerate(runs):
        differences = [np.log(run[point]) - median for point, median in plateau.items() if point in run]
        if differences:
            relative[number] = np.median(differences)
    has_enough_runs = np.isfinite(relative).sum() >= MIN_RUNS
    return relative if has_enough_runs else np.full(len(runs), np.nan)


class RunComparison:
    """Excess of each run over the healthy runs of its configuration, and the noise of each run."""

    def __init__(self, runs: GroupRuns, explained: Values, node: int | None = None) -> None:
        """Compares all runs with their peers: the runs that no known slow node slows.

        Args:
            runs: The runs.
            explained: Excess of each run that slow nodes explain.
            node: Node in question. The peers are then only runs without this node. None: no node is in question.
        """
        self.is_peer: Mask = runs.is_compared & (explained < MIN_SLOW)
        """True for each of the peers."""
        if node is not None:
            self.is_peer &= ~runs.has_node[node]
        self.excess, noise = _excess_and_noise(runs, self.is_peer)
        run_noise = np.maximum(noise, _MIN_NOISE)[runs.configuration_numbers]
        self.is_slow: Mask = runs.is_compared & (self.excess > np.maximum(_SLOW_DEVIATIONS * run_noise, MIN_SLOW))
        # The healthy level is a median of n peers, which has the variance noise ** 2 * pi / 2 / n.
        peer_counts = np.array([max(self.is_peer[same_runs].sum(), 1) for same_runs in runs.by_configuration])
        self.noise: Values = run_noise * np.sqrt(1 + np.pi / 2 / peer_counts[runs.configuration_numbers])
        slow_peers = (self.is_slow & self.is_peer).sum()
        estimated_share = (slow_peers + _PRIOR_RUNS * _MIN_SLOW_SHARE) / (self.is_peer.sum() + _PRIOR_RUNS)
        self.slow_share = float(np.clip(estimated_share, _MIN_SLOW_SHARE, _MAX_SLOW_SHARE))
        """Estimated share of slow runs among the peers."""


def _excess_and_noise(runs: GroupRuns, is_peer: Mask) -> tuple[Values, list[float]]:
    """Returns the excess of each run over the healthy level of its peers, and the noise of each configuration."""
    peers_by_configuration = [same_runs[is_peer[same_runs]] for same_runs in runs.by_configuration]
    noise = [_first_noise([runs.levels[peers] for peers in peers_by_configuration])] * len(peers_by_configuration)
    excess = np.zeros(len(runs.levels))
    all_peers = np.flatnonzero(is_peer)
    for _ in range(2):  # level and noise depend on each other, so the second pass improves both
        for same_runs, peers, own_noise in zip(runs.by_configuration, peers_by_configuration, noise, strict=True):
            if len(peers):
                excess[same_runs] = runs.levels[same_runs] - healthy_level(runs.levels[peers], own_noise)
        for number, peers in enumerate(peers_by_configuration):
            noise_runs = peers if len(peers) >= _MIN_OWN_NOISE_RUNS else all_peers
            noise[number] = healthy_spread(excess[noise_runs], noise[number])
    return excess, noise


def _first_noise(levels_by_configuration: Sequence[Values]) -> float:
    """Returns an estimate of the noise that needs no healthy level."""
    differences = [
        np.abs(levels[distance:] - levels[:-distance])
        for levels in levels_by_configuration
        for distance in range(1, min(_MAX_PAIR_DISTANCE + 1, len(levels)))
    ]
    return max(_QN * float(np.quantile(np.concatenate([np.zeros(1), *differences]), 0.25)), _MIN_NOISE)


@dataclass(frozen=True)
class RunSearch:
    """Slow nodes, and the comparison of the runs with the runs that these nodes do not slow."""

    findings: list[Finding]
    undecided: list[UndecidedParts]
    comparison: RunComparison


def find_slow_nodes(runs: GroupRuns) -> RunSearch:
    """Returns a small set of slow nodes that explains the slow runs, found greedily as in `busbw.find.explanation`.

    Each pass examines the node with the highest score. A score is the log of a likelihood ratio, less the log of the
    number of nodes. In a healthy cluster, any node reaches the score -log(p) with a probability of at most p.
    """
    min_suspect_score, min_finding_score = -np.log(_FALSE_SUSPICION), -np.log(FALSE_ACCUSATION)
    explained = np.zeros(len(runs.levels))
    findings: list[Finding] = []
    undecided: list[UndecidedParts] = []
    examined: list[int] = []
    while len(examined) < len(runs.nodes):
        evidence = [_evidence(runs, node, explained) for node in range(len(runs.nodes))]
        # The mean of the likelihood ratios of all hypotheses is an e-value (see `busbw.find.evidence`).
        log_e_values = np.array([logsumexp(ratios) - np.log(ratios.size) for ratios in evidence])
        scores = log_e_values - np.log(len(evidence))
        scores[examined] = -np.inf
        best = int(np.argmax(scores))
        if scores[best] < min_suspect_score:
            break
        slow = _slow_node(runs, best, evidence[best], explained)
        examined.append(best)
        if slow.excess < np.log(MIN_SLOWDOWN):
            continue
        shared_support = runs.has_node[:, slow.is_support].mean(axis=1)
        is_rival = (shared_support >= _MIN_SHARED) & (scores > scores[best] - UNDECIDED_MARGIN)
        if not slow.is_persistent:
            # Perhaps two nodes are slow only together. So a suspect in every slow run is a rival too.
            is_rival |= (shared_support == 1) & (scores > min_suspect_score)
        is_rival[examined] = False
        rivals = sorted(np.flatnonzero(is_rival).tolist(), key=lambda node: -scores[node])
        examined += rivals
        if rivals or scores[best] < min_finding_score:
            undecided.append(_undecided(slow, [best, *rivals], runs))
        else:
            findings.append(_finding(slow, best, float(1 - np.exp(-scores[best])), runs))
        explained = np.maximum(explained, np.where(slow.is_slowed, slow.excess, 0.0))
    return RunSearch(findings, undecided, RunComparison(runs, explained))


def _evidence(runs: GroupRuns, node: int, explained: Values) -> Values:
    """Returns the evidence of the runs of a node for each hypothesis about this node.

    Rows:
        `_ALSO_ALONE`: The node can be slow in all of its runs, even in runs of this node alone.
        `_ONLY_WITH_OTHERS`: The node can be slow only in runs with other nodes.

    Columns:
        One for each of `LEVELS`: The node is always slow, with this excess.
        One for each of `_SHARES`: The node is slow now and then, in this share of its runs.
    """
    own = np.flatnonzero(runs.is_usable[node])
    if not len(own):
        return np.zeros((2, len(LEVELS) + len(_SHARES)))
    comparison = RunComparison(runs, explained, node)
    # Slow runs without the node, with the same excess, are a reason against the node: they have another cause.
    distance = comparison.excess[own, None] - comparison.excess[comparison.is_peer & comparison.is_slow]
    kernel = np.exp(-0.5 * (distance / _TAIL_WIDTH) ** 2) / (_TAIL_WIDTH * np.sqrt(2 * np.pi))
    tail = kernel.sum(axis=1) / max(distance.shape[1], 1)
    healthy_share = comparison.slow_share
    persistent = persistent_evidence(
        comparison.excess[own],
        explained[own],
        noise=comparison.noise[own],
        slow_share=np.full(len(own), healthy_share),
        tail=tail,
        headroom=np.zeros(len(own)),
    )
    ratios = np.where(comparison.is_slow[own, None], _SHARES / healthy_share, (1 - _SHARES) / (1 - healthy_share))
    intermittent = np.where(explained[own, None] < MIN_SLOW, np.log(ratios), 0.0)
    evidence_by_run = np.hstack([persistent, intermittent])
    evidence = np.empty((2, evidence_by_run.shape[1]))
    evidence[_ALSO_ALONE] = evidence_by_run.sum(axis=0)
    evidence[_ONLY_WITH_OTHERS] = evidence_by_run[runs.has_several_nodes[own]].sum(axis=0)
    return evidence


@dataclass(frozen=True, kw_only=True)
class _SlowNode:
    """The effect of a node on its runs."""

    comparison: RunComparison
    can_be_slowed: Mask
    """True for each usable run of the node. If the node is slow only with other nodes: false for its runs alone."""
    is_support: Mask
    """True for each slow run that supports the finding of this node."""
    excess: float
    """Median excess of the runs that the node slows."""
    is_persistent: bool
    """True if the node is always slow, false if it is slow now and then."""

    @property
    def is_slowed(self) -> Mask:
        """True for each run that the node slows."""
        return self.can_be_slowed if self.is_persistent else self.is_support


def _slow_node(runs: GroupRuns, node: int, evidence: Values, explained: Values) -> _SlowNode:
    """Returns the effect of a node. `evidence`: as `_evidence` returns it."""
    comparison = RunComparison(runs, explained, node)
    row, hypothesis = np.unravel_index(int(np.argmax(evidence)), evidence.shape)
    can_be_slowed = runs.is_usable[node]
    if row == _ONLY_WITH_OTHERS:
        can_be_slowed = can_be_slowed & runs.has_several_nodes
    is_unexplained = can_be_slowed & (explained < MIN_SLOW)
    # First the excess and the support of a node that is always slow, from runs without other slow nodes if possible.
    is_judged = is_unexplained if is_unexplained.any() else can_be_slowed
    excess = float(np.median(comparison.excess[is_judged]))
    is_support = can_be_slowed & (comparison.excess > excess / 2)
    is_mostly_slow = is_support.sum() >= (1 - _MAX_FAST_SHARE) * can_be_slowed.sum()
    is_always_slow_hypothesis = hypothesis < len(LEVELS)
    is_persistent = bool(is_always_slow_hypothesis and is_mostly_slow)
    if not is_persistent:
        is_support = is_unexplained & comparison.is_slow
        excess = float(np.median(comparison.excess[is_support])) if is_support.any() else 0.0
    return _SlowNode(
        comparison=comparison,
        can_be_slowed=can_be_slowed,
        is_support=is_support,
        excess=excess,
        is_persistent=is_persistent,
    )


def _finding(slow: _SlowNode, node: int, confidence: float, runs: GroupRuns) -> Finding:
    low, high = np.exp(np.quantile(slow.comparison.excess[slow.is_support], [0.1, 0.9]))
    is_companion = runs.has_node[:, slow.is_support].any(axis=1) & (np.arange(len(runs.nodes)) != node)
    is_fast_without_node = ~slow.comparison.is_slow & ~slow.can_be_slowed
    exonerating = int((runs.has_node[is_companion].any(axis=0) & is_fast_without_node).sum())
    slow_count, run_count = int(slow.is_support.sum()), int(slow.can_be_slowed.sum())
    speed = f"{np.exp(slow.excess):.2f} times the time of comparable runs (10-90 %: {low:.2f} to {high:.2f})"
    exonerated = count_text(exonerating, "fast run exonerates", "fast runs exonerate")
    return Finding(
        kind="node",
        node=runs.nodes[node],
        slowdown=round(float(np.exp(slow.excess)), 3),
        slowdown_low=round(float(low), 3),
        slowdown_high=round(float(high), 3),
        confidence=min(round(confidence, 4), MAX_CONFIDENCE),
        flows=slow_count,
        exonerating_flows=exonerating,
        intermittent=not slow.is_persistent,
        slow_share=None if slow.is_persistent else round(slow_count / run_count, 3),
        says=f"runs with node {runs.nodes[node]} take {speed}; {slow_count:,} of {count_text(run_count, 'run')} with "
        f"it are slow, confidence {min(np.floor(confidence * 1000) / 10, 99.9)} %, {exonerated} "
        "the other nodes of these runs",
    )


def _undecided(slow: _SlowNode, nodes: list[int], runs: GroupRuns) -> UndecidedParts:
    """Returns the nodes, and a text that requests runs of each node with one partner: the node with most fast runs."""
    fast_runs = (runs.has_node & ~slow.comparison.is_slow & ~slow.can_be_slowed).sum(axis=1)
    fast_runs[nodes] = 0  # a suspect is no partner
    names = [runs.nodes[node] for node in nodes]
    next_runs = "each of them without the others" if len(names) > 1 else "it again"
    if fast_runs.any():
        partner = runs.nodes[int(np.argmax(fast_runs))]
        next_runs += f", with node {partner}, which is in {count_text(int(fast_runs.max()), 'fast run')}"
    return UndecidedParts(
        between=tuple(NamedPart(kind="node", node=name) for name in names),
        slowdown=round(float(np.exp(slow.excess)), 3),
        says=f"{count_text(int(slow.is_support.sum()), 'slow run')} with node {' or '.join(names)}, "
        f"{np.exp(slow.excess):.2f} times the time of comparable runs. Run {next_runs}.",
    )


def run_power(runs: GroupRuns, comparison: RunComparison) -> KindPower:
    """Returns the power of the runs: the probability that they name a node that is slower by 10 %."""
    noise, noise_of_run = np.unique(comparison.noise, return_inverse=True)
    means, variances = evidence_moments(noise, np.full(len(noise), comparison.slow_share))
    run_counts = runs.is_usable.sum(axis=1)
    usable = runs.is_usable[run_counts > 0]
    hypotheses = 2 * (len(LEVELS) + len(_SHARES))
    return kind_power(
        "node",
        all_parts=len(run_counts),
        flows=run_counts[run_counts > 0],
        mean=usable @ means[noise_of_run],
        variance=usable @ variances[noise_of_run],
        limit=np.log(hypotheses * len(run_counts) / FALSE_ACCUSATION),
    )
