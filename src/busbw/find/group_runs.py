"""Slow nodes from the times of many jobs, each on some of the nodes (group testing).

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
from busbw.find.peers import MIN_SLOW, healthy_level, healthy_spread
from busbw.find.power import KindPower, evidence_moments, kind_power
from busbw.statistics.bands import find_plateau_start
from busbw.units import count_text

MIN_RUNS = 4
"""Minimum number of runs of one configuration, and of runs at each size, for a comparison."""
_MIN_OTHERS = 3
"""Minimum number of comparable runs without a node, so that the runs with the node are evidence."""
_FALSE_SUSPICION = 0.05
"""Bound of the probability that any node of a healthy cluster is undecided."""
_QN = 2.2219
"""Standard deviation over the first quartile of pairwise differences. Up to half of the runs may be slow (Rousseeuw and
Croux, J. Am. Stat. Assoc. 88, 1993)."""
_LAGS = 16
"""Runs that each run is compared with for this quartile."""
_MIN_NOISE = 0.004
_MIN_OWN_NOISE_RUNS = 20
"""Minimum number of runs of a configuration with its own noise. Others have the noise of all runs."""
_SLOW_DEVIATIONS = 4.0
_PRIOR_RUNS, _MIN_SLOW_SHARE, _MAX_SLOW_SHARE = 4.0, 0.01, 0.5
_TAIL_WIDTH = 0.05
"""Width, in log time, of the kernel for the density of the excess of slow runs without a node."""
_SHARES: Values = np.array([*SHARES, 0.85])
_MAX_FAST_SHARE = 0.15
"""Maximum share of fast runs of a node that is always slow. Noise makes some runs fast."""
_MIN_SHARED = 0.5
"""Share of the slow runs of a node. A second node in this share of the runs could also explain them."""


class GroupRun(Struct, frozen=True, kw_only=True):
    """One run of a job."""

    nodes: frozenset[str]
    configuration: Hashable
    """Runs with the same configuration are comparable."""
    times_us: Mapping[tuple[Hashable, int], float]
    """Time by series (collective, type, placement, ...) and size in bytes."""


class GroupRuns:
    """Runs as arrays. Time is in log microseconds relative to the other runs of the configuration."""

    def __init__(self, runs: Sequence[GroupRun]) -> None:
        configurations = dict.fromkeys(run.configuration for run in runs)
        numbers = {configuration: number for number, configuration in enumerate(configurations)}
        self.classes: Indices = np.array([numbers[run.configuration] for run in runs], dtype=np.int64)
        """Number of the configuration of each run."""
        self.by_class = [np.flatnonzero(self.classes == number) for number in numbers.values()]
        """Runs of each configuration."""
        levels = np.full(len(runs), np.nan)
        for members in self.by_class:
            levels[members] = _relative_times([runs[int(member)].times_us for member in members])
        self.is_compared: Mask = ~np.isnan(levels)
        """True for each run with enough comparable ones."""
        self.levels: Values = np.where(self.is_compared, levels, 0.0)
        self.is_network: Mask = np.array([len(run.nodes) > 1 for run in runs], dtype=bool)
        self.nodes = tuple(sorted({node for run in runs for node in run.nodes}))
        self.members: Mask = np.array([[node in run.nodes for run in runs] for node in self.nodes], dtype=bool)
        self.members = self.members.reshape(len(self.nodes), len(runs)) & self.is_compared
        """True for each node (row) and compared run (column) with it."""
        self.usable: Mask = self.members.copy()
        """As `members`, without the runs of configurations that have too few runs without the node."""
        for members in self.by_class:
            others = self.is_compared[members].sum() - self.members[:, members].sum(axis=1)
            self.usable[np.ix_(others < _MIN_OTHERS, members)] = False


def _relative_times(runs: Sequence[Mapping[tuple[Hashable, int], float]]) -> Values:
    """Returns the log time of each run of a configuration relative to the others. NaN if there are too few runs.

    A run is judged at the sizes of the plateau of its configuration, because bandwidth limits these sizes.
    """
    times: dict[tuple[Hashable, int], list[float]] = {}
    for run in runs:
        for point, time_us in run.items():
            times.setdefault(point, []).append(np.log(time_us))
    medians = {point: float(np.median(values)) for point, values in times.items() if len(values) >= MIN_RUNS}
    curves: dict[Hashable, list[tuple[int, float]]] = {}
    for (series, size), level in medians.items():
        curves.setdefault(series, []).append((size, size / np.exp(level)))
    starts = {series: find_plateau_start(curve) or 0 for series, curve in curves.items()}
    judged = {(series, size): level for (series, size), level in medians.items() if size >= starts[series]}
    differences: list[list[float]] = []
    for run in runs:
        differences.append([float(np.log(run[point]) - level) for point, level in judged.items() if point in run])
    relative = np.array([np.median(values) if values else np.nan for values in differences])
    return relative if np.isfinite(relative).sum() >= MIN_RUNS else np.full(len(runs), np.nan)


class RunComparison:
    """Excess of each run over the healthy runs of its configuration, and the noise of each run."""

    def __init__(self, runs: GroupRuns, explained: Values, node: int | None = None) -> None:
        """Compares all runs with the runs that no slow node explains.

        Args:
            runs: The runs.
            explained: Excess of each run that slow nodes explain.
            node: Node in question. The comparison is with the runs without this node. None: with all runs.
        """
        self.is_other: Mask = runs.is_compared & (explained < MIN_SLOW)
        """True for each run that the runs are compared with."""
        if node is not None:
            self.is_other &= ~runs.members[node]
        others_by_class = [members[self.is_other[members]] for members in runs.by_class]
        noise = [_first_noise([runs.levels[others] for others in others_by_class])] * len(others_by_class)
        self.excess: Values = np.zeros(len(runs.levels))
        all_others = np.flatnonzero(self.is_other)
        for _ in range(2):  # the second time with a better noise
            for number, (members, others) in enumerate(zip(runs.by_class, others_by_class, strict=True)):
                if len(others):
                    self.excess[members] = runs.levels[members] - healthy_level(runs.levels[others], noise[number])
            for number, others in enumerate(others_by_class):
                noise_runs = others if len(others) >= _MIN_OWN_NOISE_RUNS else all_others
                noise[number] = healthy_spread(self.excess[noise_runs], noise[number])
        run_noise = np.maximum(noise, _MIN_NOISE)[runs.classes]
        self.is_slow: Mask = runs.is_compared & (self.excess > np.maximum(_SLOW_DEVIATIONS * run_noise, MIN_SLOW))
        # The healthy level is a median of the other runs. The fewer the runs, the larger its own error.
        counts = np.array([max(len(others), 1) for others in others_by_class])
        self.noise: Values = run_noise * np.sqrt(1 + np.pi / 2 / counts[runs.classes])
        slow_others = (self.is_slow & self.is_other).sum()
        expected_share = (slow_others + _PRIOR_RUNS * _MIN_SLOW_SHARE) / (self.is_other.sum() + _PRIOR_RUNS)
        self.slow_share = float(np.clip(expected_share, _MIN_SLOW_SHARE, _MAX_SLOW_SHARE))
        """Share of the runs that are slow although no slow node explains it."""


def _first_noise(levels_by_class: Sequence[Values]) -> float:
    """Returns an estimate of the noise that needs no healthy level."""
    differences = [
        np.abs(levels[lag:] - levels[:-lag]) for levels in levels_by_class for lag in range(1, min(_LAGS, len(levels)))
    ]
    return max(_QN * float(np.quantile(np.concatenate([np.zeros(1), *differences]), 0.25)), _MIN_NOISE)


@dataclass(frozen=True)
class RunSearch:
    """Slow nodes, and the comparison of the runs with the runs that these nodes do not slow."""

    findings: list[Finding]
    undecided: list[UndecidedParts]
    compared: RunComparison


def find_slow_nodes(runs: GroupRuns) -> RunSearch:
    """Returns a small set of slow nodes that explains the slow runs, found greedily as by `explain`."""
    explained = np.zeros(len(runs.levels))
    findings: list[Finding] = []
    undecided: list[UndecidedParts] = []
    named: list[int] = []
    while len(named) < len(runs.nodes):
        evidence = [_evidence(runs, node, explained) for node in range(len(runs.nodes))]
        # The mean of the likelihood ratios is an e-value.
        log_e_values = np.array([logsumexp(of_node) - np.log(of_node.size) for of_node in evidence])
        scores = log_e_values - np.log(len(evidence))
        scores[named] = -np.inf
        best = int(np.argmax(scores))
        if scores[best] < -np.log(_FALSE_SUSPICION):
            break
        slow = _slow_node(runs, best, evidence[best], explained)
        named.append(best)
        if slow.excess < np.log(MIN_SLOWDOWN):
            continue
        shared = runs.members[:, slow.supports].mean(axis=1)
        is_rival = (shared >= _MIN_SHARED) & (scores > scores[best] - UNDECIDED_MARGIN)
        if not slow.is_persistent:  # nodes may be slow only together
            is_rival |= (shared == 1) & (scores > -np.log(_FALSE_SUSPICION))
        is_rival[named] = False
        rivals = sorted(np.flatnonzero(is_rival).tolist(), key=lambda node: -scores[node])
        named += rivals
        if rivals or scores[best] < -np.log(FALSE_ACCUSATION):
            undecided.append(_undecided(slow, [best, *rivals], runs))
        else:
            findings.append(_finding(slow, best, float(1 - np.exp(-scores[best])), runs))
        explained = np.maximum(explained, np.where(slow.explains, slow.excess, 0.0))
    return RunSearch(findings, undecided, RunComparison(runs, explained))


def _evidence(runs: GroupRuns, node: int, explained: Values) -> Values:
    """Returns the evidence of the runs of a node for each hypothesis about it.

    The hypotheses (columns) are first the levels of a node that is always slow. The shares of slow runs of a node that
    is slow now and then follow. The second row is for a node that is slow only in runs with other nodes.
    """
    own = np.flatnonzero(runs.usable[node])
    if not len(own):
        return np.zeros((2, len(LEVELS) + len(_SHARES)))
    compared = RunComparison(runs, explained, node)
    # Slow runs without the node, with the same excess, are a reason against the node: they have another cause.
    distance = compared.excess[own, None] - compared.excess[compared.is_other & compared.is_slow]
    kernel = np.exp(-0.5 * (distance / _TAIL_WIDTH) ** 2) / (_TAIL_WIDTH * np.sqrt(2 * np.pi))
    tail = kernel.sum(axis=1) / max(distance.shape[1], 1)
    healthy_share = compared.slow_share
    persistent = persistent_evidence(
        compared.excess[own],
        explained[own],
        noise=compared.noise[own],
        slow_share=np.full(len(own), healthy_share),
        tail=tail,
    )
    ratios = np.where(compared.is_slow[own, None], _SHARES / healthy_share, (1 - _SHARES) / (1 - healthy_share))
    intermittent = np.where(explained[own, None] < MIN_SLOW, np.log(ratios), 0.0)
    evidence = np.hstack([persistent, intermittent])
    return np.stack([evidence.sum(axis=0), evidence[runs.is_network[own]].sum(axis=0)])


@dataclass(frozen=True)
class _SlowNode:
    """The effect of a node on its runs."""

    compared: RunComparison
    own: Mask
    """True for each run that the node can slow."""
    supports: Mask
    """True for each slow run that supports the finding of this node."""
    excess: float
    is_persistent: bool

    @property
    def explains(self) -> Mask:
        """True for each run that the node slows."""
        return self.own if self.is_persistent else self.supports


def _slow_node(runs: GroupRuns, node: int, evidence: Values, explained: Values) -> _SlowNode:
    """Returns the effect of a node. `evidence`: as `_evidence` returns it."""
    compared = RunComparison(runs, explained, node)
    row, hypothesis = np.unravel_index(int(np.argmax(evidence)), evidence.shape)
    is_slow_alone = row == 0  # see `_evidence`
    own = runs.usable[node] & (runs.is_network | is_slow_alone)
    free = own & (explained < MIN_SLOW)
    excess = float(np.median(compared.excess[free if free.any() else own]))
    supports = own & (compared.excess > excess / 2)
    is_mostly_slow = supports.sum() >= (1 - _MAX_FAST_SHARE) * own.sum()
    is_persistent = bool(hypothesis < len(LEVELS) and is_mostly_slow)
    if not is_persistent:
        supports = free & compared.is_slow
        excess = float(np.median(compared.excess[supports])) if supports.any() else 0.0
    return _SlowNode(compared, own, supports, excess, is_persistent)


def _finding(slow: _SlowNode, node: int, confidence: float, runs: GroupRuns) -> Finding:
    low, high = np.exp(np.quantile(slow.compared.excess[slow.supports], [0.1, 0.9]))
    companions = runs.members[:, slow.supports].any(axis=1) & (np.arange(len(runs.nodes)) != node)
    exonerating = int((runs.members[companions].any(axis=0) & ~slow.compared.is_slow & ~slow.own).sum())
    count, all_runs = int(slow.supports.sum()), count_text(int(slow.own.sum()), "run")
    speed = f"{np.exp(slow.excess):.2f} times the time of comparable runs (10-90 %: {low:.2f} to {high:.2f})"
    exonerated = count_text(exonerating, "fast run exonerates", "fast runs exonerate")
    return Finding(
        kind="node",
        node=runs.nodes[node],
        slowdown=round(float(np.exp(slow.excess)), 3),
        slowdown_low=round(float(low), 3),
        slowdown_high=round(float(high), 3),
        confidence=min(round(confidence, 4), MAX_CONFIDENCE),
        flows=count,
        exonerating_flows=exonerating,
        intermittent=not slow.is_persistent,
        slow_share=None if slow.is_persistent else round(count / int(slow.own.sum()), 3),
        says=f"runs with node {runs.nodes[node]} take {speed}; {count:,} of {all_runs} with it are slow, confidence "
        f"{min(np.floor(confidence * 1000) / 10, 99.9)} %, {exonerated} the other nodes of these runs",
    )


def _undecided(slow: _SlowNode, nodes: list[int], runs: GroupRuns) -> UndecidedParts:
    """Returns the nodes with the run that decides: each of these nodes with a node of many fast runs."""
    fast = (runs.members & ~slow.compared.is_slow & ~slow.own).sum(axis=1)
    partner = runs.nodes[int(np.argmax(fast))]
    names = [runs.nodes[node] for node in nodes]
    return UndecidedParts(
        between=tuple(NamedPart(kind="node", node=name) for name in names),
        slowdown=round(float(np.exp(slow.excess)), 3),
        says=f"{count_text(int(slow.supports.sum()), 'slow run')} with node {' or '.join(names)}, "
        f"{np.exp(slow.excess):.2f} times the time of comparable runs. "
        f"Run {'each of them without the others' if len(names) > 1 else 'it again'}, with node {partner}, "
        f"which is in {count_text(int(fast.max()), 'fast run')}.",
    )


def run_power(runs: GroupRuns, compared: RunComparison) -> KindPower:
    """Returns the power of the runs: the probability that they name a node that is slower by 10 %."""
    noise, noise_of_run = np.unique(compared.noise, return_inverse=True)
    means, variances = evidence_moments(noise, np.full(len(noise), compared.slow_share))
    run_counts = runs.usable.sum(axis=1)
    usable = runs.usable[run_counts > 0]
    hypotheses = 2 * (len(LEVELS) + len(_SHARES))
    return kind_power(
        "node",
        all_parts=len(run_counts),
        flows=run_counts[run_counts > 0],
        mean=usable @ means[noise_of_run],
        variance=usable @ variances[noise_of_run],
        limit=np.log(hypotheses * len(run_counts) / FALSE_ACCUSATION),
    )
