"""Smallest set of slow parts that explains the slow flows, found greedily.

The part with the most evidence is added first. Its flows then count as explained, which changes the evidence for all
other parts on their paths. This repeats until no part has enough evidence. At the end, a part is removed if the other
remaining parts explain its flows. The order resembles Flock (arXiv 2305.03348) and 007 (NSDI 2018).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import logsumexp

from busbw.find.cluster import UNKNOWN, Indices
from busbw.find.evidence import (
    DEAD_LEVEL,
    LEVELS,
    LINK_SHARES,
    connection_evidence,
    connection_odds,
    intermittent_evidence,
    persistent_evidence,
    slow_iteration_limit,
)
from busbw.find.observations import Observations, Values
from busbw.find.parts import FAMILIES, Part, count_per_part, flows_of
from busbw.find.peers import HUB_TOLERANCE, MIN_SLOW, Peers, compare_with_peers
from busbw.find.rounds import Load
from busbw.statistics import NORMAL_MAD

FALSE_ACCUSATION = 1e-3
"""Bound of the probability that a search of a healthy cluster accuses a part."""
MIN_SLOWDOWN = 1.07
"""Time relative to the peers from which a part is named. Smaller differences between healthy parts are common."""
UNDECIDED_MARGIN = 5.0
"""Difference of log evidence below which two parts are not told apart (odds of 150 to 1)."""
SUSPECT_SCORE = -1.0
"""Score from which a part that is not named deserves more rounds."""
_MAX_PARTS = 24
"""Findings after which the search gives up: the assumption that few parts are slow is wrong."""
_MAX_CANDIDATES = 4000
_PASSES = 2


@dataclass(frozen=True, kw_only=True)
class Culprit:
    """A part that explains slow flows."""

    part: Part
    score: float
    """Log e-value, less the log number of parts that could have been accused."""
    rivals: tuple[tuple[Part, float], ...]
    """Other parts that would explain the same flows, and this part in other directions, best first, with score."""
    excess: float
    """Log of the slow-down of its flows. DEAD_LEVEL if they failed."""
    is_dead: bool = False
    """True if most of its flows failed."""
    flows: Indices
    """Flows that the part slows. If only one of its hashed links is slow, only some flows that cross the part."""
    share: float | None = None
    """Share of slow iterations, if the part is slow now and then. None if it is always slow."""

    def confidence(self, synonyms: Sequence[Part]) -> float:
        """Returns the probability of this part or its synonyms, among all parts that would explain its flows."""
        others = [
            score - self.score
            for part, score in self.rivals
            if part.hardware != self.part.hardware and part not in synonyms
        ]
        return float(1 / (1 + np.sum(np.exp(np.minimum(others, 50)))) * (1 - np.exp(-max(self.score, 0))))

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
    suspects: tuple[tuple[Part, float], ...]
    """Parts with some evidence, but too little to be named. Best first, with their score."""
    peers: Peers
    excess: Values
    """Excess of each flow. DEAD_LEVEL if it transferred nothing."""
    explained: Values
    """Excess that the culprits explain, for each flow."""


def explain(observed: Observations) -> Explanation:
    """Returns the slow parts that explain the observed flows."""
    explained = np.zeros(len(observed))
    used = ~observed.is_dead
    for _ in range(_PASSES):
        peers = compare_with_peers(observed, explained, used)
        excess = np.where(observed.is_dead, DEAD_LEVEL, peers.excess)
        persistent = _PersistentModel(observed, peers, excess)
        culprits, suspects = _find_culprits(persistent)
        if not culprits:
            break  # another pass would compare with the same peers
        explained = persistent.explained(culprits)
    intermittent = _IntermittentModel(observed, peers, explained)
    more, more_suspects = _find_culprits(intermittent)
    return Explanation(
        culprits=(*culprits, *more),
        suspects=tuple(sorted((*suspects, *more_suspects), key=lambda suspect: -suspect[1])),
        peers=peers,
        excess=excess,
        explained=np.maximum(explained, intermittent.explained(more)),
    )


def is_evidence(observed: Observations, peers: Peers) -> NDArray[np.bool_]:
    """Returns True for each flow with a time that says something about the parts on its path."""
    return np.asarray((peers.is_usable[observed.classes] | observed.is_dead) & ~observed.is_repeated)


@dataclass(frozen=True)
class _Candidates:
    """Parts that may be slow, with the flows that cross them."""

    parts: tuple[Part, ...]
    membership: csr_array
    """1 if a flow (column) crosses a part (row)."""
    penalty: Values
    """Log number of parts that could be accused instead of each part, and rarity of its kind."""
    connections: Indices
    """Number of the connection of each flow."""

    @cached_property
    def crossing(self) -> Indices:
        """Flows that cross at least one of the parts."""
        return np.flatnonzero(np.bincount(self.membership.indices))

    @cached_property
    def _grouping(self) -> csr_array:
        """1 if one of the `crossing` flows (column) belongs to a connection (row)."""
        numbers = np.unique(self.connections[self.crossing], return_inverse=True)[1]
        return csr_array((np.ones(len(numbers)), (numbers, np.arange(len(numbers)))))

    @cached_property
    def _crossing_membership(self) -> csr_array:
        return csr_array(self.membership[:, self.crossing])

    def rows(self, changed: NDArray[np.bool_]) -> Indices:
        """Returns the parts (rows) with evidence that depends on some of the `crossing` flows."""
        # The evidence for hashed links depends on all flows of a connection.
        of_same_connections = self._grouping.T @ (self._grouping @ changed)
        return np.flatnonzero(self._crossing_membership @ of_same_connections)

    def totals(self, evidence: Values, rows: Indices) -> Values:
        """Returns the evidence for some parts (rows) and each hypothesis, from the evidence of the `crossing` flows.

        For hashed links, a hypothesis is also the share of the connections that cross a slow one.
        """
        membership = self._crossing_membership[rows]
        totals = np.tile(membership @ evidence, (len(LINK_SHARES), 1, 1))
        hashed = [at for at, row in enumerate(rows) if FAMILIES[self.parts[row].family].is_hashed]
        if hashed:
            is_crossed = (membership[hashed] @ self._grouping.T > 0).astype(np.float64)
            crossed = np.flatnonzero(np.bincount(is_crossed.indices))
            is_crossed = is_crossed[:, crossed]
            of_connections = np.asarray(self._grouping[crossed] @ evidence)
            totals[0][hashed] = is_crossed @ of_connections  # the first share is 1
            odds = connection_odds(of_connections)
            for total, share in zip(totals[1:], LINK_SHARES[1:], strict=True):
                total[hashed] = is_crossed @ connection_evidence(odds, share)
        return np.hstack(list(totals))

    def flows(self, row: int) -> Indices:
        start, end = self.membership.indptr[row : row + 2]
        return np.asarray(self.membership.indices[start:end], dtype=np.int64)


class _PersistentModel:
    """Parts that slow all their flows by the same factor."""

    def __init__(self, observed: Observations, peers: Peers, excess: Values) -> None:
        self._observed, self._peers, self._excess = observed, peers, excess
        self._classes = observed.classes
        self._is_usable = is_evidence(observed, peers)

    def candidates(self) -> _Candidates:
        """Returns parts with slow flows: at least half of them, except for hashed links."""
        limit = np.maximum(2 * self._peers.noise[self._classes], MIN_SLOW)
        return _candidates(self._observed, self._peers, self._excess > limit, min_share=0.5)

    def evidence(self, flows: Indices, explained: Values) -> Values:
        """Returns the evidence of the flows for each hypothesis."""
        noise, slow_share = (values[self._classes[flows]] for values in (self._peers.noise, self._peers.slow_share))
        tail = self._peers.flow_tail[flows]
        evidence = persistent_evidence(self._excess[flows], explained[flows], noise, slow_share, tail)
        # NCCL may make a hub faster than its peers, and a slow part makes the same hub slower.
        is_unknown = self._peers.is_tolerated[flows, None] & (LEVELS < 2 * HUB_TOLERANCE)
        return np.where(self._is_usable[flows, None] & ~is_unknown, evidence, 0.0)

    def culprit(self, part: Part, flows: Indices, explained: Values, hypothesis: int) -> Culprit | None:
        """Returns the part with its slow-down. None if the slow-down is too small to name the part."""
        share_number, level = divmod(hypothesis, len(LEVELS))
        slowed = np.flatnonzero(flows_of(part, self._observed.paths))
        if (share := LINK_SHARES[share_number]) < 1:
            # A connection crosses the slow link if that is more probable than not.
            connections, numbers = np.unique(self._observed.connections[flows], return_inverse=True)
            evidence = np.bincount(numbers, self.evidence(flows, explained)[:, level])
            is_slowed = evidence > np.log(1 / share - 1)
            slowed = slowed[np.isin(self._observed.connections[slowed], connections[is_slowed])]
            flows = np.intersect1d(flows, slowed)
        # Flows that another part slows more say nothing about the speed of this part.
        own = flows[explained[flows] < LEVELS[level]]
        min_excess = HUB_TOLERANCE if part.needs_hub else np.log(MIN_SLOWDOWN)
        if not len(own) or np.median(self._excess[own] - explained[own]) < min_excess:
            return None
        return Culprit(
            part=part,
            score=0,
            rivals=(),
            excess=float(np.median(self._excess[own])),
            is_dead=bool(np.mean(self._observed.is_dead[own]) > 0.5),
            flows=slowed,
        )

    def explained(self, culprits: Iterable[Culprit]) -> Values:
        """Returns the excess of each flow that the culprits explain."""
        level = np.zeros(len(self._excess))
        for culprit in culprits:
            level[culprit.flows] = np.maximum(level[culprit.flows], culprit.excess)
        return level


class _IntermittentModel(_PersistentModel):
    """Parts that slow a share of the iterations or of the flows that cross them."""

    def __init__(self, observed: Observations, peers: Peers, explained: Values) -> None:
        super().__init__(observed, peers, peers.excess)
        class_noise = np.full(int(self._classes.max(initial=0)) + 1, 0.0)
        deviation = np.abs(observed.iterations - observed.level[:, None])
        for number in np.unique(self._classes):
            values = deviation[(self._classes == number) & ~observed.is_dead]
            if np.isfinite(values).any():
                class_noise[number] = NORMAL_MAD * np.nanmedian(values)
        noise = np.maximum(class_noise, peers.noise)[self._classes]
        limit = slow_iteration_limit(noise)
        excess = observed.iterations - peers.reference[:, None]
        self._slow = (observed.iterations > (peers.reference + explained + limit)[:, None]).sum(axis=1)
        self._total = (~np.isnan(observed.iterations)).sum(axis=1)
        used = (explained == 0) & (self._total > 0) & self._is_usable
        self._evidence = intermittent_evidence(self._slow, self._total, self._classes, used.astype(np.float64))
        self._iteration_excess = np.where(excess > limit[:, None], excess, np.nan)

    def candidates(self) -> _Candidates:
        """Returns parts with several flows that support an intermittent fault."""
        return _candidates(self._observed, self._peers, self._evidence.max(axis=1) > 1.0, min_share=0.06, min_flows=2)

    def evidence(self, flows: Indices, explained: Values) -> Values:
        return np.where(explained[flows, None] > 0, 0.0, self._evidence[flows])

    def culprit(self, part: Part, flows: Indices, explained: Values, hypothesis: int) -> Culprit | None:
        free = flows[(explained[flows] == 0) & self._is_usable[flows]]
        total = int(self._total[free].sum())
        slow_excess = self._iteration_excess[free]
        if not total or not np.isfinite(slow_excess).any():
            return None
        share = float(self._slow[free].sum()) / total
        slowed = np.flatnonzero(flows_of(part, self._observed.paths))
        excess = float(np.nanmedian(slow_excess))
        return Culprit(part=part, score=0, rivals=(), excess=excess, flows=slowed, share=share)


def _candidates(
    observed: Observations, peers: Peers, is_slow: NDArray[np.bool_], *, min_share: float, min_flows: int = 1
) -> _Candidates:
    """Returns the parts with enough slow flows, at most `_MAX_CANDIDATES` of them."""
    found: list[tuple[int, Indices, Values, float]] = []
    is_free = (observed.load == int(Load.SPARSE)) | (not peers.collides_at_full_load)
    all_columns = [
        tuple(np.where(is_free, column, UNKNOWN) if family.is_hashed else column for column in columns)
        for family, columns in ((family, observed.paths.columns(number)) for number, family in enumerate(FAMILIES))
    ]
    used = is_evidence(observed, peers)
    slow_flows = np.flatnonzero(used & is_slow)
    for family, columns in enumerate(all_columns):
        total = count_per_part(columns, used.astype(np.float64))
        slow = count_per_part([column[slow_flows] for column in columns], np.ones(len(slow_flows)))
        slow = np.pad(slow, (0, len(total) - len(slow)))
        min_slow_flows = min_share * total
        if FAMILIES[family].is_hashed:
            # At least half of the smallest share, and as many as are slow without a fault.
            healthy = np.where(used, np.minimum(peers.slow_share, LINK_SHARES[-1] / 2)[observed.classes], 0.0)
            min_slow_flows = LINK_SHARES[-1] / 2 * total + count_per_part(columns, healthy)
        numbers = np.flatnonzero((slow >= min_flows) & (slow >= min_slow_flows))
        penalty_of_family = FAMILIES[family].rarity + float(np.log(max(int(np.count_nonzero(total)), 1)))
        found.append((family, numbers, slow[numbers], penalty_of_family))
    slow_counts: Values = np.sort(np.concatenate([slow for _, _, slow, _ in found]))
    limit = slow_counts[-_MAX_CANDIDATES] if len(slow_counts) > _MAX_CANDIDATES else 0.0
    parts: list[Part] = []
    rows, flows, penalty = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)], []
    for family, numbers, slow, family_penalty in found:
        kept = numbers[slow >= limit]
        if not len(kept):
            continue
        for column in all_columns[family]:
            row_of = np.full(max(int(column.max(initial=0)), int(kept.max(initial=0))) + 2, UNKNOWN)
            row_of[kept] = np.arange(len(kept)) + len(parts)
            member = row_of[column]  # an UNKNOWN column selects the last entry, which is UNKNOWN
            flows.append(np.flatnonzero(member != UNKNOWN))
            rows.append(member[flows[-1]])
        parts += [Part(family, int(number)) for number in kept]
        penalty += [family_penalty] * len(kept)
    row, column = np.concatenate(rows), np.concatenate(flows)
    membership = csr_array((np.ones(len(row)), (row, column)), shape=(len(parts), len(observed)))
    return _Candidates(tuple(parts), membership, np.array(penalty), observed.connections)


def _scores(totals: Values, penalty: Values) -> Values:
    """Returns the score of each part (row): the log mean over the hypotheses (columns) less the penalty."""
    return np.asarray(logsumexp(totals, axis=1) - np.log(totals.shape[1]) - penalty)


def _find_culprits(model: _PersistentModel) -> tuple[list[Culprit], list[tuple[Part, float]]]:
    """Returns the parts that explain the flows, and the remaining parts with some evidence."""
    candidates = model.candidates()
    return _GreedySearch(candidates, model).run() if candidates.parts else ([], [])


class _GreedySearch:
    """Search for the parts of one model that explain the flows."""

    def __init__(self, candidates: _Candidates, model: _PersistentModel) -> None:
        self._candidates, self._model = candidates, model
        self._threshold = float(np.log(len(FAMILIES) / FALSE_ACCUSATION))
        self._explained = np.zeros(candidates.membership.shape[1])
        self._evidence = model.evidence(candidates.crossing, self._explained)
        self._totals = candidates.totals(self._evidence, np.arange(len(candidates.parts)))
        self._known_scores = _scores(self._totals, candidates.penalty)

    def run(self) -> tuple[list[Culprit], list[tuple[Part, float]]]:
        """Returns the parts that explain the flows, and the remaining parts with some evidence."""
        parts = self._candidates.parts
        is_allowed = np.ones(len(parts), dtype=bool)
        culprits: list[Culprit] = []
        while True:
            scores = np.where(is_allowed, self._explain(culprits), -np.inf)
            best = int(np.argmax(scores))
            if scores[best] < self._threshold or len(culprits) >= _MAX_PARTS:
                break
            is_allowed[best] = False
            hypothesis = int(np.argmax(self._totals[best]))
            culprit = self._model.culprit(parts[best], self._candidates.flows(best), self._explained, hypothesis)
            if culprit is not None:
                culprits.append(replace(culprit, score=float(scores[best]), rivals=self._rivals(best, scores)))
        culprits = self._without_superfluous(culprits)
        scores = np.where(is_allowed, self._explain(culprits), -np.inf)
        order = np.argsort(-scores)[:64]
        return culprits, [(parts[row], float(scores[row])) for row in order if scores[row] > SUSPECT_SCORE]

    def _explain(self, culprits: Iterable[Culprit]) -> Values:
        """Returns the scores of all parts if the culprits explain their flows. Computes only the scores that change."""
        candidates, explained = self._candidates, self._model.explained(culprits)
        changed = (explained != self._explained)[candidates.crossing]
        self._explained = explained
        if changed.any():
            self._evidence[changed] = self._model.evidence(candidates.crossing[changed], explained)
            rows = candidates.rows(changed)
            self._totals[rows] = candidates.totals(self._evidence, rows)
            self._known_scores[rows] = _scores(self._totals[rows], candidates.penalty[rows])
        return self._known_scores

    def _rivals(self, best: int, scores: Values) -> tuple[tuple[Part, float], ...]:
        """Returns the other parts that share most of the evidence of the best part."""
        candidates, flows = self._candidates, self._candidates.flows(best)
        support = np.zeros(candidates.membership.shape[1])
        support[flows] = self._model.evidence(flows, self._explained).max(axis=1) > 1
        shared = candidates.membership @ support
        rows = np.flatnonzero((shared >= 0.5 * support.sum()) & (scores > scores[best] - 20))
        rivals = [(candidates.parts[row], float(scores[row])) for row in rows if row != best]
        return tuple(sorted(rivals, key=lambda rival: -rival[1])[:8])

    def _without_superfluous(self, culprits: list[Culprit]) -> list[Culprit]:
        """Removes each culprit if the other culprits explain its flows. The first found culprit is tried first."""
        kept = culprits
        for culprit in culprits:
            others = [one for one in kept if one is not culprit]
            if others and self._explain(others)[self._candidates.parts.index(culprit.part)] < self._threshold:
                kept = others
        return kept
