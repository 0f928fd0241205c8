"""deploy/kubernetes/role.yaml is all that the launcher needs, and without it the sentence says what to ask for."""

from pathlib import Path

import pytest
import yaml

from .cluster import ROOT, Cluster
from .kubelet import Kubelet
from .launching import KINDS, Launches, needs, wait_until_clean

ROLE = ROOT / "deploy" / "kubernetes" / "role.yaml"
TINY = ("--", "all_reduce", "-e", "64")


def as_user(cluster: Cluster, launches: Launches, name: str, path: Path) -> None:
    """From now on the launches are those of a user without any rights but those that were bound to the name."""
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["users"][0]["user"]["as"] = name
    path.write_text(yaml.safe_dump(config))
    launches.environment["KUBECONFIG"] = str(path)


@pytest.mark.parametrize("kind", ["job", "jobset", "mpijob"])
def test_the_role_is_enough(cluster: Cluster, kubelet: Kubelet, launches: Launches, tmp_path: Path, kind: str) -> None:
    needs(kind)
    space = f"for-{kind}"
    cluster.kubectl("create", "namespace", space)
    cluster.kubectl("apply", "-n", space, "-f", str(ROLE))
    cluster.kubectl("create", "rolebinding", "b", "-n", space, "--role=busbw-launch", "--user=alice")
    as_user(cluster, launches, "alice", tmp_path / "kubeconfig")
    ended = launches.run("-n", space, *KINDS[kind], *TINY)
    assert ended.code == 0, ended.err
    assert "# Collective test concluded" in ended.out
    assert "forbidden" not in ended.err.lower()
    wait_until_clean(cluster, space)


def test_an_error_without_rights_names_the_role(cluster: Cluster, launches: Launches, tmp_path: Path) -> None:
    as_user(cluster, launches, "mallory", tmp_path / "kubeconfig")
    ended = launches.run(*TINY)
    assert ended.code == 3
    assert 'User "mallory" cannot create resource "jobs"' in ended.err
    assert "deploy/kubernetes/role.yaml" in ended.err
    assert len(ended.err.splitlines()) == 1


def test_the_role_reads_no_secret(cluster: Cluster) -> None:
    rules = yaml.safe_load(ROLE.read_text())["rules"]
    verbs = {verb for rule in rules if "secrets" in rule["resources"] for verb in rule["verbs"]}
    assert verbs == {"create"}
