"""`busbw doctor kubernetes` in pods on three nodes. A capture in the files of each node stands for the node."""

import json
from collections.abc import Iterator

import pytest

from .cluster import Cluster
from .kubelet import Kubelet
from .launching import KINDS, Launches, needs, wait_until_clean

ODD = "real-2"
CHECKS = "env-cuda-launch-blocking,kernel-differs"


@pytest.fixture
def nodes(kubelet: Kubelet) -> Iterator[Kubelet]:
    """Three nodes, of which one has another kernel, and a variable that slows down jobs."""
    for node in kubelet.nodes:
        variables = {"CUDA_LAUNCH_BLOCKING": "1"} if node == ODD else {}
        kubelet.node_files[node] = {
            "node/manifest.json": "{}",
            "node/facts/userconfiguration.json": json.dumps({"path": "~/.nccl.conf", "lines": None}),
            "node/proc/driver/nvidia/gpus/0000:01:00.0/information": "Model: NVIDIA H100 80GB HBM3\n",
            "node/proc/sys/kernel/osrelease": "6.8.0-31" if node == ODD else "5.15.0-1046",
            "node/facts/environment.json": json.dumps({"variables": variables}),
        }
    yield kubelet
    kubelet.node_files.clear()


@pytest.mark.parametrize("kind", ["job", "jobset", "mpijob"])
def test_the_odd_node_is_named(cluster: Cluster, nodes: Kubelet, launches: Launches, kind: str) -> None:
    needs(kind)
    words = ["--nodes", "3", *KINDS[kind], "--root", "/etc/node", "--check", CHECKS, "--json"]
    launch = launches.start(*words, command="doctor")
    ended = launch.finish()
    assert ended.code == 5, ended.err
    result = ended.json()
    assert sorted(result["nodes"]) == nodes.nodes
    findings = {each["check"]: each for each in result["findings"]}
    variable = findings["env-cuda-launch-blocking"]
    assert (variable["node"], variable["severity"]) == (ODD, "slow")
    assert "CUDA_LAUNCH_BLOCKING=1" in variable["problem"]
    assert "6.8.0-31 on real-2" in findings["kernel-differs"]["problem"]
    wait_until_clean(cluster)


def test_the_pods_themselves_are_examined(cluster: Cluster, kubelet: Kubelet, launches: Launches) -> None:
    ended = launches.run("--nodes", "3", "--json", command="doctor")
    assert ended.code in (0, 1, 3, 5), ended.err  # this machine decides
    assert sorted(ended.json()["nodes"]) == kubelet.nodes
    wait_until_clean(cluster)
