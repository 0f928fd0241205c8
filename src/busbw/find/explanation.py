"""Small set of slow parts that explains the slow flows, found greedily.

The part with the most evidence is added first. Its flows then count as explained, which changes the evidence for all
other parts on their paths. This repeats until no part has enough evidence. At the end, a part is removed if the other
remaining parts explain its flows. The order resembles Flock (arXiv 2305.03348) and 007 (NSDI 2018).

The *excess* of a flow is its log time less that of its healthy peers (`busbw.find.peers`). A *hypothesis* about a part
states by how much the part slows its flows, and which share of them. A *hub* is a GPU with several partners.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from busbw.find.candidates import Candidates, CandidateSelector
from busbw.find.cluster import UNKNOWN, Indices, Mask
from busbw.find.evidence import (
    DEAD_LEVEL,
    LEVELS,
    LINK_SHARES,
    Evidence,
    intermittent_evidence,
    persistent_evidence,
    slow_iteration_limit,
    with_hidden,
)
from busbw.find.observations import Observations, Values
from busbw.find.parts import FAMILIES, Part, flows_of
from busbw.find.peers import HUB_TOLERANCE, MIN_SLOW, Peers, compare_with_peers
from busbw.statistics import NORMAL_MAD

FALSE_ACCUSATION = 1e-3
"""Bound of the probability that a search of a healthy cluster accuses a part."""
MIN_SLOWDOWN = 1.07
"""Time relative to the peers from which a part is named. Smaller differences between healthy parts are common."""
UNDECIDED_MARGIN = 5.0
"""Difference of log evidence below which two parts are not told apart (odds of 150 to 1)."""
SUSPECT_SCORE = -1.0
"""Score from which a part that is not named deserves more rounds."""
_MAX_PAIRS, _MAX_PARTS = 2, 24
"""Slow pairs of nodes that are few enough to be no collisions. Findings after which the search gives up."""
_MAX_SUSPECTS, _MAX_RIVALS = 64, 8
"""Maximum number of suspects of a search, and of rivals of one part. They bound the time and the output."""
_MIN_SHARED_SUPPORT, _MAX_RIVAL_DISTANCE = 0.5, 20.0
"""Minimum share of the supporting flows of a part that also cross a rival, and maximum difference of their scores."""
_CANDIDATE_DEVIATIONS = 2.0
"""A flow suggests a part if its excess is more than this many times the noise, and more than `MIN_SLOW`."""
_SLOW_DEVIATIONS = 3.0
"""A flow is slow if its unexplained excess is more than this many times the noise, and more than `MIN_SLOW`."""
_MIN_UNLIKE_SHARE = 0.1
"""Minimum share of slow flows of a part in a cluster with unlike parts, because most slow-downs may stay hidden."""
_MIN_SUPPORT = 1.0
"""Log evidence above which a flow supports a part."""
_NOISE_FLOWS = 4096
"""Number of flows of a class that suffice for the noise of its iterations. All flows would take seconds."""
_MIN_INTERMITTENT_SHARE, _MIN_INTERMITTENT_FLOWS = 0.06, 2
"""Minimum share and minimum number of supporting flows of a part that is slow now and then."""

ScoredPart = tuple[Part, float]
"""A part and its score: log e-value (`busbw.find.evidence`), less the log number of parts that could be accused."""


@dataclass(frozen=True, kw_only=True)
class Culprit:
    """A part that explains slow flows."""

    part: Part
    score: float
    """As in `ScoredPart`."""
    rivals: tuple[ScoredPart, ...]
    """Other parts that would explain the same flows, and this part in other directions. Best first."""
    excess: float
    """Log of the slow-down of its flows. DEAD_LEVEL if they failed."""
    is_dead: bool = False
    """True if most of its flows failed."""
    flows: Indices
    """Flows that the part slows. If only one of its hashed links is slow, only some flows that cross the part."""
    share: float | None = None
    """Share of slow iterations, if the part is slow now and then. None if it is always slow."""

    def confidence(self, synonyms: Sequence[Part]) -> float:
        """Returns the probability that this part or a synonym is slow, among all parts that would explain its flows.

        Args:
            synonyms: Parts that no flow tells apart from this part (`is_synonym`).
        """
        log_odds_of_others = [
            score - self.score
            for part, score in self.rivals
            if part.hardware != self.part.hardware and part not in synonyms
        ]
        odds_of_others = np.sum(np.exp(np.minimum(log_odds_of_others, 50)))  # limited, so that no value is infinite
        probability_of_fault = 1 - np.exp(-max(self.score, 0))
        return float(1 / (1 + odds_of_others) * probability_of_fault)

    @property
    def close_rivals(self) -> list[Part]:
        """Parts that explain the same flows almost as well."""
        return [part for part in self._close if part.hardware != self.part.hardware]

    @property
    def has_open_direction(self) -> bool:
        """True if the part in another direction explains the flows almost as well."""
        return any(part.hardware == self.part.hardware for part in self._close)

    @property
    def _close(self) -> list[Part]:
        return [part for part, score in self.rivals if score > self.score - UNDECIDED_MARGIN]


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Slow parts of a cluster, and the comparison of the flows with their peers."""

    culprits: tuple[Culprit, ...]
    suspects: tuple[ScoredPart, ...]
    """Parts with some evidence, but too little to be named. Best first."""
    peers: Peers
    excess: Values
    """Excess of each flow. DEAD_LEVEL if it transferred nothing."""
    explained: Values
    """Excess that the culprits explain, for each flow."""


def explain(observed: Observations, *, had_collisions: bool = False) -> Explanation:
    """Returns the slow parts that explain the observed flows.

    Args:
        observed: The flows.
        had_collisions: `Peers.omits_pairs` of an explanation of the first of these flows. True saves time.
    """
    if had_collisions:
        explanation = _explain(observed, omits_pairs=True)
        if explanation.peers.collide_on_unknown_leaves(observed.paths.cluster):
            return explanation
    explanation = _explain(observed, omits_pairs=False)
    return _explain(observed, omits_pairs=True) if _pairs_may_collide(observed, explanation) else explanation


def _explain(observed: Observations, *, omits_pairs: bool) -> Explanation:
    peers = compare_with_peers(observed, np.zeros(len(observed)), omits_pairs=omits_pairs)
    persistent = _PersistentModel(observed, peers)
    culprits, suspects = _find_culprits(persistent)
    explained = _explained_by(culprits, len(observed))
    if culprits:
        healthy_peers = compare_with_peers(observed, explained, omits_pairs=omits_pairs)  # without culprits' flows
        if healthy_peers.differ_from(peers):
            persistent = _PersistentModel(observed, healthy_peers)
            culprits, suspects = _find_culprits(persistent)
            explained = _explained_by(culprits, len(observed))
        peers = healthy_peers
    intermittent = _IntermittentModel(observed, peers, explained)
    intermittent_culprits, intermittent_suspects = _find_culprits(intermittent)
    return Explanation(
        culprits=(*culprits, *intermittent_culprits),
        suspects=_best_first([*suspects, *intermittent_suspects]),
        peers=peers,
        excess=persistent.excess,
        explained=np.maximum(explained, _explained_by(intermittent_culprits, len(observed))),
    )


def _pairs_may_collide(observed: Observations, explanation: Explanation) -> bool:
    """True if slow pairs of nodes may be collisions: apart from `_MAX_PAIRS` pairs, many flows are still slow."""
    if not (observed.paths.cluster.nic_leaf == UNKNOWN).any():
        return False
    pairs = [culprit for culprit in explanation.culprits if culprit.part.kind == "pair"]
    explained = _explained_by([one for one in explanation.culprits if one not in pairs[_MAX_PAIRS:]], len(observed))
    return compare_with_peers(observed, explained).collide_on_unknown_leaves(observed.paths.cluster)


def _explained_by(culprits: Iterable[Culprit], flow_count: int) -> Values:
    """Returns the excess of each flow that the culprits explain."""
    explained = np.zeros(flow_count)
    for culprit in culprits:
        explained[culprit.flows] = np.maximum(explained[culprit.flows], culprit.excess)
    return explained


def _best_first(parts: Iterable[ScoredPart]) -> tuple[ScoredPart, ...]:
    return tuple(sorted(parts, key=lambda scored_part: -scored_part[1]))


def is_evidence(observed: Observations, peers: Peers) -> Mask:
    """Returns True for each flow with a time that says something about the parts on its path."""
    return np.asarray((peers.is_usable[observed.classes] | observed.is_dead) & ~observed.is_repeated)


def is_unexplained(observed: Observations, explanation: Explanation) -> Mask:
    """Returns True for each flow that is slower than the culprits explain."""
    limit = np.maximum(_SLOW_DEVIATIONS * explanation.peers.noise[observed.classes], MIN_SLOW)
    return np.asarray(explanation.excess - explanation.explained > limit)


class _PersistentModel:
    """Parts that slow all their flows by the same factor."""

    def __init__(self, observed: Observations, peers: Peers) -> None:
        self._observed, self._peers = observed, peers
        self.excess: Values = np.where(observed.is_dead, DEAD_LEVEL, peers.excess)
        """As in `Explanation`."""
        self._classes = observed.classes
        self._headroom = peers.headroom[observed.classes]
        self._is_usable = is_evidence(observed, peers)
        self._selector = CandidateSelector(observed, peers, self._is_usable)

    def select_candidates(self) -> Candidates:
        """Returns the parts with at least half of their flows slow. Hashed or unlike parts need a smaller share."""
        limit = np.maximum(_CANDIDATE_DEVIATIONS * self._peers.noise[self._classes], MIN_SLOW)
        min_share = _MIN_UNLIKE_SHARE if self._headroom.any() else 0.5
        return self._selector.select(self.excess > limit, min_share=min_share)

    def evidence_of(self, flows: Indices, explained: Values) -> Evidence:
        """Returns the evidence of each flow (row) for each hypothesis (column). `explained`: of all observed flows."""
        classes = self._classes[flows]
        evidence = persistent_evidence(
            self.excess[flows],
            explained[flows],
            noise=self._peers.noise[classes],
            slow_share=self._peers.slow_share[classes],
            tail=self._peers.slow_density[flows],
            headroom=self._headroom[flows],
        )
        # A healthy hub may be faster or slower than its peers by the tolerance. So a slow part of less than twice the
        # tolerance can hide in a tolerated hub. Such a hub is no evidence for or against this part.
        is_within_tolerance = self._peers.is_tolerated[flows, None] & (LEVELS < 2 * HUB_TOLERANCE)
        evidence[~self._is_usable[flows, None] | is_within_tolerance] = 0
        return evidence

    def make_culprit(self, part: Part, flows: Indices, explained: Values, hypothesis: int) -> Culprit | None:
        """Returns the part with its slow-down. None if the slow-down is too small to name the part.

        Args:
            part: The part.
            flows: Flows that are evidence for the part.
            explained: Excess that the other culprits explain, for each flow.
            hypothesis: Most likely hypothesis: a column of `Candidates.totals`.
        """
        share_number, level_number = divmod(hypothesis, len(LEVELS))  # the columns are all levels for each share
        share = LINK_SHARES[share_number]
        slowed = np.flatnonzero(flows_of(part, self._observed.paths))
        if share < 1:
            # A connection counts as slowed if it crosses the slow link with a probability of more than one half.
            connections, connection_of_flow = np.unique(self._observed.connections[flows], return_inverse=True)
            evidence_of_flow = self.evidence_of(flows, explained)[:, level_number]
            evidence_of_connection = np.bincount(connection_of_flow, evidence_of_flow)
            is_slowed = evidence_of_connection > np.log(1 / share - 1)
            slowed = slowed[np.isin(self._observed.connections[slowed], connections[is_slowed])]
            flows = np.intersect1d(flows, slowed)
        # Flows that another part slows as much say nothing about the speed of this part.
        own = flows[self._is_usable[flows] & (explained[flows] < LEVELS[level_number] - np.log(MIN_SLOWDOWN))]
        if not len(own):
            return None
        own = own[self._headroom[own] == self._headroom[own].min()]  # the others may hide the slow-down
        unexplained = np.median(self.excess[own] - explained[own])
        min_unexplained = HUB_TOLERANCE if part.needs_hub else np.log(MIN_SLOWDOWN)
        if unexplained < min_unexplained:
            return None
        return Culprit(
            part=part,
            score=0,
            rivals=(),
            excess=float(np.median(self.excess[own])),
            is_dead=bool(np.mean(self._observed.is_dead[own]) > 0.5),
            flows=slowed,
        )


class _IntermittentModel(_PersistentModel):
    """Parts that slow a share of the iterations or of the flows that cross them."""

    def __init__(self, observed: Observations, peers: Peers, explained: Values) -> None:
        super().__init__(observed, peers)
        self._limit = slow_iteration_limit(np.maximum(_iteration_noise(observed), peers.noise)[self._classes])
        """Excess from which an iteration of each flow is slow."""
        is_slow_iteration = observed.iterations > (peers.reference + explained + self._limit)[:, None]
        self._slow_counts = is_slow_iteration.sum(axis=1)
        self._iteration_counts = (~np.isnan(observed.iterations)).sum(axis=1)
        iterations = int(self._iteration_counts.max(initial=0))
        is_complete = (self._iteration_counts == iterations) & (self._iteration_counts > 0)
        self._is_compared = (explained == 0) & is_complete & self._is_usable
        compared = np.flatnonzero(self._is_compared)
        # Flows of a class with equally many slow iterations have the same evidence.
        self._evidence_by_count = intermittent_evidence(
            self._slow_counts[compared], self._classes[compared], iterations
        )

    def select_candidates(self) -> Candidates:
        """Returns parts with several flows that support an intermittent fault."""
        compared = np.flatnonzero(self._is_compared)
        best_by_count = self._evidence_by_count.max(axis=2)
        supports = np.zeros(len(self._observed), dtype=bool)
        supports[compared] = best_by_count[self._classes[compared], self._slow_counts[compared]] > _MIN_SUPPORT
        return self._selector.select(supports, min_share=_MIN_INTERMITTENT_SHARE, min_flows=_MIN_INTERMITTENT_FLOWS)

    def evidence_of(self, flows: Indices, explained: Values) -> Evidence:
        evidence = np.zeros((len(flows), self._evidence_by_count.shape[2]), dtype=np.float32)
        has_evidence = self._is_compared[flows] & (explained[flows] == 0)
        compared = flows[has_evidence]
        evidence[has_evidence] = self._evidence_by_count[self._classes[compared], self._slow_counts[compared]]
        is_unlike = self._headroom[flows] > 0
        # A faster part can be hidden in such a flow, so the flow hardly exonerates, but its slow iterations count.
        evidence[is_unlike] = np.maximum(evidence[is_unlike], with_hidden(evidence[is_unlike], 0.0))
        return evidence

    def make_culprit(self, part: Part, flows: Indices, explained: Values, hypothesis: int) -> Culprit | None:
        unexplained = flows[(explained[flows] == 0) & self._is_usable[flows]]
        iteration_count = int(self._iteration_counts[unexplained].sum())
        iteration_excess = self._observed.iterations[unexplained] - self._peers.reference[unexplained, None]
        slow_excess = iteration_excess[iteration_excess > self._limit[unexplained, None]]
        if not iteration_count or not len(slow_excess):
            return None
        return Culprit(
            part=part,
            score=0,
            rivals=(),
            excess=float(np.median(slow_excess)),
            flows=np.flatnonzero(flows_of(part, self._observed.paths)),
            share=float(self._slow_counts[unexplained].sum()) / iteration_count,
        )


def _iteration_noise(observed: Observations) -> Values:
    """Returns the standard deviation of the iterations of a flow, by class. 0 for a class without times."""
    noise = np.zeros(int(observed.classes.max(initial=0)) + 1)
    for class_number in np.unique(observed.classes):
        flows = np.flatnonzero((observed.classes == class_number) & ~observed.is_dead)
        flows = flows[:: max(len(flows) // _NOISE_FLOWS, 1)]
        if len(flows):
            deviations = np.abs(observed.iterations[flows] - observed.level[flows, None])
            noise[class_number] = NORMAL_MAD * np.nanmedian(deviations)
    return noise


def _scores(totals: Evidence, penalty: Values) -> Values:
    """Returns the score of each part (row). The e-value of a part is the mean over the hypotheses (columns)."""
    log_e_values = logsumexp(totals, axis=1) - np.log(totals.shape[1])
    return np.asarray(log_e_values - penalty)


def _find_culprits(model: _PersistentModel) -> tuple[list[Culprit], list[ScoredPart]]:
    """Returns the parts that explain the flows, and the remaining parts with some evidence."""
    candidates = model.select_candidates()
    return _GreedySearch(candidates, model).run() if candidates.parts else ([], [])


class _GreedySearch:
    """Search for the parts of one model that explain the flows."""

    def __init__(self, candidates: Candidates, model: _PersistentModel) -> None:
        self._candidates, self._model = candidates, model
        self._min_score = float(np.log(len(FAMILIES) / FALSE_ACCUSATION))
        """Score from which a part is a culprit. The bound on false accusations is divided by the number of families."""
        self._explained = np.zeros(len(model.excess))
        """Excess of each flow that the culprits of the last call of `_scores_without` explain."""
        # The next three arrays belong to `_explained`: evidence of the crossing flows, totals and scores of the parts.
        self._evidence = model.evidence_of(candidates.crossing, self._explained)
        self._totals = candidates.totals(self._evidence, np.arange(len(candidates.parts)))
        self._known_scores = _scores(self._totals, candidates.penalty)

    def run(self) -> tuple[list[Culprit], list[ScoredPart]]:
        """Returns the parts that explain the flows, and the remaining parts with some evidence."""
        parts = self._candidates.parts
        is_unexamined = np.ones(len(parts), dtype=bool)
        culprits: list[Culprit] = []
        while True:
            scores = np.where(is_unexamined, self._scores_without(culprits), -np.inf)
            best = int(np.argmax(scores))
            if scores[best] < self._min_score or len(culprits) >= _MAX_PARTS:
                break
            is_unexamined[best] = False
            hypothesis = int(np.argmax(self._totals[best]))
            culprit = self._model.make_culprit(parts[best], self._candidates.flows(best), self._explained, hypothesis)
            if culprit is not None:
                culprits.append(replace(culprit, score=float(scores[best]), rivals=self._rivals(best, scores)))
        culprits = self._without_superfluous(culprits)
        scores = np.where(is_unexamined, self._scores_without(culprits), -np.inf)
        best_rows = np.argsort(-scores)[:_MAX_SUSPECTS]
        return culprits, [(parts[row], float(scores[row])) for row in best_rows if scores[row] > SUSPECT_SCORE]

    def _scores_without(self, culprits: Iterable[Culprit]) -> Values:
        """Returns the scores of all parts from the excess that the culprits do not explain.

        Computes only the scores that changed since the last call.
        """
        candidates, explained = self._candidates, _explained_by(culprits, len(self._explained))
        changed = (explained != self._explained)[candidates.crossing]
        self._explained = explained
        if changed.any():
            self._evidence[changed] = self._model.evidence_of(candidates.crossing[changed], explained)
            rows = candidates.rows_with(changed)
            self._totals[rows] = candidates.totals(self._evidence, rows)
            self._known_scores[rows] = _scores(self._totals[rows], candidates.penalty[rows])
        return self._known_scores

    def _rivals(self, best: int, scores: Values) -> tuple[ScoredPart, ...]:
        """Returns the other parts that share most of the evidence of the best part."""
        candidates, columns = self._candidates, self._candidates.columns(best)
        supports = np.zeros(len(candidates.crossing))
        supports[columns] = self._evidence[columns].max(axis=1) > _MIN_SUPPORT
        shared_flows = candidates.membership @ supports
        shares_support = shared_flows >= _MIN_SHARED_SUPPORT * supports.sum()
        is_rival = shares_support & (scores > scores[best] - _MAX_RIVAL_DISTANCE)
        is_rival[best] = False
        rivals = [(candidates.parts[row], float(scores[row])) for row in np.flatnonzero(is_rival)]
        return _best_first(rivals)[:_MAX_RIVALS]

    def _without_superfluous(self, culprits: list[Culprit]) -> list[Culprit]:
        """Removes each culprit with flows that the other culprits explain. The culprit found first is tried first."""
        remaining = culprits
        for culprit in culprits:
            others = [one for one in remaining if one is not culprit]
            if not others:
                break
            row = self._candidates.parts.index(culprit.part)
            is_superfluous = self._scores_without(others)[row] < self._min_score
            if is_superfluous:
                remaining = others
        return remaining
