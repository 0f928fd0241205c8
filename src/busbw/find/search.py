"""The search: measures the first rounds, explains them, and measures more rounds while questions are open.

First answer: the explanation of the first rounds. Hub: a GPU that sends to all others of its node at once, or receives
from them. Open question: suspects that the measured rounds do not tell apart.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from busbw.errors import BusbwError
from busbw.find.cluster import Indices, Mask
from busbw.find.explanation import Explanation, explain
from busbw.find.matchings import join_pairs
from busbw.find.measurer import Measurer
from busbw.find.observations import Observations, RoundResult
from busbw.find.pair_coverage import MAX_PAIR_ROUNDS, PAIR_TURNS, uncleared_pair_rounds
from busbw.find.round_planner import RoundPlanner
from busbw.find.rounds import ITERATIONS, Load, Round
from busbw.find.search_plan import all_pair_rounds, first_answer_rounds, first_rounds, remaining_rounds
from busbw.find.suspects import separating_rounds

_MAX_TURNS = 8
"""Maximum number of times that rounds for the open questions are planned, for each call of `_separate`."""
_MAX_FAILURES = 3
"""Number of partners with which a GPU has failed, without any success, after which its flows are left out."""


@dataclass
class Search:
    """Measured rounds and what they show."""

    measurer: Measurer
    seed: int = 0
    measures_all_pairs: bool = False
    max_rounds: int | None = None
    """Maximum number of rounds.

    None: twice the rounds of the first answer (`first_answer_rounds`), or all planned rounds and those with hubs if
    these are more. For the open questions, as many rounds follow as there are with hubs. If nothing is slow, the rounds
    of `uncleared_pair_rounds` follow, and twice those of the first answer for the open questions."""
    size_bytes: int | None = None
    """Bytes of each flow. None: the default of each round."""
    lost_nodes: Mapping[str, str] = field(default_factory=dict)
    """Nodes without a process of the measurer, because nothing could start there, with the reason of each."""
    on_progress: Callable[[int, int], None] = lambda _done, _planned: None
    """Called before each round with the number of measured rounds and the number of rounds planned so far.

    An exception ends the search; the measured rounds are kept."""
    on_round: Callable[[Round, RoundResult], None] = lambda _round, _result: None
    """Called after each round that counts. An exception ends the search; the measured rounds are kept."""
    rounds: list[Round] = field(default_factory=list)
    results: list[RoundResult] = field(default_factory=list)
    lost: dict[int, str] = field(init=False)
    """GPUs that do not answer, with the reason of each. Their flows are left out."""
    _observations: Observations | None = None
    """Flows of the rounds up to the last call of `observations`, which adds the later ones."""
    _explanation: Explanation | None = None
    """Explanation of all rounds, kept because it takes seconds on a large cluster. None after a new round."""
    _has_collisions: bool = False
    """`Peers.omits_pairs` of the last explanation, which saves time for the next one."""

    def __post_init__(self) -> None:
        self.lost = dict(self.measurer.lost)

    def run(self) -> Explanation:
        """Measures until no question is open, or the rounds (`max_rounds`) or the turns of `_separate` are used up.

        The order of the rounds: the first answer or all pairs, hubs, and the open questions. If no part is slow then,
        the pairs of nodes without a fast flow follow, and the open questions after them.

        Raises:
            BusbwError: A round could not be measured, or no flow can be measured.
        """
        cluster = self.measurer.cluster
        planner = RoundPlanner(cluster, self.seed)
        hub_rounds = planner.hub_rounds()
        planned = first_rounds(planner)
        if self.measures_all_pairs:
            planned += all_pair_rounds(planner)
        limit = self.max_rounds
        if limit is None:
            limit = max(2 * first_answer_rounds(cluster), len(planned) + len(hub_rounds)) + len(hub_rounds)
        if not planned:
            raise BusbwError("no two GPUs of the cluster can exchange data", remedy="describe the NICs with their GPUs")
        self._measure(planned, limit)
        self._require_round()
        self._reject_silence()
        collides = self.explain().peers.may_collide_at_full_load
        if not self.measures_all_pairs:
            self._measure(remaining_rounds(planner, len(self.rounds), collides=collides), limit)
        # The rounds with hubs follow the first answer, so that its rounds are left for flows between nodes.
        self._measure(hub_rounds, (len(self.rounds) + limit) // 2)  # the other half is for the open questions
        self._separate(planner, limit)
        if not self.explain().culprits:
            measured = len(self.rounds)
            self._clear_pairs(planner, collides=collides)
            if self.max_rounds is None:
                limit = len(self.rounds) + 2 * first_answer_rounds(cluster)
            if len(self.rounds) > measured:
                self._separate(planner, limit)
        return self.explain()

    def _clear_pairs(self, planner: RoundPlanner, *, collides: bool) -> None:
        """Measures each pair of nodes until a flow is fast, a part is slow, or the turns are used up."""
        limit = len(self.rounds) + MAX_PAIR_ROUNDS
        if self.max_rounds is not None:  # half of the remaining rounds is for the open questions
            limit = (len(self.rounds) + self.max_rounds) // 2
        for turn in range(PAIR_TURNS):
            if self.explain().culprits or len(self.rounds) >= limit:
                break
            rounds = uncleared_pair_rounds(planner, self.observations(), self.explain(), turn, collides=collides)
            if not rounds:
                break
            self._measure(rounds, limit)

    def _separate(self, planner: RoundPlanner, limit: int) -> None:
        """Measures rounds for the open questions until none is open, or the rounds or the turns are used up."""
        for turn in range(_MAX_TURNS):
            rounds = separating_rounds(planner, self.observations(), self.explain(), turn)
            if not rounds or len(self.rounds) >= limit:
                break
            self._measure(rounds, limit)

    def _require_round(self) -> None:
        """Adds an empty round if a search found only lost GPUs, because an explanation needs a round."""
        if self.lost and not self.rounds:
            nothing = np.empty(0, dtype=np.int64)
            no_times = RoundResult(times_us=np.empty((0, 1)), errors={})
            self._keep(Round(load=Load.INSIDE, source=nothing, target=nothing), no_times)

    def _keep(self, measured: Round, result: RoundResult) -> None:
        self.rounds.append(measured)
        self.results.append(result)
        self._explanation = None
        self.on_round(measured, result)

    def _reject_silence(self) -> None:
        """Raises an error if no flow transferred data, because such flows say nothing about single parts."""
        if self.lost or not all(result.is_dead.all() for result in self.results):
            return
        reasons = [reason for result in self.results for reason in result.errors.values()]
        self.rounds.clear()
        self.results.clear()
        self._observations = self._explanation = None
        raise BusbwError(
            f"no flow transferred data: {reasons[0] if reasons else 'no times'}",
            remedy="correct the network or the measuring program, and search again",
        )

    def explain(self) -> Explanation:
        """Returns the explanation of the rounds measured so far. At least one round must be measured."""
        if self._explanation is None:
            self._explanation = explain(self.observations(), had_collisions=self._has_collisions)
            self._has_collisions = self._explanation.peers.omits_pairs
        return self._explanation

    def observations(self) -> Observations:
        """Returns the flows measured so far."""
        if self._observations is None or self._observations.round_count < len(self.rounds):
            self._observations = Observations(self.measurer.cluster, self.rounds, self.results, self._observations)
        return self._observations

    @property
    def measured_s(self) -> float | None:
        """Duration of the measured rounds. None if the measurer does not state it."""
        durations = [result.took_s for result in self.results if result.took_s is not None]
        return sum(durations) if len(durations) == len(self.results) else None

    def _measure(self, rounds: list[Round], limit: int) -> None:
        """Measures the rounds in order until `limit` rounds are measured in total. Leaves out flows of lost GPUs."""
        end = min(len(self.rounds) + len(rounds), limit)
        for planned in rounds[: end - len(self.rounds)]:
            self.on_progress(len(self.rounds), end)
            one = self._without_dead(planned)
            if not len(one.source):
                continue
            result = self.measurer.measure(one, ITERATIONS)
            self.lost.update(result.lost)
            if result.failure is not None:
                self._require_round()
                raise BusbwError(result.failure, remedy="search again without the lost part")
            # The flows of lost GPUs say nothing about the other parts on their paths.
            one, result = _select_flows(one, result, np.flatnonzero(~self._is_lost(one)))
            if len(one.source) and not self._lacks_routes(one, result):
                self._keep(one, result)

    def _is_lost(self, one: Round) -> Mask:
        """Returns True for each flow with a lost GPU at an end."""
        lost = np.array([*self.lost], dtype=np.int64)
        return np.isin(one.source, lost) | np.isin(one.target, lost)

    def _lacks_routes(self, one: Round, result: RoundResult) -> bool:
        """True if all flows of a round between lanes (`Cluster.lanes`) failed: some networks do not connect them."""
        cluster = self.measurer.cluster
        if one.load.is_inside or not result.is_dead.all():
            return False
        source_lane, target_lane = (cluster.lanes[cluster.gpu_nic[end]] for end in (one.source, one.target))
        return bool((source_lane != target_lane).all())

    def _without_dead(self, planned: Round) -> Round:
        """Returns the round without flows of GPUs that are lost or always fail, because each failure takes long.

        Applies the chosen size of a flow, which depends on the number of flows of a hub.
        """
        is_kept = ~self._is_lost(planned)
        if any(result.is_dead.any() for result in self.results):  # false in most searches, and the rest takes long
            comparable = [
                (one.source, one.target, result.is_dead)
                for one, result in zip(self.rounds, self.results, strict=True)
                if one.load.is_inside == planned.load.is_inside
            ]
            fails_sending = self._always_fails(comparable)
            fails_receiving = self._always_fails((target, source, is_dead) for source, target, is_dead in comparable)
            is_kept &= ~(fails_sending[planned.source] | fails_receiving[planned.target])
        kept = replace(planned, source=planned.source[is_kept], target=planned.target[is_kept])
        return kept.with_bytes(self.size_bytes)

    def _always_fails(self, rounds: Iterable[tuple[Indices, Indices, Mask]]) -> Mask:
        """Returns True for each GPU that has failed with several partners, and never succeeded.

        Args:
            rounds: For each round: the GPU in question and the partner of each flow, and True for each failed flow.
        """
        gpu_count = len(self.measurer.cluster.gpu_node)
        has_succeeded = np.zeros(gpu_count, dtype=bool)
        failures = []
        for gpus, partners, is_dead in rounds:
            has_succeeded[gpus[~is_dead]] = True
            failures.append(np.stack([gpus[is_dead], partners[is_dead]], axis=1))
        # Failures with only one partner could be the fault of the partner.
        gpu_of_failed_pair = np.unique(join_pairs(failures), axis=0)[:, 0]
        failed_partners = np.bincount(gpu_of_failed_pair, minlength=gpu_count)
        return np.asarray((failed_partners >= _MAX_FAILURES) & ~has_succeeded)


def _select_flows(one: Round, result: RoundResult, positions: Indices) -> tuple[Round, RoundResult]:
    """Returns the flows of a round at these positions, with their results."""
    errors = {new: result.errors[old] for new, old in enumerate(positions.tolist()) if old in result.errors}
    return (
        replace(one, source=one.source[positions], target=one.target[positions]),
        replace(result, times_us=result.times_us[positions], errors=errors),
    )
