"""Parts that may be slow, because enough of the flows that cross them are slow.

A family is the parts of one kind and direction (parts.py). Hashed links are several equal links of a part. A hash
assigns each connection, the flows between two GPUs, to one of these links. Flows that share such a link collide.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from busbw.find.cluster import UNKNOWN, Indices, Mask
from busbw.find.evidence import LINK_SHARES, Evidence, connection_evidence
from busbw.find.observations import Observations, Values
from busbw.find.parts import FAMILIES, Columns, Part, count_per_part
from busbw.find.peers import Peers
from busbw.find.rounds import Load

_MAX_CANDIDATES = 1500
"""Maximum number of candidates, which bounds the time and memory of a search. Those least like chance remain."""
_MIN_HASHED_SHARE = LINK_SHARES[-1] / 4
"""Minimum share of slow flows of a part with hashed links: a quarter of the smallest hypothesis about a slow link.

Two effects can halve the measured share: chance, and a fault in one direction for the part in both directions. That
part must remain a candidate, because it is a rival of the part in one direction."""


@dataclass(frozen=True)
class Candidates:
    """Parts that may be slow, with the flows that cross them."""

    parts: tuple[Part, ...]
    crossing: Indices
    """Flows that cross at least one of the parts, in ascending order."""
    membership: csr_array
    """1 if one of the `crossing` flows (column) crosses a part (row)."""
    penalty: Values
    """Penalty of the score of each part: log number of parts that could be accused instead, plus rarity of its kind."""
    connections: Indices
    """Number of the connection of each `crossing` flow. UNKNOWN if it may collide: no evidence for hashed links."""

    @cached_property
    def _flows_by_connection(self) -> csr_array:
        """1 if one of the `crossing` flows (column) belongs to a connection (row), and cannot collide."""
        columns = np.flatnonzero(self.connections != UNKNOWN)
        distinct_connections, rows = np.unique(self.connections[columns], return_inverse=True)
        shape = (len(distinct_connections), len(self.connections))
        return csr_array((np.ones(len(columns), dtype=np.float32), (rows, columns)), shape=shape)

    def rows_with(self, changed: Mask) -> Indices:
        """Returns the parts (rows) with evidence that depends on the changed ones of the `crossing` flows."""
        # The evidence for hashed links depends on all flows of a connection, for other parts only on their own flows.
        changed_per_connection = self._flows_by_connection @ changed
        in_changed_connection = self._flows_by_connection.T @ changed_per_connection
        return np.flatnonzero(self.membership @ (in_changed_connection + changed))

    def totals(self, evidence: Evidence, rows: Indices) -> Evidence:
        """Returns the evidence for some parts (rows) and each hypothesis, from the evidence of the `crossing` flows.

        The columns are `LEVELS`, repeated for each of `LINK_SHARES`. A repetition assumes that this share of the
        connections crosses a slow link. Without hashed links, all repetitions are equal.
        """
        membership = self.membership[rows]
        totals_by_share = np.tile(membership @ evidence, (len(LINK_SHARES), 1, 1))
        hashed = [position for position, row in enumerate(rows) if FAMILIES[self.parts[row].family].is_hashed]
        if hashed:
            # All flows of a connection cross the same link, so the connection is the unit of evidence. Flows that may
            # collide are left out. The search repeats the slow ones alone, so they would be no fair sample.
            is_crossed = (membership[hashed] @ self._flows_by_connection.T > 0).astype(np.float32)
            crossed_connections = np.flatnonzero(np.bincount(is_crossed.indices))
            is_crossed = is_crossed[:, crossed_connections]
            evidence_of_connections = np.asarray(self._flows_by_connection[crossed_connections] @ evidence)
            for total, mixed in zip(totals_by_share, connection_evidence(evidence_of_connections), strict=True):
                total[hashed] = is_crossed @ mixed
        return np.hstack(list(totals_by_share))

    def flows(self, row: int) -> Indices:
        """Returns the flows that cross the part of a row."""
        return np.asarray(self.crossing[self.columns(row)])

    def columns(self, row: int) -> Indices:
        """Returns the positions in `crossing` of the flows that cross the part of a row."""
        start, end = self.membership.indptr[row : row + 2]
        return np.asarray(self.membership.indices[start:end])


@dataclass(frozen=True)
class _FamilyCandidates:
    """Candidates of one family."""

    family: int
    numbers: Indices
    suspicion: Values
    """Log likelihood ratio of each candidate's number of slow flows, compared with their number by chance."""
    penalty: float


class CandidateSelector:
    """Selects the parts of each family with enough slow flows."""

    def __init__(self, observed: Observations, peers: Peers, is_evidence: Mask) -> None:
        """Prepares the selection.

        Args:
            observed: All flows.
            peers: Comparison of the flows with their peers.
            is_evidence: True for each flow with a time that says something about the parts on its path.
        """
        self._observed, self._peers = observed, peers
        self._is_evidence = is_evidence
        self._is_collision_free = (observed.load == int(Load.SPARSE)) | (not peers.may_collide_at_full_load)
        """True for each flow without collisions. Only such flows are evidence for hashed links."""
        self._is_hashed_evidence = is_evidence & self._is_collision_free

    def select(self, is_slow: Mask, *, min_share: float, min_flows: int = 1) -> Candidates:
        """Returns the parts with enough slow flows, at most `_MAX_CANDIDATES` of them.

        Args:
            is_slow: True for each slow flow.
            min_share: Minimum share of slow flows among the flows of a part. Hashed links have a minimum of their own.
            min_flows: Minimum number of slow flows of a part.
        """
        slow = np.flatnonzero(self._is_evidence & is_slow)
        families = [number for number, one in enumerate(FAMILIES) if one.kind != "pair" or not self._peers.omits_pairs]
        by_family = [self._of_family(family, slow, min_share, min_flows) for family in families]
        suspicion: Values = np.sort(np.concatenate([one.suspicion for one in by_family]))
        min_suspicion = suspicion[-_MAX_CANDIDATES] if len(suspicion) > _MAX_CANDIDATES else -np.inf
        parts: list[Part] = []
        row_arrays, flow_arrays, penalty = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)], []
        for one in by_family:
            selected = one.numbers[one.suspicion >= min_suspicion]
            if len(selected):
                for family_rows, crossing in self._crossings(one.family, selected):
                    row_arrays.append(family_rows + len(parts))
                    flow_arrays.append(crossing)
                parts += [Part(one.family, int(number)) for number in selected]
                penalty += [one.penalty] * len(selected)
        rows, flows = np.concatenate(row_arrays), np.concatenate(flow_arrays)  # one entry for each crossing
        is_crossing = np.zeros(len(self._observed), dtype=bool)
        is_crossing[flows] = True
        crossing = np.flatnonzero(is_crossing)
        column_of_flow = np.cumsum(is_crossing) - 1
        ones = np.ones(len(rows), dtype=np.float32)
        membership = csr_array((ones, (rows, column_of_flow[flows])), shape=(len(parts), len(crossing)))
        connections = np.where(self._is_collision_free, self._observed.connections, UNKNOWN)[crossing]
        return Candidates(tuple(parts), crossing, membership, np.array(penalty), connections)

    def _of_family(self, family: int, slow: Indices, min_share: float, min_flows: int) -> _FamilyCandidates:
        """Returns the candidates of a family. `slow`: the slow flows that are evidence."""
        is_hashed = FAMILIES[family].is_hashed
        is_evidence = self._is_hashed_evidence if is_hashed else self._is_evidence
        slow = slow[is_evidence[slow]]
        columns = self._observed.paths.columns(family)
        total = count_per_part(columns, is_evidence.astype(np.float64))
        slow_flows = count_per_part([column[slow] for column in columns], np.ones(len(slow)))
        numbers = np.flatnonzero(slow_flows >= min_flows)
        if is_hashed:
            # Flows that are slow without a fault do not count.
            min_slow_flows = _MIN_HASHED_SHARE * total[numbers] + self._healthy_slow_flows(columns)[numbers]
        else:
            min_slow_flows = min_share * total[numbers]
        numbers = numbers[slow_flows[numbers] >= min_slow_flows]
        penalty = FAMILIES[family].rarity + float(np.log(max(int(np.count_nonzero(total)), 1)))
        # The logarithm of a likelihood ratio of two Poisson distributions.
        count = slow_flows[numbers]
        expected = total[numbers] * (len(slow) / max(int(is_evidence.sum()), 1))
        suspicion = np.where(count > expected, count * np.log(count / expected) - (count - expected), 0.0)
        return _FamilyCandidates(family, numbers, suspicion, penalty)

    def _healthy_slow_flows(self, columns: Columns) -> Values:
        """Returns, for each part, the expected number of collision-free flows that are slow without a fault."""
        flows = np.flatnonzero(self._is_hashed_evidence)
        slow_share_by_class = np.minimum(self._peers.slow_share, _MIN_HASHED_SHARE)
        return count_per_part([column[flows] for column in columns], slow_share_by_class[self._observed.classes[flows]])

    def _crossings(self, family: int, numbers: Indices) -> Iterator[tuple[Indices, Indices]]:
        """Yields two arrays of equal length: parts, as positions in the ascending `numbers`, and flows that cross them.

        A part occurs once for each flow that crosses it.
        """
        columns = self._observed.paths.columns(family)
        max_number = max(int(column.max(initial=0)) for column in columns)
        is_selected = np.zeros(max_number + 2, dtype=bool)  # the last entry is for UNKNOWN
        is_selected[numbers] = True
        for column in columns:
            is_crossing = is_selected[column]
            if FAMILIES[family].is_hashed:
                is_crossing &= self._is_collision_free
            flows = np.flatnonzero(is_crossing)
            yield np.searchsorted(numbers, column[flows]), flows
