"""Clusters with GPUs of two types: each flow is compared with flows between the same types."""

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
from find_clusters import simulate

from busbw.cli.main import main
from busbw.errors import BusbwError
from busbw.find.cluster import Cluster, NodeDescription
from busbw.find.findings import Finding, UndecidedParts, make_findings
from busbw.find.observations import RoundResult
from busbw.find.rounds import Round
from busbw.find.search import Search
from busbw.simulator.measurer import SimulatedMeasurer

pytestmark = pytest.mark.usefixtures("here")

OLD_NODES = 4
"""The first nodes have older GPUs, with half the rate."""


class UnlikeMeasurer(SimulatedMeasurer):
    """A simulated cluster in which flows from or to the first nodes take twice as long."""

    def measure(self, one_round: Round, iterations: int) -> RoundResult:
        result = super().measure(one_round, iterations)
        nodes = self.cluster.gpu_node[np.stack([one_round.source, one_round.target])]
        is_old = (nodes < OLD_NODES).any(axis=0)
        return RoundResult(times_us=result.times_us * np.where(is_old, 2, 1)[:, None], errors={})


class LimitedMeasurer(SimulatedMeasurer):
    """A simulated cluster in which flows from or to the first nodes have at most half the rate, also beside a fault."""

    def measure(self, one_round: Round, iterations: int) -> RoundResult:
        result = super().measure(one_round, iterations)
        nodes = self.cluster.gpu_node[np.stack([one_round.source, one_round.target])]
        is_old = np.min(nodes, axis=0, keepdims=True).T < OLD_NODES
        noise = np.random.default_rng(len(nodes[0])).normal(1, 0.01, result.times_us.shape)
        limit = 2 * np.median(result.times_us) * noise * is_old
        return RoundResult(times_us=np.maximum(result.times_us, limit), errors={})


def search(
    *faults: str, states_types: bool, measurer_type: type[SimulatedMeasurer] = UnlikeMeasurer, nodes_per_leaf: int = 4
) -> tuple[list[Finding], list[UndecidedParts]]:
    measurer = measurer_type(simulate("12x4", *faults, nodes_per_leaf=nodes_per_leaf).simulation)
    if states_types:
        names = ["A100" if node < OLD_NODES else "H100" for node in range(12)]
        measurer.cluster = Cluster(
            [
                msgspec.structs.replace(node, gpu_types=(name,) * 4)
                for node, name in zip(measurer.cluster.nodes, names, strict=True)
            ]
        )
    run = Search(measurer=measurer)
    explanation = run.run()
    return make_findings(run.observations(), explanation, measurer.cluster)


def find(
    *faults: str, states_types: bool, measurer_type: type[SimulatedMeasurer] = UnlikeMeasurer, nodes_per_leaf: int = 4
) -> list[Finding]:
    findings, undecided = search(
        *faults, states_types=states_types, measurer_type=measurer_type, nodes_per_leaf=nodes_per_leaf
    )
    assert not undecided or not states_types
    return findings


@pytest.mark.parametrize("old_nodes", [1, 2])
def test_an_intermittent_nic_of_a_rare_type_is_no_healthy_cluster(
    monkeypatch: pytest.MonkeyPatch, old_nodes: int
) -> None:
    monkeypatch.setattr(f"{__name__}.OLD_NODES", old_nodes)
    findings, undecided = search("nic:0/1:3@0.3", states_types=True)
    assert any(part.node == "n0" for part in (*findings, *(part for one in undecided for part in one.between)))


def test_a_nic_of_the_only_node_of_its_type_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.OLD_NODES", 1)
    [finding] = find("nic:0/1:10", states_types=True)
    assert (finding.kind, finding.node, finding.nic) == ("nic", "n0", "mlx5_1")


def test_older_gpus_are_not_accused() -> None:
    assert find(states_types=True) == []
    assert find(states_types=False), "without the types, the older nodes are slower than their peers"


@pytest.mark.parametrize("node", [2, 9])
def test_a_slow_nic_is_named_among_gpus_of_its_type(node: int) -> None:
    [finding] = find(f"nic:{node}/1:1.5", states_types=True)
    assert (finding.kind, finding.node, finding.nic) == ("nic", f"n{node}", "mlx5_1")
    assert finding.slowdown == pytest.approx(1.5, rel=0.1)


@pytest.mark.parametrize(("fault", "kind"), [("node:9:1.5", "node"), ("nic:9/1:1.5", "nic"), ("gpu:9/1:1.5", "gpu")])
@pytest.mark.parametrize("nodes_per_leaf", [4, 12])
def test_fast_flows_to_older_gpus_do_not_clear_a_slow_part(fault: str, kind: str, nodes_per_leaf: int) -> None:
    [finding] = find(fault, states_types=True, measurer_type=LimitedMeasurer, nodes_per_leaf=nodes_per_leaf)
    assert (finding.kind, finding.node) == (kind, "n9")
    assert finding.slowdown == pytest.approx(1.5, rel=0.1)


def test_older_gpus_that_limit_the_rate_are_not_accused() -> None:
    assert find(states_types=True, measurer_type=LimitedMeasurer) == []


def test_the_output_states_the_types(capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [
        {
            "name": f"n{node}",
            "gpus": 2,
            "gpu_types": [("A", "B")[node % 2]] * 2,
            "nics": [{"name": "x", "gpus": [0, 1]}],
        }
        for node in range(4)
    ]
    program = f"""
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    if request["ask"] == "cluster":
        print('{json.dumps({"nodes": nodes})}', flush=True)
    elif request["ask"] == "measure":
        flows = [{{"times_us": [1000.0] * request["iterations"]}} for _ in request["flows"]]
        print(json.dumps({{"id": request["id"], "flows": flows}}), flush=True)
"""
    Path("program.py").write_text(program)
    main(["find", "--measure-with", "python program.py"])
    lines = capsys.readouterr().out.splitlines()
    assert "Unlike GPUs: 4 A, 4 B. Flows are compared with flows between GPUs of the same types only." in lines
    main(["find", "--measure-with", "python program.py", "--json"])
    assert json.loads(capsys.readouterr().out)["gpu_types"] == {"A": 4, "B": 4}


def test_types_of_another_number_of_gpus_are_an_error() -> None:
    with pytest.raises(BusbwError, match="node n0: gpu_types has 1 entries for 2 GPUs; state one for each GPU"):
        Cluster([NodeDescription("n0", gpus=2, gpu_types=("A",))])
