"""Jobs that cannot start: the cluster's message appears within seconds with a remedy, and the job is deleted."""

from pathlib import Path

import pytest

from .cluster import Cluster, wait_until
from .kubelet import Kubelet
from .launching import Launches, left_over, wait_until_clean

SHORT_LIMIT = ("--pending-timeout", "3")
TINY = ("--", "all_reduce", "-e", "64")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--gpus", "16"], ["0 of the", "could ever hold 16 nvidia.com/gpu", "0/", "Insufficient nvidia.com/gpu"]),
        (["--nodes", "40"], ["6 of the 6 nodes could ever hold", "40 are needed", "request fewer resources"]),
        (["--node-selector", "moon=full"], ["0 of the 0 nodes with moon=full", "didn't match Pod's node affinity"]),
    ],
    ids=["too many GPUs", "too many nodes", "no such node"],
)
@pytest.mark.parametrize("kind", ["job", "mpijob"])
def test_an_oversized_job_ends_with_the_schedulers_message(
    cluster: Cluster, kubelet: Kubelet, launches: Launches, kind: str, options: list[str], words: list[str]
) -> None:
    ended = launches.run("--workload-kind", kind, *SHORT_LIMIT, *options, *TINY)
    assert ended.code == 3, ended.err
    for word in words:
        assert word in ended.err
    wait_until_clean(cluster)


def test_an_image_that_is_not_there(cluster: Cluster, kubelet: Kubelet, launches: Launches) -> None:
    ended = launches.run(*SHORT_LIMIT, *TINY, image="missing/busbw:1")
    assert ended.code == 3, ended.err
    assert "missing/busbw:1" in ended.err
    assert "ErrImagePull" in ended.err or "ImagePullBackOff" in ended.err
    assert "--image-pull-secret" in ended.err
    wait_until_clean(cluster)


def test_an_image_without_the_program(cluster: Cluster, kubelet: Kubelet, launches: Launches) -> None:
    ended = launches.run("--program-path", "/nowhere/all_reduce_perf", *TINY)
    assert ended.code == 3, ended.err
    assert "StartError" in ended.err
    assert "executable file not found" in ended.err
    assert "--program-path" in ended.err
    wait_until_clean(cluster)


def test_a_quota_that_allows_fewer_pods(cluster: Cluster, kubelet: Kubelet, launches: Launches) -> None:
    cluster.kubectl("create", "namespace", "small")
    cluster.kubectl("create", "quota", "few", "--hard=pods=1", "-n", "small")
    ended = launches.run("-n", "small", *SHORT_LIMIT, *TINY)
    assert ended.code == 3, ended.err
    assert "exceeded quota: few" in ended.err
    wait_until_clean(cluster, "small")


def test_a_namespace_that_is_not_there(cluster: Cluster, launches: Launches) -> None:
    ended = launches.run("-n", "atlantis", *TINY)
    assert ended.code == 3
    assert 'namespaces "atlantis" not found' in ended.err
    assert "kubectl create namespace" in ended.err
    assert len(ended.err.splitlines()) == 1


def test_a_value_that_the_api_server_rejects(cluster: Cluster, launches: Launches) -> None:
    ended = launches.run("--node-selector", "not a label=x", *TINY)
    assert ended.code == 2, ended.err
    assert "not a label" in ended.err
    assert not left_over(cluster)


def test_a_wait_that_resolves(cluster: Cluster, kubelet: Kubelet, launches: Launches) -> None:
    for node in kubelet.nodes:
        cluster.kubectl("cordon", node)
    launch = launches.start(*TINY)
    try:
        wait_until(
            lambda: "waiting: 2 of 2 pods pending (0/6 nodes are available" in launch.stderr_text(), "its word on it"
        )
    finally:
        for node in kubelet.nodes:
            cluster.kubectl("uncordon", node)
    ended = launch.finish()
    assert ended.code == 0, ended.err
    wait_until_clean(cluster)


def test_ctrl_c_while_it_waits(cluster: Cluster, kubelet: Kubelet, launches: Launches) -> None:
    launch = launches.start("--gpus", "16", *TINY)
    wait_until(lambda: [one for one in left_over(cluster) if one.startswith("Pod")], "the pods")
    launch.interrupt()
    ended = launch.finish()
    assert ended.code == 130, ended.err
    assert not list(Path(launch.folder).glob("busbw-records/*"))
    wait_until_clean(cluster)
