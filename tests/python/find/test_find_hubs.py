"""Rounds with hubs: a GPU that is fast with one partner and slow with all, and the total rate of a hub."""

import json
from collections.abc import Callable

import numpy as np
import pytest
from find_clusters import SearchSetup, find_parts, simulate
from numpy.typing import NDArray

from busbw.cli.main import main
from busbw.find.cluster import Cluster
from busbw.find.findings import Finding, UndecidedParts, make_findings
from busbw.find.observations import Observations, RoundResult
from busbw.find.rounds import Load, Round
from busbw.find.search import Search
from busbw.find.search_plan import first_answer_rounds
from busbw.simulator.fabric import Fabric
from busbw.simulator.measurer import SimulatedMeasurer

Mask = NDArray[np.bool_]


def slow_in(setup: SearchSetup, monkeypatch: pytest.MonkeyPatch, is_slow: Callable[[Round], Mask], by: float) -> Search:
    """Returns a search in which some flows take `by` times as long."""
    measurer = SimulatedMeasurer(setup.simulation)
    measure = measurer.measure

    def measure_slower(one: Round, iterations: int) -> RoundResult:
        result = measure(one, iterations)
        result.times_us[is_slow(one)] *= by
        return result

    monkeypatch.setattr(measurer, "measure", measure_slower)
    return Search(measurer=measurer, seed=setup.seed)


@pytest.mark.parametrize("slowdown", [2, 4])
@pytest.mark.parametrize("shape", ["1x3", "1x8", "1x12", "2x4", "16x8"])
@pytest.mark.parametrize("is_coupled", [False, True])
def test_bad_ports_of_a_gpu_are_named(shape: str, slowdown: float, is_coupled: bool) -> None:
    setup = simulate(shape, f"gpu-ports:0/2:{slowdown}", nodes_per_leaf=4)
    setup.simulation.is_coupled = is_coupled
    [finding], undecided = find_parts(setup)
    assert not undecided
    assert finding.text == "NVLinks of GPU 2 of n0"
    assert finding.slowdown == pytest.approx(slowdown, rel=0.05)
    assert " times the time of their peers with several GPUs of the node at once" in finding.says
    assert finding.cause is not None
    assert "more speed with several partners than with one" in finding.cause


@pytest.mark.parametrize(("load", "direction"), [(Load.ONE_TO_ALL, "send"), (Load.ALL_TO_ONE, "receive")])
def test_bad_ports_of_one_direction_are_named_with_it(
    load: Load, direction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = slow_in(
        simulate("4x8", nodes_per_leaf=2), monkeypatch, lambda one: (one.load is load) & (one.hub == 13), by=3
    )
    search.run()
    [finding], undecided = find_in(search)
    assert not undecided
    assert (finding.kind, finding.node, finding.gpus, finding.direction) == ("nvlink", "n1", (5,), direction)


@pytest.mark.parametrize("sends", [(339, 294, 296, 340), (295, 297, 295, 340), (340, 340, 340, 295)])
@pytest.mark.parametrize("receives", [(163, 236, 160, 163), (236, 236, 160, 236)])
def test_healthy_hubs_that_nccl_makes_unlike_are_not_named(
    sends: tuple[int, ...], receives: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first rates of each list are those of four healthy H200 in GB/s, the others would accuse one of them."""
    search = search_with_unlike_hubs("1x4", None, sends, receives, monkeypatch)
    assert find_in(search) == ([], [])


def search_with_unlike_hubs(
    shape: str, fault: str | None, sends: tuple[int, ...], receives: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> Search:
    """Returns a finished search in which the hubs of each node have rates in proportion to `sends` and `receives`."""
    setup = simulate(shape, *([fault] if fault else []))
    measurer = SimulatedMeasurer(setup.simulation)
    measure = measurer.measure

    def measure_as_nccl(one: Round, iterations: int) -> RoundResult:
        result = measure(one, iterations)
        if one.load.has_hubs:
            rates = np.array(sends if one.load is Load.ONE_TO_ALL else receives)
            result.times_us[:] *= (np.median(rates) / rates[one.hub % len(rates)])[:, None]
        return result

    monkeypatch.setattr(measurer, "measure", measure_as_nccl)
    search = Search(measurer=measurer, seed=setup.seed)
    search.run()
    return search


@pytest.mark.parametrize("receives", [(292, 373, 293, 292), (373, 292, 373, 373)])
@pytest.mark.parametrize("slowdown", [1.3, 1.9, 2])
@pytest.mark.parametrize("shape", ["1x4", "2x4", "4x4"])
def test_a_slow_gpu_among_unlike_hubs_is_the_only_finding(
    shape: str, slowdown: float, receives: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The uneven distribution of NCCL and the slow GPU change the rate of the same hub."""
    search = search_with_unlike_hubs(shape, f"gpu:0/1:{slowdown}", (362, 360, 361, 362), receives, monkeypatch)
    [finding], undecided = find_in(search)
    assert (finding.text, undecided) == ("GPU 1 of n0", [])


def test_links_that_are_slow_alone_and_slower_together_are_two_findings() -> None:
    findings, undecided = find_parts(simulate("2x8", "nvlink:0/2:1.3", "gpu-ports:0/2:4"))
    assert not undecided
    assert sorted(round(one.slowdown or 0, 1) for one in findings) == [1.3, 3.9]


def find_in(search: Search) -> tuple[list[Finding], list[UndecidedParts]]:
    return make_findings(search.observations(), search.explain(), search.measurer.cluster)


def test_a_slow_partner_is_not_taken_for_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_of_one_pair(one: Round) -> Mask:
        return np.asarray((one.source + one.target == 1) & one.load.has_hubs)

    search = slow_in(simulate("1x3"), monkeypatch, is_of_one_pair, by=5)
    search.run()
    assert find_in(search) == ([], [])


def test_a_slow_link_of_a_pair_does_not_limit_a_hub() -> None:
    """A hub with seven partners uses a seventh of the rate of each of these links."""
    [finding], undecided = find_parts(simulate("1x8", "nvlink:0/1-2:4"))
    assert (finding.text, undecided) == ("NVLink of GPUs 1 and 2 of n0", [])


def hub_observations(times: list[float], *, load: Load = Load.ONE_TO_ALL) -> Observations:
    """Flows of GPU 0 of a node with four GPUs, with these times. NaN: the flow failed."""
    partners = 1 + np.arange(len(times))
    hub = np.zeros_like(partners)
    ends = (hub, partners) if load is Load.ONE_TO_ALL else (partners, hub)
    one = Round(load=load, source=ends[0], target=ends[1], chosen_bytes=10)
    result = RoundResult(times_us=np.array(times)[:, None], errors={})
    return Observations(Cluster(Fabric(nodes=1, gpus=4).describe()), [one], [result])


@pytest.mark.parametrize("load", [Load.ONE_TO_ALL, Load.ALL_TO_ONE])
def test_the_flows_of_a_hub_are_one_flow_with_its_total_rate(load: Load) -> None:
    observed = hub_observations([300.0, 30.0, 60.0], load=load)
    assert np.exp(observed.level).tolist() == pytest.approx([60 / (3 * 10)])  # the median flow, and all bytes
    assert observed.paths.is_hub.tolist() == [True]
    hubs = (observed.paths.sending_hub.tolist(), observed.paths.receiving_hub.tolist())
    assert hubs == (([0], [-1]) if load is Load.ONE_TO_ALL else ([-1], [0]))


def test_a_hub_with_a_failed_flow_is_no_evidence() -> None:
    assert len(hub_observations([30.0, float("nan"), 60.0])) == 0


def test_hubs_with_different_numbers_of_partners_are_no_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    """If each pair has its own links, a hub without one of its partners has a smaller total rate."""
    search = slow_in(simulate("6x8"), monkeypatch, lambda one: one.load.has_hubs & (count_partners(one) == 6), by=7 / 6)
    search.lost = {9: "killed"}
    search.run()
    assert find_in(search) == ([], [])
    counts = {int(count) for one in search.rounds if one.load.has_hubs for count in count_partners(one)}
    assert counts == {6, 7}


def count_partners(one: Round) -> NDArray[np.int64]:
    return np.asarray(np.bincount(one.hub)[one.hub])


@pytest.mark.parametrize("shape", ["1x8", "2x8", "16x8"])
def test_rounds_with_hubs_follow_the_first_answer(shape: str) -> None:
    setup = simulate(shape, "gpu-ports:0/2:2", nodes_per_leaf=4)
    search = Search(measurer=SimulatedMeasurer(setup.simulation))
    search.run()
    loads = [one.load for one in search.rounds]
    first = next(number for number, load in enumerate(loads) if load.has_hubs)
    assert first <= first_answer_rounds(search.measurer.cluster)
    assert [load.name for load in loads[first : first + 16]] == ["ONE_TO_ALL"] * 8 + ["ALL_TO_ONE"] * 8
    assert len(loads) <= 2 * first_answer_rounds(search.measurer.cluster) + 16


def test_a_search_of_all_pairs_measures_hubs_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["find", "--simulate", "3x4", "--fault", "gpu-ports:1/2:2", "--pairs", "--json"]) == 5
    [finding] = json.loads(capsys.readouterr().out)["findings"]
    assert (finding["kind"], finding["node"], finding["gpus"]) == ("nvlink", "n1", [2])
