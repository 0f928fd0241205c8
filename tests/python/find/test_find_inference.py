"""Inference: every kind of fault is named, a healthy cluster is not accused, names and order do not matter."""

from itertools import product

import numpy as np
import pytest
from find_clusters import SearchSetup, find_parts, simulate
from msgspec.structs import replace
from numpy.typing import NDArray
from scipy.stats import binom

from busbw.find.evidence import SHARES, intermittent_evidence, log_density
from busbw.find.findings import make_findings
from busbw.find.observations import RoundResult
from busbw.find.power import search_power
from busbw.find.rounds import Load, Round, load_class
from busbw.find.search import Search
from busbw.simulator.fabric import Fabric
from busbw.simulator.faults import SimulatedFault
from busbw.simulator.measurer import SimulatedMeasurer
from busbw.simulator.simulation import Noise, Simulation

NAMED_FAULTS = [
    ("gpu:3/5:1.5", {"kind": "gpu", "node": "n3", "gpu": 5}),
    ("nvlink:3/1-2:1.5", {"kind": "nvlink", "node": "n3", "gpus": (1, 2)}),
    ("nvlink:3/1:1.5", {"kind": "nvlink", "node": "n3", "gpus": (1,)}),
    ("nic:3/5:1.5", {"kind": "nic", "node": "n3", "nic": "mlx5_5", "direction": "both"}),
    ("nic-send:3/5:1.5", {"kind": "nic", "node": "n3", "nic": "mlx5_5", "direction": "send"}),
    ("nic-receive:3/5:1.5", {"kind": "nic", "node": "n3", "nic": "mlx5_5", "direction": "receive"}),
    ("node:7:1.5", {"kind": "node", "node": "n7"}),
    ("pair:1-2:1.5", {"kind": "pair", "nodes": ("n1", "n2"), "direction": "both"}),
    ("rail:6:1.5", {"kind": "rail", "rail": 6}),
    ("leaf:9:1.5", {"kind": "leaf", "leaf": "leaf1-1"}),
    ("uplink:9:1.5", {"kind": "uplink", "leaf": "leaf1-1", "direction": "both"}),
]


@pytest.mark.parametrize(("fault", "expected"), NAMED_FAULTS, ids=[fault for fault, _ in NAMED_FAULTS])
def test_a_fault_of_half_more_time_is_named_on_16_nodes(fault: str, expected: dict[str, object]) -> None:
    findings, undecided = find_parts(simulate("16x8", fault, nodes_per_leaf=4))
    assert not undecided
    assert [{key: getattr(one, key) for key in expected} for one in findings] == [expected]
    [finding] = findings
    assert finding.slowdown == pytest.approx(1.5, rel=0.05)
    assert finding.confidence > 0.95
    assert finding.flows > 0
    assert finding.exonerating_flows > 0


@pytest.mark.parametrize("shape", ["1x8", "2x8", "4x1", "4x8", "5x3", "16x8", "33x4"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_healthy_cluster_is_not_accused(shape: str, seed: int) -> None:
    assert find_parts(simulate(shape, nodes_per_leaf=4, seed=seed)) == ([], [])


@pytest.mark.parametrize("iterations", [1, 20, 2000])
def test_the_evidence_of_intermittent_faults_follows_the_binomial_distribution(iterations: int) -> None:
    slow = np.arange(iterations + 1)
    [evidence_of_class] = intermittent_evidence(slow, np.zeros_like(slow), iterations)
    evidence = evidence_of_class[:, : len(SHARES)]
    # Healthy flows have each number of slow iterations equally often, so these shares cancel out in the ratio.
    ratio = np.zeros((len(slow), len(SHARES)))
    for already in slow:
        ratio[already:] += binom.pmf(slow[: len(slow) - already, None], iterations - already, SHARES)
    assert evidence == pytest.approx(np.log(0.95 * ratio + 0.05), abs=1e-9)


def test_a_fault_of_15_percent_is_named() -> None:
    findings, _ = find_parts(simulate("16x8", "nic-send:2/1:1.15", nodes_per_leaf=8))
    assert [(one.nic, one.node, one.direction) for one in findings] == [("mlx5_1", "n2", "send")]


def test_two_faults_are_both_named() -> None:
    findings, undecided = find_parts(simulate("16x8", "nic:3/5:2", "node:9:1.5", nodes_per_leaf=8))
    assert not undecided
    assert [(one.kind, one.node) for one in findings] == [("nic", "n3"), ("node", "n9")]


@pytest.mark.parametrize("seed", [3, 4])
def test_one_slow_uplink_of_four_is_named(seed: int) -> None:
    # Only a quarter of the connections of the leaf cross it.
    [finding], undecided = find_parts(simulate("16x8", "one-uplink:9/1:1.5", nodes_per_leaf=4, seed=seed))
    assert not undecided
    assert (finding.kind, finding.leaf, finding.direction) == ("uplink", "leaf1-1", "both")
    assert finding.slowdown == pytest.approx(1.5, rel=0.1)


def test_one_slow_uplink_of_sixteen_is_named() -> None:
    setup = simulate("16x8", "one-uplink:2/3:1.25", layout="leaf-spine", nodes_per_leaf=4, oversubscription=2)
    [finding], undecided = find_parts(setup)
    assert not undecided
    assert (finding.kind, finding.leaf) == ("uplink", "leaf2")
    assert " on some connections; " in finding.says


@pytest.mark.parametrize("seed", [0, 6, 7])
def test_equally_slow_uplinks_of_three_leaves_are_named_without_the_fourth(seed: int) -> None:
    """The third leaf was not named, because the other two explain most of its flows. So the fourth was."""
    faults = [f"uplink:{leaf}:1.5" for leaf in (0, 8, 16)]
    findings, undecided = find_parts(simulate("16x8", *faults, nodes_per_leaf=4, seed=seed))
    assert {(finding.leaf, finding.intermittent) for finding in findings} == {
        ("leaf0-0", False),
        ("leaf1-0", False),
        ("leaf2-0", False),
    }
    assert not undecided


def test_a_slow_uplink_that_only_one_direction_hits_is_named_in_both() -> None:
    """With this seed, no flow to the leaf crosses the slow link of 32, so nothing exonerates it in this direction."""
    fabric = Fabric(nodes=16, gpus=8, layout="leaf-spine", nodes_per_group=4, is_adaptive=True)
    fault = SimulatedFault(kind="one-uplink", place=(2, 23), slowdown=2.0)
    seed = 3200007
    [finding], undecided = find_parts(SearchSetup(Simulation(fabric, [fault], Noise(), seed), seed))
    assert not undecided
    assert (finding.kind, finding.leaf, finding.direction) == ("uplink", "leaf2", "both")


def test_a_small_difference_beyond_a_slow_node_is_no_second_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = simulate("16x8", "node:14:1.15", nodes_per_leaf=4)
    measure = setup.simulation.measure

    def measure_pair_slower(
        source: NDArray[np.int64], target: NDArray[np.int64], size_bytes: int, iterations: int
    ) -> tuple[NDArray[np.float64], float]:
        times, took_s = measure(source, target, size_bytes, iterations)
        is_pair = (np.minimum(source, target) // 8 == 13) & (np.maximum(source, target) // 8 == 14)
        return times * np.where(is_pair, 1.05, 1.0)[:, None], took_s

    monkeypatch.setattr(setup.simulation, "measure", measure_pair_slower)
    findings, undecided = find_parts(setup)
    assert not undecided
    assert [one.text for one in findings] == ["node n14"]


COUPLED_FAULTS = ["nic:1/0:1.5", "nic-send:1/1:1.5", "nic-receive:1/1:2", "gpu:1/1:1.5", "nic:1/1:dead", "node:1:1.5"]


@pytest.mark.parametrize(
    ("shape", "fault"),
    [*product(["2x8"], COUPLED_FAULTS[:3]), *product(["4x8", "6x2"], COUPLED_FAULTS)],
)
def test_flows_of_one_kernel_do_not_hide_the_direction(shape: str, fault: str) -> None:
    """A GPU that sends and receives in one kernel measures one time for both: that of the slower one."""
    uncoupled, coupled = (simulate(shape, fault, nodes_per_leaf=2) for _ in range(2))
    coupled.simulation.is_coupled = True
    [expected], _ = find_parts(uncoupled)
    [finding], undecided = find_parts(coupled)
    assert not undecided
    assert finding.text == expected.text


@pytest.mark.parametrize("shape", ["1x8", "2x8", "16x8"])
def test_a_healthy_cluster_with_coupled_flows_is_not_accused(shape: str) -> None:
    setup = simulate(shape, nodes_per_leaf=4)
    setup.simulation.is_coupled = True
    assert find_parts(setup) == ([], [])


def test_an_intermittent_nic_is_named_with_its_share() -> None:
    [finding], _ = find_parts(simulate("16x8", "nic:3/5:2@0.3", nodes_per_leaf=8))
    assert (finding.kind, finding.node, finding.nic, finding.intermittent) == ("nic", "n3", "mlx5_5", True)
    assert finding.slow_share == pytest.approx(0.3, abs=0.1)
    assert finding.slowdown == pytest.approx(2, rel=0.1)


@pytest.mark.parametrize("slowdown", [100, 300])
def test_a_very_slow_nic_is_not_called_dead(slowdown: float) -> None:
    [finding], _ = find_parts(simulate("16x8", f"nic:3/5:{slowdown}", nodes_per_leaf=8))
    assert (finding.node, finding.nic, finding.dead) == ("n3", "mlx5_5", False)
    assert finding.slowdown == pytest.approx(slowdown, rel=0.1)


def test_a_dead_nic_has_no_slowdown() -> None:
    [finding], _ = find_parts(simulate("16x8", "nic:3/5:dead", nodes_per_leaf=8))
    assert (finding.node, finding.nic, finding.dead, finding.slowdown) == ("n3", "mlx5_5", True, None)


def test_two_nics_on_one_port_are_undecided_with_the_next_step() -> None:
    findings, [undecided] = find_parts(simulate("16x8", "failover:3/5", nodes_per_leaf=8))
    assert not findings
    assert {one.nic for one in undecided.between} == {"mlx5_5", "mlx5_6"}
    assert "one carries the traffic of both" in undecided.says


def test_two_slow_nics_that_were_always_busy_together_may_both_be_slow() -> None:
    """They were said to be slow only together, although neither was busy alone."""
    findings, [undecided] = find_parts(simulate("6x6", "nic:2/4:2", "nic:2/5:2"))
    assert not findings
    assert {one.nic for one in undecided.between} == {"mlx5_4", "mlx5_5"}
    assert "always busy together: both are slow, or one carries the traffic of both" in undecided.says


def test_rails_without_a_connection_are_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = simulate("3x4", nodes_per_leaf=2)
    measurer = SimulatedMeasurer(setup.simulation)

    def measure(one: Round, iterations: int) -> RoundResult:
        result = SimulatedMeasurer.measure(measurer, one, iterations)
        is_network = one.source // 4 != one.target // 4
        result.times_us[is_network & (one.source % 4 != one.target % 4)] = np.nan
        return result

    monkeypatch.setattr(measurer, "measure", measure)
    search = Search(measurer=measurer)
    explanation = search.run()
    assert make_findings(search.observations(), explanation, measurer.cluster) == ([], [])
    assert all((one.source % 4 == one.target % 4).all() for one in search.rounds if not one.load.is_inside)


def test_parts_that_all_flows_cross_together_are_undecided() -> None:
    findings, [undecided] = find_parts(simulate("4x1", "nic:2/0:2"))
    assert not findings
    assert {one.kind for one in undecided.between} == {"gpu", "nic", "node"}
    assert {one.node for one in undecided.between} == {"n2"}


@pytest.mark.parametrize("seed", range(3))
def test_a_slow_leaf_of_two_is_named_although_all_flows_between_leaves_are_slow(seed: int) -> None:
    findings, undecided = find_parts(
        simulate("8x8", "leaf:1:1.5", layout="leaf-spine", nodes_per_leaf=4, oversubscription=1, seed=seed)
    )
    assert [(finding.kind, finding.leaf) for finding in findings] == [("leaf", "leaf1")]
    assert undecided == []


def test_collisions_of_hashed_uplinks_are_no_fault() -> None:
    for seed in (1, 2, 3):
        setup = simulate("16x8", nodes_per_leaf=4, layout="leaf-spine", oversubscription=2, seed=seed)
        assert find_parts(setup) == ([], [])


def test_the_slow_flows_of_other_jobs_have_the_whole_density() -> None:
    """If healthy flows dilute the density, slow flows of other jobs count as evidence against uplinks."""
    noise = Noise(flow=0.015, iteration=0.015, other_jobs=0.015)
    search = run(simulate("64x8", nodes_per_leaf=16, layout="leaf-spine", noise=noise, seed=3))
    observed, peers = search.observations(), search.explain().peers
    across = observed.classes == load_class(Load.LIGHT, is_across=True)
    limit = 4 * peers.noise[load_class(Load.LIGHT, is_across=True)]
    slow = across & (peers.excess > limit)
    assert slow.sum() > 30
    bin_width = 0.06
    density_by_bin = dict(zip(np.floor(peers.excess[slow] / bin_width), peers.slow_density[slow], strict=True))
    assert sum(density_by_bin.values()) * bin_width == pytest.approx(1, abs=0.15)


def test_the_names_of_the_parts_do_not_change_the_result() -> None:
    plain = simulate("16x8", "nic:3/5:1.5", nodes_per_leaf=4)
    renamed = simulate("16x8", "nic:3/5:1.5", nodes_per_leaf=4)
    first, _ = find_parts(plain)
    renamed.rename(lambda name: f"z{99 - int(name[1:]):02}")
    second, _ = find_parts(renamed)
    assert [one.node for one in second] == [f"z{99 - 3}"]
    assert [(one.nic, one.slowdown, one.confidence, one.flows) for one in first] == [
        (one.nic, one.slowdown, one.confidence, one.flows) for one in second
    ]


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_the_rounds_does_not_change_the_result(seed: int) -> None:
    search = run(simulate("16x8", "gpu:3/5:1.5", nodes_per_leaf=4, seed=seed))
    order = np.random.default_rng(0).permutation(len(search.rounds))
    shuffled = Search(
        measurer=search.measurer,
        rounds=[search.rounds[index] for index in order],
        results=[search.results[index] for index in order],
    )
    ([first], first_undecided), ([second], second_undecided) = (
        make_findings(one.observations(), one.explain(), one.measurer.cluster) for one in (search, shuffled)
    )
    assert first.gpu == 5
    # The healthy level is that of the first flow of each connection, which depends on the order.
    for spread in ("slowdown_low", "slowdown_high"):
        assert getattr(second, spread) == pytest.approx(getattr(first, spread), rel=0.003)
    assert replace(second, slowdown_low=first.slowdown_low, slowdown_high=first.slowdown_high) == first
    assert (first_undecided, second_undecided) == ([], [])


def run(setup: SearchSetup) -> Search:
    search = Search(measurer=SimulatedMeasurer(setup.simulation), seed=setup.seed)
    search.run()
    return search


def test_repeated_flows_of_a_suspect_do_not_outnumber_its_peers() -> None:
    findings, undecided = find_parts(simulate("1x3", "gpu:0/0:2"))
    accused = [*findings, *(part for one in undecided for part in one.between)]
    assert ("gpu", 0) in [(part.kind, part.gpu) for part in accused]


@pytest.mark.parametrize("shape", ["1x2", "2x1"])
def test_two_parts_without_peers_have_no_power(shape: str) -> None:
    search = Search(measurer=SimulatedMeasurer(simulate(shape).simulation))
    search.run()
    power = search_power(search.observations(), search.explain())
    assert {one.kind: one.found < 0.01 for one in power} == dict.fromkeys([one.kind for one in power], True)


def test_the_density_has_the_precision_of_its_arguments() -> None:
    """A constant of numpy would compute the evidence of large clusters in double precision."""
    one = np.ones(3, dtype=np.float32)
    assert log_density(one, one, one, one).dtype == np.float32
