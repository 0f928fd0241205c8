"""`busbw find --topology`: leaf switches that the measuring program does not know."""

import json
import shlex
import sys
import textwrap
from pathlib import Path

import pytest
from find_clusters import SIMULATOR

from busbw.cli.main import main

PROGRAM = textwrap.dedent(
    f"""
    import sys
    from functools import partial

    from msgspec.structs import replace
    from busbw.simulator.fabric import Fabric
    sys.path.insert(0, {str(SIMULATOR.parent)!r})
    import find_simulator as program

    def describe(fabric, describe=Fabric.describe):
        without_leaf = lambda nics: tuple(replace(nic, leaf=None) for nic in nics)
        return [replace(node, nics=without_leaf(node.nics)) for node in describe(fabric)]

    Fabric.describe = describe
    program.Fabric = partial(Fabric, layout="leaf-spine", nodes_per_group=4)
    program.main()
    """
)


def find(folder: Path, topology: str, *words: str) -> int:
    """Searches in four groups of four nodes, with leaf switches that only the file names."""
    program, file = folder / "program.py", folder / "topology.conf"
    program.write_text(PROGRAM)
    file.write_text(topology)
    command = shlex.join([sys.executable, str(program), "16x2", "--fault", "leaf:1:2"])
    record = str(folder / "search.jsonl")
    return main(["find", "--measure-with", command, "--topology", str(file), "--records", record, *words])


def test_a_slow_leaf_switch_gets_the_name_of_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    racks = [("rack-a", "n[0-3]"), ("rack-b", "n[4-7]"), ("rack-c", "n[8-11]"), ("rack-d", "n[12-15]")]
    topology = "".join(f"SwitchName={name} Nodes={nodes}\n" for name, nodes in racks)
    assert find(tmp_path, topology, "--json") == 5
    output = capsys.readouterr()
    [finding] = json.loads(output.out)["findings"]
    assert (finding["kind"], finding["leaf"]) == ("leaf", "rack-b")
    assert output.err.startswith("Record: ")


def test_nodes_without_a_leaf_are_named_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    find(tmp_path, "SwitchName=rack-a Nodes=n[0-8]\n", "--json", "--max-rounds", "3")
    output = capsys.readouterr()
    assert output.err.startswith(f"{tmp_path / 'topology.conf'} lacks leaf switches of n9, n10, n11 and 4 more\n")
    assert json.loads(output.out)["rounds"] == 3


def test_a_contradiction_ends_the_search_before_its_first_round(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert find(tmp_path, "SwitchName=a Nodes=n[0-15]\nSwitchName=b Nodes=n7\n") == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert "NIC mlx5_0 of n7 has several leaf switches: a, b; correct the file" in output.err


def test_a_wrong_file_is_an_error_before_the_program_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["find", "--measure-with", "/nonexistent/program", "--topology", str(tmp_path / "nothing")]) == 2
    assert "nothing: No such file or directory; name a readable file" in capsys.readouterr().err
