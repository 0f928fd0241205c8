"""A real API server accepts the output of a dry run in strict mode: no unknown field, no invalid value."""

import subprocess

import pytest

from .cluster import Cluster, built_in
from .launching import Launches, left_over

EVERYTHING = [
    *("--gpus=8", "--shm=16Gi"),
    *("--resource=vpc.amazonaws.com/efa=32", "--resource=cpu=16", "--resource=hugepages-2Mi=5120Mi"),
    *("--node-selector=zone=a", "--toleration=nvidia.com/gpu", "--toleration=dedicated=hpc:NoSchedule"),
    *("--capability=IPC_LOCK", "--run-as-user=1000", "--host-network", "--port=4242", "--queue=physics"),
    *("--image-pull-secret=registry", "--image-pull-policy=Always", "--service-account=default"),
    *("--priority-class=system-node-critical", "--env=NCCL_DEBUG=INFO", "--env=ODD=$(x)"),
]
SYSTEMS = ["p4d.24xlarge", "p5.48xlarge", "hgx-h100", "nd-h100-v5", "gb200-nvl72", "host"]


def accepted(cluster: Cluster, manifests: str) -> str:
    """Output of `kubectl apply` with a server-side dry run."""
    done = subprocess.run(
        [built_in() / "bin" / "kubectl", "apply", "--dry-run=server", "--validate=strict", "-f", "-"],
        env=cluster.environment(),
        input=manifests,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout


@pytest.mark.parametrize("kind", ["job", "jobset", "mpijob"])
@pytest.mark.parametrize("options", [[], EVERYTHING], ids=["plain", "everything"])
def test_the_api_server_accepts_a_dry_run(cluster: Cluster, launches: Launches, kind: str, options: list[str]) -> None:
    shown = launches.run("--dry-run", "--workload-kind", kind, *options, "--", "all_reduce", "-e", "1M")
    assert shown.code == 0, shown.err
    said = accepted(cluster, shown.out)
    assert f"{kind}" in said.lower()
    assert "(server dry run)" in said
    assert not left_over(cluster)


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_api_server_accepts_a_machine_type(cluster: Cluster, launches: Launches, system: str) -> None:
    shown = launches.run("--dry-run", "--machine-type", system, "--", "all_reduce")
    assert shown.code == 0, shown.err
    assert "job" in accepted(cluster, shown.out)


def test_a_field_that_does_not_exist_would_be_noticed(cluster: Cluster, launches: Launches) -> None:
    shown = launches.run("--dry-run", "--", "all_reduce").out
    with pytest.raises(AssertionError, match="unknown field"):
        accepted(cluster, shown.replace("completionMode:", "completionMood:"))
