"""One control plane for all tests, three nodes that are pretended and have GPUs, and three on which pods really run."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from busbw import engine

from .cluster import PRETENDED, Cluster, built_in, missing, temporary_cluster
from .kubelet import Kubelet, can_run
from .launching import MPI, Launches


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    if absent := missing():
        pytest.fail(f"{built_in()} lacks {' '.join(absent)}: run tools/kube/build.sh, as `make kube-test` does")
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
    busbw = folder / "busbw"
    source = Path(engine.__file__).parents[1]
    busbw.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(source)!r})\n"
        "from busbw.cli.main import main\nsys.exit(main())\n"
    )
    busbw.chmod(0o755)
    return folder


@pytest.fixture(scope="session")
def kubelet(cluster: Cluster, images: Path) -> Iterator[Kubelet]:
    """Three nodes on which pods are processes of this machine."""
    if why := can_run():
        pytest.skip(why)
    Path("/run/sshd").mkdir(exist_ok=True)  # sshd insists on it
    files = {
        "ssh/ssh_config.d/test.conf": "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n",
        "ssh/sshd_config.d/test.conf": f"UsePAM no\nSetEnv PATH={images}:{MPI}:/usr/bin:/bin\n",
    }
    with Kubelet(cluster, [images, MPI], nodes=3, files=files) as running:
        yield running


@pytest.fixture
def launches(cluster: Cluster, tmp_path: Path) -> Iterator[Launches]:
    """`busbw launch kubernetes`, as a person types it, in an empty folder."""
    launches = Launches(cluster, tmp_path)
    yield launches
    launches.stop_all()
