"""The real program as the processes of pods, each in a network of its own, found by the names of the Service."""

import base64
import os
import signal
import subprocess

import pytest
from command_lines import command_lines

from .cluster import Cluster, wait_until
from .kubelet import Kubelet
from .launching import Launches, left_over, wait_until_clean

SWEEP = ("all_reduce", "-b", "8", "-e", "1M", "-f", "2")
ENDLESS = ("all_reduce", "-b", "8", "-e", "1K", "-f", "2", "-N", "0")


@pytest.fixture
def nodes(kubelet: Kubelet) -> Kubelet:
    kubelet.logs.cut_after = None
    return kubelet


@pytest.mark.parametrize("kind", ["job", "jobset"])
def test_pods_become_one_job(cluster: Cluster, nodes: Kubelet, launches: Launches, kind: str) -> None:
    launch = launches.start("--nodes", "3", "--workload-kind", kind, "--", *SWEEP)
    ended = launch.finish()
    assert ended.code == 0, ended.err
    assert ended.out.count("# Collective test starting") == 1
    hosts = [line.split(" on ")[1].split()[0] for line in ended.out.splitlines() if line.startswith("#  Rank")]
    assert len(set(hosts)) == 3, ended.out
    rows = launch.rows()
    assert rows
    assert all(row["check"]["wrong_elements"] == 0 for row in rows)
    assert all(row["busbw_gbps"] > 0 for row in rows if row["size_bytes"] >= 1 << 20)
    wait_until_clean(cluster)


def test_the_token_is_in_no_command_line_and_no_pod(cluster: Cluster, nodes: Kubelet, launches: Launches) -> None:
    launch = launches.start("--", *ENDLESS)
    wait_until(lambda: len(left_over(cluster)) >= 5, "the job")
    wait_until(lambda: _processes(cluster, nodes), "its processes")
    (secret,) = cluster.objects("secrets", "-l", "app.kubernetes.io/name=busbw")
    token = base64.b64decode(secret["data"]["BUSBW_TOKEN"]).decode()
    assert len(token) >= 32
    every = b"".join(command_lines())
    assert b"all_reduce_perf" in every
    assert token.encode() not in every
    assert token not in cluster.kubectl("get", "pods,jobs,services,events", "-o", "json")
    launch.interrupt()
    ended = launch.finish()
    assert token not in ended.out + ended.err
    wait_until_clean(cluster)


def test_two_jobs_at_once_do_not_disturb_each_other(cluster: Cluster, nodes: Kubelet, launches: Launches) -> None:
    collectives = ("all_gather", "reduce")
    both = [launches.start("--", collective, "-b", "8", "-e", "64K", "-f", "2") for collective in collectives]
    for collective, launch in zip(collectives, both, strict=True):
        ended = launch.finish()
        assert ended.code == 0, ended.err
        assert f"# Collective test concluded: {collective}_perf" in ended.out
        assert all(row["check"]["wrong_elements"] == 0 for row in launch.rows())
    wait_until_clean(cluster)


def test_a_log_with_lost_connections_has_each_line_once(cluster: Cluster, nodes: Kubelet, launches: Launches) -> None:
    nodes.logs.cut_after = 7
    launch = launches.start("--", *SWEEP)
    ended = launch.finish()
    assert ended.code == 0, ended.err
    sizes = [int(line.split()[0]) for line in ended.out.splitlines() if line.strip() and line.split()[0].isdigit()]
    assert sizes == [8 << shift for shift in range(18)]
    assert [row["requested_bytes"] for row in launch.rows() if row["placement"] == "in_place"] == sizes
    wait_until_clean(cluster)


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (("--fault", "flip:rank=1,index=3,bit=5"), 1),
        (("-o", "mean"), 2),
        (("--fault", "die:rank=1,phase=timing"), 4),
        (("--fault", "die:rank=0,phase=timing"), None),
    ],
    ids=["wrong data", "usage", "rank lost", "process 0 killed"],
)
def test_the_exit_code_is_the_programs(
    cluster: Cluster, nodes: Kubelet, launches: Launches, flags: tuple[str, ...], code: int | None
) -> None:
    ended = launches.run("--", *SWEEP, *flags)
    assert ended.code == (128 + signal.SIGKILL if code is None else code), ended.err
    if code == 4:
        assert "rank 1" in ended.err
    wait_until_clean(cluster)


def test_ctrl_c_deletes_the_job_and_keeps_what_arrived(cluster: Cluster, nodes: Kubelet, launches: Launches) -> None:
    launch = launches.start("--", *ENDLESS)
    records = launch.folder / "busbw-records"
    wait_until(lambda: [path for path in records.glob("*/records.jsonl") if '"row"' in path.read_text()], "a row")
    launch.interrupt()
    ended = launch.finish()
    assert ended.code == 130, ended.err
    assert launch.rows()
    wait_until_clean(cluster)


def test_a_process_that_is_killed_from_outside_ends_the_job(
    cluster: Cluster, nodes: Kubelet, launches: Launches
) -> None:
    launch = launches.start("--", *ENDLESS)
    records = launch.folder / "busbw-records"
    wait_until(lambda: [path for path in records.glob("*/records.jsonl") if '"row"' in path.read_text()], "a row")
    os.kill(nodes.process_of("-1-").pid, signal.SIGKILL)
    ended = launch.finish()
    assert ended.code == 4, ended.err
    assert launch.rows()
    wait_until_clean(cluster)


def test_a_pod_deleted_by_another_user_ends_the_job(cluster: Cluster, nodes: Kubelet, launches: Launches) -> None:
    launch = launches.start("--", *ENDLESS)
    records = launch.folder / "busbw-records"
    wait_until(lambda: [path for path in records.glob("*/records.jsonl") if '"row"' in path.read_text()], "a row")
    (head,) = [one for one in left_over(cluster) if one.startswith("Pod") and "-0-" in one]
    cluster.kubectl("delete", "pod", head.split()[1], "--wait=false")
    ended = launch.finish()
    assert ended.code != 0, ended.err
    assert launch.rows()
    wait_until_clean(cluster)


def _processes(cluster: Cluster, nodes: Kubelet) -> bool:
    done = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return done.stdout.count("all_reduce_perf -b") >= 2
