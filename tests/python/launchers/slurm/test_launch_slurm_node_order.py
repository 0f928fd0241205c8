"""The order of nodes by their switches."""

import random
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from launch_jobs import GOLDEN

from busbw.launchers.slurm.node_order import order_by_switch, parse_hostlist, sort_nodes

TOPOLOGY = (GOLDEN / "slurm" / "said" / "topology.txt").read_text()


def test_real_topologies() -> None:
    assert order_by_switch(TOPOLOGY) == ["n1", "n3", "n2", "n4"]


def test_leaves_of_one_switch_follow_each_other() -> None:
    topology = """
    # as in topology.conf
    SwitchName=s10 Nodes=a[01-02]   # the tenth
    SwitchName=s2 Nodes=b[1-3]
    SwitchName=s3 Nodes=c1
    SwitchName=left Switches=s[3,10]
    SwitchName=right Switches=s2
    SwitchName=top Switches=left,right
    """
    assert order_by_switch(topology) == ["c1", "a01", "a02", "b1", "b2", "b3"]


def test_blocks_count_like_leaves() -> None:
    assert order_by_switch("BlockName=b1 Nodes=n[5-6]\nBlockName=b2 Nodes=n[1-2]\n") == ["n5", "n6", "n1", "n2"]


def test_a_cycle_ends() -> None:
    assert order_by_switch("SwitchName=a Switches=b Nodes=x\nSwitchName=b Switches=a Nodes=y\n") == []
    assert order_by_switch(
        "SwitchName=top Switches=a\nSwitchName=a Switches=b Nodes=x\nSwitchName=b Switches=a Nodes=y"
    ) == [
        "y",
        "x",
    ]


def test_no_topology() -> None:
    assert order_by_switch("") == []
    assert order_by_switch("error: something else\n") == []


def test_nodes_that_no_switch_has_come_last() -> None:
    assert sort_nodes(["n10", "n9", "n2", "n1"], ["n2", "n3", "n1"]) == ["n2", "n1", "n9", "n10"]


@given(st.permutations([f"n{number}" for number in range(1, 9)]))
def test_the_order_does_not_depend_on_how_nodes_are_named_before(names: list[str]) -> None:
    assert sort_nodes(names, order_by_switch(TOPOLOGY)) == ["n1", "n3", "n2", "n4", "n5", "n6", "n7", "n8"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("n1", ["n1"]),
        ("n[1-3,07,10-11]", ["n1", "n2", "n3", "n07", "n10", "n11"]),
        ("gpu-a[01-02]-x,login", ["gpu-a01-x", "gpu-a02-x", "login"]),
        ("r[1-2]n[08-10]", ["r1n08", "r1n09", "r1n10", "r2n08", "r2n09", "r2n10"]),
    ],
)
def test_lists_of_hosts(text: str, names: list[str]) -> None:
    assert parse_hostlist(text) == names


def compressed(numbers: set[int], width: int) -> str:
    """The inverse: numbers as Slurm would write them."""
    parts: list[str] = []
    run: list[int] = []
    for number in [*sorted(numbers), None]:
        if run and number is not None and number == run[-1] + 1:
            run.append(number)
            continue
        if run:
            ends = [str(end).zfill(width) for end in (run[0], run[-1])]
            parts.append(ends[0] if len(run) == 1 else "-".join(ends))
        run = [] if number is None else [number]
    return f"n[{','.join(parts)}]"


@given(st.sets(st.integers(0, 500), min_size=1), st.integers(1, 5))
def test_lists_are_expanded_to_what_was_compressed(numbers: set[int], width: int) -> None:
    assert parse_hostlist(compressed(numbers, width)) == [f"n{str(number).zfill(width)}" for number in sorted(numbers)]


@pytest.mark.skipif(not shutil.which("scontrol"), reason="no scontrol here to compare with (Debian: slurm-client)")
def test_lists_are_expanded_as_slurm_does_it(tmp_path_factory: pytest.TempPathFactory) -> None:
    configuration = tmp_path_factory.mktemp("slurm") / "slurm.conf"
    configuration.write_text("ClusterName=none\nSlurmctldHost=localhost\n")
    chance = random.Random(1)
    for _ in range(10):
        numbers = {chance.randrange(300) for _ in range(chance.randrange(1, 20))}
        text = f"{compressed(numbers, chance.randrange(1, 4))},x[1-2]y[3-4]"
        said = subprocess.run(
            ["scontrol", "show", "hostnames", text],
            env={"SLURM_CONF": str(configuration), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert parse_hostlist(text) == said.stdout.split()
