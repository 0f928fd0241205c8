"""One control plane for all tests, three nodes that are pretended and have GPUs, and three on which pods really run."""

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from busbw import engine

from .cluster import PRETENDED, Cluster, built_in, missing, temporary_cluster
from .kubelet import Kubelet, can_run
from .launching import Launches

# Stands for Open MPI's: what follows its options is run once, as the only process of its job.
_MPIRUN = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do case "$1" in -np|--map-by|--bind-to|--hostfile|-x) shift 2;; *) shift;; esac; done
echo "$@" | grep -q "$BUSBW_TOKEN" && echo "the token is on the command line"
cat /etc/mpi/hostfile >/dev/null 2>&1
BUSBW_LAUNCHER=none exec "$@"
"""


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    if lacking := missing():
        pytest.fail(f"{built_in()} lacks {' '.join(lacking)}: run tools/kube/build.sh, as `make kube-test` does")
    with temporary_cluster() as running:
        for number in range(3):
            name = f"gpu-{number}"
            running.add_node(name, annotations=PRETENDED, capacity={"nvidia.com/gpu": "8"})
            taint = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
            change = {"metadata": {"labels": {"pretended": "yes"}}, "spec": {"taints": [taint]}}
            running.request("PATCH", f"/api/v1/nodes/{name}", change, "application/merge-patch+json")
        yield running


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which every container finds its programs."""
    folder = tmp_path_factory.mktemp("programs")
    for program in engine.program(engine.ENGINE).parent.iterdir():
        if program.name == engine.ENGINE or program.name.endswith("_perf"):
            (folder / program.name).symlink_to(program.resolve())
    mpirun = folder / "mpirun"
    mpirun.write_text(_MPIRUN)
    mpirun.chmod(mpirun.stat().st_mode | stat.S_IXUSR)
    return folder


@pytest.fixture(scope="session")
def kubelet(cluster: Cluster, images: Path) -> Iterator[Kubelet]:
    """Three nodes on which pods are processes of this machine."""
    if why := can_run():
        pytest.skip(why)
    with Kubelet(cluster, images, nodes=3) as running:
        yield running


@pytest.fixture
def launches(cluster: Cluster, tmp_path: Path) -> Iterator[Launches]:
    """`busbw launch kubernetes`, as a person types it, in an empty folder."""
    launches = Launches(cluster, tmp_path)
    yield launches
    launches.stop_all()
