"""Observed flows: endpoints, round, and iteration times. A hub is a GPU that exchanges data with several at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from busbw.find.cluster import UNKNOWN, Cluster, Indices, Mask
from busbw.find.parts import FlowPaths
from busbw.find.rounds import LOAD_CLASSES, Load, Round, load_class

Values = NDArray[np.float64]

_MIN_PAIRS = 8
"""Minimum number of pairs of opposite flows for the decision if the flows of a pair have a common time."""
_COUPLED_RATIO = 0.3
"""The flows of a pair have a common time if their difference is below this share of the difference between pairs."""


@dataclass(frozen=True, kw_only=True)
class RoundResult:
    """Result of one round."""

    times_us: Values
    """Time of each iteration (column) of each flow (row), measured at the receiver. NaN where it is missing."""
    errors: Mapping[int, str]
    """Reason why a flow, by its position in the round, has no times."""
    took_s: float | None = None
    """Duration of the round, including the start of its connections. None if unknown."""
    lost: Mapping[int, str] = field(default_factory=dict)
    """GPUs that no longer answer, now or since an earlier round, with the reason of each."""
    failure: str | None = None
    """Reason why no more rounds can be measured."""

    @cached_property
    def is_dead(self) -> Mask:
        """True for each flow that transferred nothing."""
        return np.asarray(np.isnan(self.times_us).all(axis=1))


@dataclass(frozen=True, kw_only=True)
class _RoundFlows:
    """Flows of one round. The flows of a hub are joined to one flow."""

    load: Load
    source: Indices
    target: Indices
    partners: Indices
    """Number of joined flows of each hub. 0 for a flow between two GPUs."""
    iterations: Values
    """This and the next two fields are as in `Observations`."""
    level: Values
    is_dead: Mask


class Observations:
    """All flows of a search as arrays. Time is in log microseconds per byte, so ratios are differences.

    The flows of a hub are one entry with the total rate of the hub, from the hub to itself. So a slow partner does not
    make the hub look slow, and the common time of these flows counts as evidence only once.
    """

    def __init__(
        self,
        cluster: Cluster,
        rounds: Sequence[Round],
        results: Sequence[RoundResult],
        earlier: "Observations | None" = None,
    ) -> None:
        """Joins rounds and results.

        Args:
            cluster: Cluster that was measured.
            rounds: Measured rounds.
            results: Result of each round.
            earlier: Observations of the first of these rounds, which are reused to save time.
        """
        known = earlier._rounds if earlier else []
        new = zip(rounds[len(known) :], results[len(known) :], strict=True)
        self._rounds: list[_RoundFlows] = [*known, *(_make_round_flows(one, result) for one, result in new)]
        sizes = [len(one.source) for one in self._rounds]
        source = np.concatenate([one.source for one in self._rounds])
        target = np.concatenate([one.target for one in self._rounds])
        self._partners: Indices = np.concatenate([one.partners for one in self._rounds])
        self.round: Indices = np.repeat(np.arange(len(sizes)), sizes)
        self.load: Indices = np.repeat([int(one.load) for one in self._rounds], sizes)
        self.paths = FlowPaths(cluster, source, target, self.round, is_receiving_hub=self.load == int(Load.ALL_TO_ONE))
        max_iterations = max((one.iterations.shape[1] for one in self._rounds), default=1)
        self.iterations: Values = np.full((len(source), max_iterations), np.nan)
        """Log time per byte of each iteration (row: flow). NaN where an iteration is missing."""
        for first, one in zip(np.cumsum([0, *sizes]), self._rounds, strict=False):
            flow_count, iteration_count = one.iterations.shape
            self.iterations[first : first + flow_count, :iteration_count] = one.iterations
        self.level: Values = np.concatenate([one.level for one in self._rounds])
        """Median over the iterations. 0 if the flow is dead."""
        self.is_dead: Mask = np.concatenate([one.is_dead for one in self._rounds])
        """True if the flow transferred nothing."""
        self.is_repeated: Mask = np.zeros(len(source), dtype=bool)
        """True for the second of two flows with a common time. Only the first is evidence."""
        self._couple()

    def _couple(self) -> None:
        """Couples each flow with the flow that its target sends, if opposite flows of two GPUs have a common time."""
        flows = np.arange(len(self))
        reply = self.paths.sent_by_targets()  # for each flow, the number of a flow or UNKNOWN
        is_in_pair = (reply != UNKNOWN) & (reply[reply] == flows)
        has_times = ~self.is_dead & ~self.is_dead[reply]
        first = flows[is_in_pair & has_times & (flows < reply)]
        first = first[np.argsort(self.classes[first], kind="stable")]  # so that neighbors are comparable
        if len(first) < _MIN_PAIRS:
            return
        difference_in_pairs = np.median(np.abs(self.level[first] - self.level[reply[first]]))
        difference_between_pairs = np.median(np.abs(np.diff(self.level[first])))
        if difference_in_pairs < _COUPLED_RATIO * difference_between_pairs:
            self.paths.coupled = reply  # also outside of pairs: a target receives and sends in one kernel
            self.is_repeated = is_in_pair & (reply < flows)

    @property
    def round_count(self) -> int:
        """Number of rounds."""
        return len(self._rounds)

    def __len__(self) -> int:
        return len(self.level)

    @cached_property
    def connections(self) -> Indices:
        """Number of the connection of each flow. Flows with the same GPUs are one connection."""
        pairs = self.paths.source * len(self.paths.cluster.gpu_node) + self.paths.target
        return np.asarray(np.unique(pairs, return_inverse=True)[1])

    @cached_property
    def is_first(self) -> Mask:
        """True for the first flow of each connection in each class."""
        is_first = np.zeros(len(self), dtype=bool)
        connections_and_classes = self.connections * (int(self.classes.max(initial=0)) + 1) + self.classes
        _, first_flows = np.unique(connections_and_classes, return_index=True)
        is_first[first_flows] = True
        return is_first

    @cached_property
    def classes(self) -> Indices:
        """Class of each flow, by the types of both GPUs, load, and locality: within a leaf or between leaves.

        Flows of a class are comparable. The number of a class is: pair of types * LOAD_CLASSES + `load_class`.
        Hubs with different numbers of partners count as different types, because each partner may have its own links.
        """
        cluster = self.paths.cluster
        source_type, target_type = cluster.gpu_type[self.paths.source], cluster.gpu_type[self.paths.target]
        lower, higher = np.minimum(source_type, target_type), np.maximum(source_type, target_type)
        pairs_of_types = lower * len(cluster.gpu_types) + higher
        max_partners = int(self._partners.max(initial=0))
        pairs_and_partners = pairs_of_types * (max_partners + 1) + self._partners
        consecutive_numbers = np.unique(pairs_and_partners, return_inverse=True)[1]
        return np.asarray(consecutive_numbers * LOAD_CLASSES + load_class(self.load, is_across=self.paths.is_across))


def _make_round_flows(one: Round, result: RoundResult) -> _RoundFlows:
    one, result, partners = _join_flows_of_hubs(one, result)
    bytes_per_flow = one.size_bytes * np.maximum(partners, 1)
    with np.errstate(invalid="ignore"):
        iterations = np.log(result.times_us / bytes_per_flow[:, None])
    level = np.zeros(len(one.source))
    is_complete = ~np.isnan(iterations).any(axis=1)
    is_partial = ~(is_complete | result.is_dead)
    level[is_complete] = np.median(iterations[is_complete], axis=1)  # much faster than nanmedian
    level[is_partial] = np.nanmedian(iterations[is_partial], axis=1)
    return _RoundFlows(
        load=one.load,
        source=one.source,
        target=one.target,
        partners=partners,
        iterations=iterations,
        level=level,
        is_dead=result.is_dead,
    )


def _join_flows_of_hubs(one: Round, result: RoundResult) -> tuple[Round, RoundResult, Indices]:
    """Returns a round with one flow from each hub to itself, its result, and the number of joined flows of each hub.

    A round without hubs is unchanged, and its numbers are 0. A hub with a failed flow is left out: the remaining flows
    shared its rate for an unknown time. Rounds of disjoint pairs show what failed.
    """
    if not one.load.has_hubs:
        return one, result, np.zeros(len(one.source), dtype=np.int64)
    no_flow = np.empty(0, dtype=np.int64)
    complete_hubs, times, partners = [no_flow], [result.times_us[:0]], [no_flow]
    flows_by_hub = np.argsort(one.hub, kind="stable")
    hubs, counts = np.unique(one.hub, return_counts=True)
    for count in np.unique(counts):
        has_count = np.repeat(counts == count, counts)
        flows = flows_by_hub[has_count].reshape(-1, count)  # row: hub
        is_complete = ~result.is_dead[flows].any(axis=1)
        complete_hubs.append(hubs[counts == count][is_complete])
        ordered_times = np.sort(result.times_us[flows[is_complete]], axis=1)
        # The lower median, because fewer than half of the flows are slow due to their partner.
        times.append(ordered_times[:, (count - 1) // 2])
        partners.append(np.full(len(complete_hubs[-1]), count))
    hub = np.concatenate(complete_hubs)
    joined_result = replace(result, times_us=np.concatenate(times), errors={})
    return replace(one, source=hub, target=hub), joined_result, np.concatenate(partners)
