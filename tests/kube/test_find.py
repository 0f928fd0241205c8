"""`busbw find kubernetes` in pods on three nodes."""

import pytest

from .cluster import Cluster
from .kubelet import Kubelet
from .launching import KINDS, Launches, needs, wait_until_clean


@pytest.mark.parametrize("kind", ["job", "mpijob"])
def test_a_search_measures_all_pods(cluster: Cluster, kubelet: Kubelet, launches: Launches, kind: str) -> None:
    needs(kind)
    words = [*KINDS[kind], "--nodes", "3", "--backend", "host", "--size", "64K", "--max-rounds", "2", "--json"]
    launch = launches.start(*words, command="find")
    ended = launch.finish()
    assert ended.code in (0, 5, 6), ended.err  # the load of this machine decides
    result = ended.json()
    assert (result["complete"], result["rounds"]) == (True, 2)
    assert {each["kind"]: each["all_parts"] for each in result["power"]}["node"] == 3
    (run,) = (record for record in launch.records() if record["kind"] == "search")
    assert sorted(node["name"] for node in run["nodes"]) == kubelet.nodes
    wait_until_clean(cluster)
