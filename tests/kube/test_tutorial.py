"""docs/tutorials/kubernetes.md: a real job without GPUs prints what the page shows."""

import shlex

from doc_commands import ROOT, Output, difference, read_commands

from .cluster import Cluster
from .kubelet import Kubelet
from .launching import Launches

PAGE = ROOT / "docs" / "tutorials" / "kubernetes.md"


def test_two_nodes_without_gpus(cluster: Cluster, kubelet: Kubelet, launches: Launches) -> None:
    (command,) = [one for one in read_commands(PAGE, ("needs-cluster",)) if "--backend host" in one.command]
    words = shlex.split(command.command)
    assert words[:5] == ["busbw", "launch", "kubernetes", "-n", "bench"]
    # The namespace of the tests is the default one.
    ended = launches.run(*words[5:])
    assert ended.code == 0, ended.err
    # A terminal shows both streams.
    output = Output((*ended.out.splitlines(), *ended.err.splitlines()), ended.code)
    assert difference(command.expected, output, exact=False) == ""
