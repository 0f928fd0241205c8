"""Parts that no longer answer: a finding, and the search continues with the rest, or ends early."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from busbw.cli.main import main

pytestmark = pytest.mark.usefixtures("here")

PROGRAM = """
import json, sys
LOST = {lost!r}
NICS = [{{"name": f"mlx5_{{gpu}}", "rail": gpu, "gpus": [gpu]}} for gpu in range(2)]
NODES = [{{"name": f"n{{node}}", "leaf": "l", "gpus": 2, "nics": NICS}} for node in range(4)]
for line in sys.stdin:
    request = json.loads(line)
    if request["ask"] == "end":
        break
    if request["ask"] == "cluster":
        print(json.dumps({{"protocol": 1, "nodes": NODES, "lost": {absent!r}}}), flush=True)
        continue
    print(line, end="", file=open("requests", "a"))
    lost = LOST if request["id"] >= 3 else []
    if lost and {ends!r}:
        print(json.dumps({{"error": "the job ended", "lost": lost}}), flush=True)
        continue
    ends = [(gpu["node"], gpu["gpu"]) for gpu in lost]
    flows = []
    for row, flow in enumerate(request["flows"]):
        is_dead = any((end["node"], end["gpu"]) in ends for end in (flow["from"], flow["to"]))
        flows.append({{"error": "no peer"}} if is_dead else {{"times_us": [1000.0 + row % 7] * request["iterations"]}})
    print(json.dumps({{"id": request["id"], "flows": flows, "took_s": 0.01, "lost": lost}}), flush=True)
"""


def lost(node: str, gpu: int) -> dict[str, Any]:
    return {"node": node, "gpu": gpu, "error": "process 2 was killed"}


def search(gpus: list[dict[str, Any]], *options: str, ends: bool = False, absent: Sequence[dict[str, Any]] = ()) -> int:
    Path("program.py").write_text(PROGRAM.format(lost=gpus, ends=ends, absent=list(absent)))
    return main(["find", *options, "--measure-with", shlex.join([sys.executable, "program.py"])])


def test_a_lost_node_is_a_finding_and_the_rest_is_searched(capsys: pytest.CaptureFixture[str]) -> None:
    code = search([lost("n2", 0), lost("n2", 1)], "--json", "--write-hostfile", "hosts")
    result = json.loads(capsys.readouterr().out)
    assert code == 5
    assert [(one["kind"], one["node"], one["dead"], one["lost"]) for one in result["findings"]] == [
        ("node", "n2", True, True)
    ]
    assert result["findings"][0]["says"] == "node n2 does not answer; process 2 was killed"
    assert (result["complete"], result["undecided"]) == (True, [])
    assert Path("hosts").read_text().split() == ["n0", "n1", "n3"]


def test_later_rounds_have_no_flow_of_a_lost_part() -> None:
    assert search([lost("n2", 0)]) == 5
    requests = [json.loads(line) for line in Path("requests").read_text().splitlines()]
    nodes = [{(end["node"], end["gpu"]) for flow in one["flows"] for end in flow.values()} for one in requests]
    assert any(("n2", 0) in ends for ends in nodes[:3])
    assert len(nodes) > 6
    for ends in nodes[3:]:
        assert ("n2", 0) not in ends
    assert any(("n2", 1) in ends for ends in nodes[3:])


def test_the_text_says_that_it_does_not_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert search([lost("n2", 1)]) == 5
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "LOST: GPU 1 of n2 does not answer."
    assert lines[1].strip() == "Process 2 was killed."
    assert not any(line.startswith(("SLOW", "HEALTHY", "UNDECIDED")) for line in lines)


def test_a_loss_that_ends_the_job_is_a_finding_too(capsys: pytest.CaptureFixture[str]) -> None:
    code = search([lost("n2", 0), lost("n2", 1)], ends=True)
    output = capsys.readouterr()
    assert code == 5
    assert output.out.splitlines()[:2] == [
        "The search ended early. This is the result of its first 2 rounds.",
        "LOST: node n2 does not answer.",
    ]
    assert "busbw find: the job ended; search again without the lost part" in output.err


def test_a_node_that_cannot_start_is_a_finding_and_no_flow_uses_it(capsys: pytest.CaptureFixture[str]) -> None:
    code = search([], "--json", absent=[lost("n2", 0), lost("n2", 1)])
    result = json.loads(capsys.readouterr().out)
    assert (code, result["complete"], result["undecided"]) == (5, True, [])
    assert [one["says"] for one in result["findings"]] == ["node n2 does not answer; process 2 was killed"]
    assert result["unsuspected_nodes"] == ["n0", "n1", "n3"]
    requests = [json.loads(line) for line in Path("requests").read_text().splitlines()]
    ends = {end["node"] for one in requests for flow in one["flows"] for end in flow.values()}
    assert ends == {"n0", "n1", "n3"}


def test_if_only_one_gpu_can_start_the_others_are_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    absent = [lost(f"n{node}", gpu) for node in range(4) for gpu in range(2)][1:]
    assert search([], absent=absent) == 5
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("LOST: ") for line in lines) == 4
    assert not any(line.startswith(("SLOW", "HEALTHY")) for line in lines)
    assert not Path("requests").exists()


def test_the_report_of_the_record_shows_it(capsys: pytest.CaptureFixture[str]) -> None:
    search([lost("n2", 0), lost("n2", 1)], "--records", "search.jsonl")
    assert main(["report", "search.jsonl", "-o", "page.html"]) == 0
    assert "node n2 does not answer" in Path("page.html").read_text()


def test_a_lost_gpu_that_the_cluster_lacks_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert search([lost("n9", 0)], ends=True) == 3
    assert "the measuring program lost GPU 0 of n9, which the cluster does not have" in capsys.readouterr().err


def test_without_any_other_flow_it_is_the_only_result(capsys: pytest.CaptureFixture[str]) -> None:
    program = PROGRAM.replace('request["id"] >= 3', 'request["id"] >= 1')
    every_other = [lost(f"n{node}", gpu) for node in range(4) for gpu in range(2)][1:]
    Path("program.py").write_text(program.format(lost=every_other, ends=False, absent=[]))
    assert main(["find", "--measure-with", shlex.join([sys.executable, "program.py"])]) == 5
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "LOST: GPU 1 of n0 does not answer."
    assert sum(line.startswith("LOST: ") for line in lines) == 4
    assert not any(line.startswith(("SLOW", "HEALTHY")) for line in lines)


def test_a_host_that_the_launcher_left_out_is_a_finding(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Process 0 gets the list of such hosts with the other variables of its job."""
    Path("program.py").write_text(PROGRAM.format(lost=[], ends=False, absent=[]))
    monkeypatch.setenv("BUSBW_LOST_HOSTS", json.dumps({"n9": "ssh cannot connect (timed out)"}))
    answers, answers_end = os.pipe()
    requests_end, requests = os.pipe()
    with subprocess.Popen([sys.executable, "program.py"], stdin=requests_end, stdout=answers_end):
        os.close(answers_end)
        os.close(requests_end)
        code = main(["find", "--connected", f"{answers},{requests}", "--json", "--write-hostfile", "hosts"])
    assert code == 5
    *_, end = (json.loads(line) for line in capsys.readouterr().out.splitlines() if '"kind":"search_end"' in line)
    assert [(one["kind"], one["node"], one["lost"], one["says"]) for one in end["result"]["findings"]] == [
        ("node", "n9", True, "node n9 cannot take part; ssh cannot connect (timed out)")
    ]
    assert Path("hosts").read_text().split() == ["n0", "n1", "n2", "n3"]


def test_only_a_search_of_a_job_reads_the_list(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BUSBW_LOST_HOSTS", json.dumps({"n9": "ssh cannot connect (timed out)"}))
    assert main(["find", "--simulate", "4x2"]) == 0
    assert "n9" not in capsys.readouterr().out
