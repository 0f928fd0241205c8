"""Commands that remove accused nodes: one per node, safe in a shell, none for parts of the network."""

import shlex

import pytest

from busbw.cli.find.removal_commands import removal_lines
from busbw.find.findings import Finding


def finding(kind: str, **names: object) -> Finding:
    return Finding(kind=kind, slowdown=2.0, confidence=0.99, flows=9, exonerating_flows=9, says="", **names)  # type: ignore[arg-type]


def test_a_node_is_removed_once_with_all_reasons() -> None:
    nic = finding("nic", node="gx01.local", nic="mlx5_5", gpu=5, direction="send")
    lines = list(removal_lines([nic, finding("gpu", node="gx01.local", gpu=1)]))
    assert lines[0] == "To remove gx01.local from service, with Slurm or Kubernetes:"
    reason = "Reason=busbw find: NIC mlx5_5 of gx01.local (GPU 5), sending only, GPU 1 of gx01.local"
    assert [shlex.split(line) for line in lines[1:]] == [
        ["scontrol", "update", "NodeName=gx01.local", "State=DRAIN", reason],
        ["kubectl", "cordon", "gx01.local"],
    ]


def test_parts_of_the_network_have_no_node_to_remove() -> None:
    findings = [
        finding("pair", nodes=("a", "b"), direction="both"),
        finding("rail", rail=3),
        finding("leaf", leaf="l0"),
        finding("uplink", leaf="l0", direction="send"),
    ]
    assert list(removal_lines(findings)) == []


@pytest.mark.parametrize(
    "name", ["gx[01-99]", "[01]", "a,b", "--all", "a b", "$(reboot)", "a;reboot", "a'b", "ü", "a\nb", ""]
)
def test_a_name_that_a_command_would_read_otherwise_gets_no_command(name: str) -> None:
    [line] = removal_lines([finding("node", node=name, direction="both")])
    assert line == f"Remove node {shlex.quote(name)} by hand: its name is not a host name."


def test_a_hostile_nic_name_stays_in_the_reason() -> None:
    nic = finding("nic", node="n0", nic="x'; reboot; '", gpu=0, direction="both")
    command = list(removal_lines([nic]))[1]
    assert shlex.split(command)[4] == "Reason=busbw find: NIC x'; reboot; ' of n0 (GPU 0)"
