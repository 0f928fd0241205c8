"""Causes of slow NICs that NUMA nodes suggest: a half of a node, and a NIC far from its GPU."""

from collections.abc import Callable

import msgspec
import pytest
from find_clusters import simulate

from busbw.cli.find.summary import answer_lines, summarize
from busbw.find.cluster import Cluster
from busbw.find.search import Search
from busbw.simulator.measurer import SimulatedMeasurer


def find(*faults: str, nic_numa: Callable[[int], int | None], gpu_numa: Callable[[int], int | None]) -> list[str]:
    """Returns the lines of the answer for 6 nodes with 6 GPUs and NICs."""
    measurer = SimulatedMeasurer(simulate("6x6", *faults).simulation)
    measurer.cluster = Cluster(
        [
            msgspec.structs.replace(
                node,
                nics=tuple(msgspec.structs.replace(nic, numa=nic_numa(nic.gpus[0])) for nic in node.nics),
                gpu_numa=tuple(gpu_numa(gpu) for gpu in range(6)),
            )
            for node in measurer.cluster.nodes
        ]
    )
    search = Search(measurer=measurer)
    search.run()
    summary = summarize(search, None, is_simulated=True, ended_early=False)
    assert summary.findings
    return [line.strip() for line in answer_lines(summary, lambda _: "")]


def half(number: int) -> int:
    return number // 3


@pytest.mark.parametrize(
    "faults", [["nic:2/3:2", "nic:2/4:2", "nic:2/5:2"], ["nic:2/3:1.5", "nic:2/4:1.5", "nic:2/5:1.5"]]
)
def test_a_slow_numa_node_is_named(faults: list[str]) -> None:
    lines = find(*faults, nic_numa=half, gpu_numa=half)
    assert lines[0].startswith("SLOW: NICs of NUMA node 1 of n2 take ")
    assert sum(line.startswith(("SLOW", "UNDECIDED")) for line in lines) == 1


@pytest.mark.parametrize("faults", [["nic:2/3:2"], ["nic:2/2:2", "nic:2/3:1.5"], ["node:2:2"]])
def test_no_numa_node_is_named_for_other_faults(faults: list[str]) -> None:
    assert not any("NUMA" in line for line in find(*faults, nic_numa=half, gpu_numa=half))


def test_a_slow_nic_far_from_its_gpu_is_explained() -> None:
    lines = find("nic:2/3:2", nic_numa=half, gpu_numa=lambda _: 0)
    assert lines[2] == (
        "Likely cause: GPU 3 is on NUMA node 0 and the NIC on NUMA node 1, so data crosses the link between "
        "processors; compare with busbw topo."
    )


def test_unknown_numa_nodes_explain_nothing() -> None:
    lines = find("nic:2/3:2", nic_numa=lambda _: None, gpu_numa=lambda _: 0)
    assert not any(line.startswith("Likely cause") for line in lines)
