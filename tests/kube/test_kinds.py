"""Each kind of workload through its life on a real control plane: created, run, collected, deleted."""

from collections.abc import Iterator

import pytest

from .cluster import Cluster
from .kubelet import Kubelet
from .launching import KINDS, Launches, left_over, needs, wait_until_clean

PRETENDED_NODES = ["--node-selector", "pretended=yes", "--toleration", "nvidia.com/gpu"]


@pytest.fixture
def pretended_nodes_only(cluster: Cluster) -> Iterator[None]:
    """Keeps pods off the other nodes: the pod of mpirun runs on any node, also with a node selector."""
    names = [node["metadata"]["name"] for node in cluster.objects("nodes", "-l", "pretended!=yes")]
    if names:
        cluster.kubectl("cordon", *names)
    yield
    if names:
        cluster.kubectl("uncordon", *names)


@pytest.mark.usefixtures("pretended_nodes_only")
@pytest.mark.parametrize("kind", ["job", "jobset", "mpijob"])
def test_simulated_pods_run_to_their_end(cluster: Cluster, launches: Launches, kind: str) -> None:
    # kwok's pods have no logs: the launcher says so, and does not take that for a success.
    ended = launches.run(*KINDS[kind], "--gpus", "8", *PRETENDED_NODES, "--", "all_reduce", "-e", "64")
    assert ended.code == 3, ended.err
    assert "the log of process 0 may be incomplete" in ended.err
    wait_until_clean(cluster)


@pytest.mark.parametrize("kind", ["job", "jobset", "mpijob"])
def test_the_table_and_the_records_arrive_and_the_job_is_deleted(
    cluster: Cluster, kubelet: Kubelet, launches: Launches, kind: str
) -> None:
    needs(kind)
    launch = launches.start(*KINDS[kind], "--", "all_reduce", "-b", "8", "-e", "64", "-f", "2")
    ended = launch.finish()
    assert ended.code == 0, ended.err
    assert "# Collective test concluded: all_reduce_perf" in ended.out
    assert "2 processes on 2 hosts" in ended.out
    assert not [line for line in ended.out.splitlines() if line.startswith("{")]
    assert [row["requested_bytes"] for row in launch.rows() if row["placement"] == "in_place"] == [8, 16, 32, 64]
    wait_until_clean(cluster)


@pytest.mark.parametrize("kind", ["job", "jobset", "mpijob"])
def test_one_delete_removes_a_kept_job(cluster: Cluster, kubelet: Kubelet, launches: Launches, kind: str) -> None:
    needs(kind)
    assert launches.run(*KINDS[kind], "--keep", "--", "all_reduce", "-e", "8").code == 0
    kept = left_over(cluster)
    workload = next(one for one in kept if one.lower().startswith(f"{kind} ") and "ranks" not in one)
    assert [one for one in kept if one.startswith("Secret")], kept
    assert [one for one in kept if one.startswith("Pod")], kept
    cluster.kubectl("delete", kind, workload.split()[1])
    wait_until_clean(cluster)
