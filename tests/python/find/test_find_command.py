"""`busbw find --simulate`: text, JSON, exit codes and wrong options."""

import json
from pathlib import Path

import pytest

from busbw.cli.find.summary import FindSummary, answer_text, power_sentence
from busbw.cli.main import main
from busbw.find.power import KindPower
from busbw.launchers.machine_types.machine_type import load


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["find", *words])
    output = capsys.readouterr()
    return code, output.out, output.err


def test_the_answer_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--simulate", "16x8", "--fault", "nic:3/5:2.0")
    lines = out.splitlines()
    assert code == 5
    assert lines[0].startswith("SLOW: NIC mlx5_5 of n3 (GPU 5, rail 5) takes 2.0")
    assert "flows support it" in lines[1]
    assert lines[2].startswith("    Cost: a 1 GiB all-reduce over 128 GPUs is expected to take ")
    assert lines[3].startswith("    Next: ")
    assert lines[4] == "To remove n3 from service, with Slurm or Kubernetes:"
    reason = "busbw find: NIC mlx5_5 of n3 (GPU 5, rail 5)"
    assert lines[5] == f"    scontrol update NodeName=n3 State=DRAIN Reason='{reason}'"
    assert lines[6] == "    kubectl cordon n3"
    assert "16 nodes: none is slower than its peers by 10 % or more; such a part would be found in 99 %" in out
    assert "128 NICs: apart from the above, none is slower" in out


def test_a_machine_type_names_the_system(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--simulate", "4x2", "--fault", "node:1:2", "--system"]
    _, by_alias, _ = run(capsys, *words, "Standard_ND96asr_v4")
    _, by_name, _ = run(capsys, *words, load("Standard_ND96asr_v4").system or "")
    assert by_alias == by_name
    code, _, err = run(capsys, *words, "p6.99xlarge")
    assert code == 2
    assert 'there is no system "p6.99xlarge"' in err


def test_a_healthy_cluster_ends_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--simulate", "4x8")
    assert code == 0
    assert out.startswith("HEALTHY: no part is slower than its peers.\n")
    assert "SLOW" not in out


def test_parts_that_cannot_be_told_apart_end_with_6(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--simulate", "4x1", "--fault", "nic:2/0:2")
    assert code == 6
    assert out.startswith("UNDECIDED: ")
    assert "node n2" in out.splitlines()[0]


def test_nodes_that_are_all_slow_are_undecided(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--simulate", "2x8", "--fault", "node:0:2")
    assert code == 6
    assert "of the expected 50 GB/s" in out.splitlines()[0]


@pytest.mark.parametrize("slow_leaves", [(0,), (0, 1)])
def test_slow_uplinks_that_all_flows_between_leaves_cross_are_undecided(
    slow_leaves: tuple[int, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    faults = [word for leaf in slow_leaves for word in ("--fault", f"uplink:{leaf}:2")]
    fabric = ("--simulate", "8x4", "--layout", "leaf-spine", "--nodes-per-leaf", "4")
    code, out, _ = run(capsys, *fabric, *faults)
    assert code == 6
    assert out.splitlines()[0].startswith("UNDECIDED: Single flows between leaf switches take ")
    assert run(capsys, *fabric, "--oversubscription", "2")[0] == 0


def test_a_slow_leaf_explains_slow_flows_between_leaves(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--simulate", "8x8", "--layout", "leaf-spine", "--nodes-per-leaf", "4", "--fault", "leaf:1:1.5")
    code, out, _ = run(capsys, *words)
    assert code == 5
    assert "UNDECIDED" not in out


@pytest.mark.parametrize("slow_nodes", [10, 12])
def test_a_majority_of_slow_nodes_is_undecided(slow_nodes: int, capsys: pytest.CaptureFixture[str]) -> None:
    faults = [word for node in range(slow_nodes) for word in ("--fault", f"node:{node}:2")]
    code, out, _ = run(capsys, "--simulate", "16x4", *faults)
    assert code == 6
    assert out.startswith("UNDECIDED: Flows of ")
    assert "pairs of nodes take 0.5" in out
    assert "most may be slow" in out


def test_json_follows_the_protocol(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--simulate", "8x8", "--fault", "node:3:1.5", "--json")
    result = json.loads(out)
    assert code == 5
    assert (result["schema"], result["healthy"], result["undecided"]) == ("busbw-find-1", False, [])
    [finding] = result["findings"]
    assert (finding["kind"], finding["node"], finding["direction"]) == ("node", "n3", "both")
    assert finding["slowdown"] == pytest.approx(1.5, rel=0.05)
    assert finding["says"].startswith("node n3 takes 1.")
    assert result["rounds"] > 0
    assert result["flows"] > result["rounds"]


@pytest.mark.parametrize("more", [(), ("--pairs",)])
def test_max_rounds_limits_the_search(capsys: pytest.CaptureFixture[str], more: tuple[str, ...]) -> None:
    _, out, _ = run(capsys, "--simulate", "8x8", "--json", "--max-rounds", "9", *more)
    assert json.loads(out)["rounds"] == 9


def test_all_pairs_are_measured_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--simulate", "40x2", "--json", "--pairs")
    [pairs] = [one for one in json.loads(out)["power"] if one["kind"] == "pair"]
    assert pairs["parts"] == pairs["all_parts"] == 40 * 39 // 2


def test_the_hostfile_has_the_healthy_nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "hosts"
    code, *_ = run(capsys, "--simulate", "6x4", "--fault", "nic:3/1:2", "--write-hostfile", str(file))
    assert code == 5
    assert file.read_text().split() == ["n0", "n1", "n2", "n4", "n5"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--simulate", "4x8", "--measure-with", "x"], "--simulate and --measure-with exclude each other"),
        (["--measure-with", "x", "--fault", "nic:0/0:2"], "--fault is only for --simulate"),
        (["--measure-with", "'x"], "No closing quotation; quote it as in a shell"),
        (["--measure-with", " "], "--measure-with is empty; give a command"),
        (["--simulate", "4x8", "--seed", "-1"], "-1 is not in the range x>=0"),
        (["--simulate", "4x8", "--oversubscription", "nan"], "nan is not in the range 1<=x<=64"),
        (["--simulate", "4"], '"4" is not a cluster; write NODESxGPUS, such as 128x8'),
        (["--simulate", "99999x9"], "simulate at most 65,536"),
        (["--simulate", "0x8"], "a cluster of 0x8 has no GPU"),
        (["--simulate", "4x8", "--fault", "nik:0/0:2"], 'the kind "nik" is unknown; '),
        (
            ["--simulate", "4x8", "--fault", "nic:4/0:2"],
            "4 is outside the cluster of 4x8; set NODE to a number from 0 to 3",
        ),
        (["--simulate", "4x2", "--fault", "nvlink:0/0-2:2"], "set GPU to a number from 0 to 1"),
        (["--simulate", "4x2", "--fault", "leaf:9:2"], "set LEAF to a number from 0 to 1"),
        (["--simulate", "4x8", "--fault", "nic:0:2"], "write nic:NODE/NIC:SLOWDOWN"),
        (["--simulate", "4x8", "--fault", "nic:0/0:0.5"], "is not a fault"),
        (["--simulate", "4x8", "--fault", "nic:0/0:2@7"], "is not a fault"),
        (["--simulate", "4x8", "--fault", "pair:1-1:2"], "a pair has two different ends"),
        (
            ["--simulate", "4x8", "--fault", "failover:1/5:4.0"],
            "--fault failover:1/5:4.0: a failover has no slowdown; write failover:NODE/NIC",
        ),
        (["--simulate", "4x8", "--fault", "failover:1"], "write failover:NODE/NIC, such as failover:3/5"),
    ],
)
def test_a_wrong_option_is_an_error(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "")
    assert message in err


def test_a_single_gpu_cannot_be_measured(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "--simulate", "1x1")
    assert code == 3
    assert "there is no flow to measure; give at least two GPUs" in err


def test_the_help_shows_a_first_command(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--help")
    assert code == 0
    assert "busbw find --simulate 16x8 --fault nic:3/5:2.0" in " ".join(out.split())


@pytest.mark.parametrize(
    ("words", "code", "answer"),
    [
        (["1x2"], 0, "HEALTHY: typical flows reach the expected rate."),
        (["1x2", "--fault", "gpu:0/0:2"], 6, "UNDECIDED: Typical flows within nodes reach "),
        (["2x1", "--fault", "node:1:2"], 6, "UNDECIDED: Typical flows between nodes reach "),
        (["1x2", "--system", "host"], 6, "UNDECIDED: Too few parts to compare them with their peers."),
        (["2x1", "--size", "1M", "--system", "host"], 6, "UNDECIDED: Too few parts to compare them with their peers."),
    ],
)
def test_two_parts_are_compared_with_the_expected_rate(
    words: list[str], code: int, answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    actual_code, out, _ = run(capsys, "--simulate", *words)
    assert (actual_code, out[: len(answer)]) == (code, answer)
    assert "2 GPUs: not compared; a part that is slower by 10 % would hardly be found" in out


@pytest.mark.parametrize(
    ("found", "answer"),
    [
        (0.5, "HEALTHY: no part is slower than its peers."),
        (0.3, "HEALTHY: typical flows reach the expected rate."),
    ],
)
def test_no_part_is_called_like_its_peers_if_a_slow_one_would_rarely_be_found(found: float, answer: str) -> None:
    """The answer has the same limit as the question that is open if no rate is expected either."""
    power = KindPower(kind="gpu", parts=3, all_parts=3, min_flows=2, median_flows=2, found=found)
    summary = FindSummary(
        findings=[],
        undecided=[],
        healthy=True,
        power=[power],
        rounds=1,
        measured_s=None,
        unsuspected_nodes=["n0"],
        complete=True,
    )
    assert answer_text(summary) == answer
    chance = f"such a part would be found in {found * 100:.0f} % of searches (typically 2 flows per part)."
    assert power_sentence(power, has_suspects=False, unit="flow").endswith(chance)
