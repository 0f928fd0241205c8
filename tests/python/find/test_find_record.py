"""The record of a search: its lines, its end in all cases, and commands that expect a log."""

import json
import os
import resource
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import jsonschema
import numpy as np
import pytest
from conftest import BUSBW, GOLDEN_RECORD
from find_clusters import SIMULATOR, simulate
from polling import wait_until

from busbw import schema
from busbw.cli.main import main
from busbw.find.explanation import explain
from busbw.find.findings import make_findings
from busbw.find.observations import Observations
from busbw.find.rounds import Load
from busbw.find.search import Search
from busbw.records import RecordsError
from busbw.searches.recorded_search import read_search
from busbw.searches.records import LoadName
from busbw.simulator.measurer import SimulatedMeasurer

pytestmark = pytest.mark.usefixtures("here")

FAULT = ("--fault", "nic:2/1:2")
SLOW_PROGRAM = f"""
import subprocess, sys
simulator = subprocess.Popen([sys.executable, {str(SIMULATOR)!r}, "8x2", "--fault", "node:5:3"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
for number, line in enumerate(sys.stdin.buffer):
    if number == 7:
        open("ready", "w").close()
        sys.stdin.buffer.read()  # until the search ends
        break
    simulator.stdin.write(line); simulator.stdin.flush()
    sys.stdout.buffer.write(simulator.stdout.readline()); sys.stdout.buffer.flush()
"""


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def stored_record() -> Path:
    [path] = Path("busbw-records").glob("*-find/records.jsonl")
    return path


def test_the_record_has_every_flow_and_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["find", "--simulate", "4x2", *FAULT, "--seed", "3", "--records", "s.jsonl", "--json"]) == 5
    output = capsys.readouterr()
    assert output.err == "Record: s.jsonl\n"
    header, *rounds, end = lines_of(Path("s.jsonl"))
    for line in (header, *rounds, end):
        jsonschema.Draft202012Validator(json.loads(schema.schema_text("records"))).validate(line)
    assert (header["kind"], header["seed"], header["simulated"]) == ("search", 3, True)
    assert [node["name"] for node in header["nodes"]] == ["n0", "n1", "n2", "n3"]
    assert (end["kind"], end["exit_code"], end["message"]) == ("search_end", 5, None)
    assert end["answer"].startswith("SLOW: NIC mlx5_1 of n2 ")
    result = json.loads(output.out)
    del result["schema_version"]
    assert end["result"] == result
    assert len(rounds) == result["rounds"]
    assert sum(len(one["times_us"]) for one in rounds) == result["flows"]

    independent = Search(measurer=SimulatedMeasurer(simulate("4x2", "nic:2/1:2", seed=3).simulation), seed=3)
    independent.run()
    for line, planned, measured in zip(rounds, independent.rounds, independent.results, strict=True):
        assert (line["sources"], line["targets"]) == (planned.source.tolist(), planned.target.tolist())
        assert line["size_bytes"] == planned.size_bytes
        np.testing.assert_allclose(line["times_us"], measured.times_us, atol=0.0005)


def test_a_new_analysis_of_the_record_gives_the_same_findings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["find", "--simulate", "8x4", *FAULT, "--fault", "gpu:5/3:1.5", "--records", "s.jsonl", "--json"]) == 5
    expected = json.loads(capsys.readouterr().out)["findings"]
    assert len(expected) == 2
    search = read_search(Path("s.jsonl"))
    observed = Observations(search.cluster, search.rounds, search.results)
    findings, _ = make_findings(observed, explain(observed), search.cluster)
    assert [finding.says for finding in findings] == [finding["says"] for finding in expected]


def test_a_flow_without_times_stays_without(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["find", "--simulate", "4x2", "--fault", "nic:2/1:dead", "--records", "s.jsonl"]) == 5
    rounds = [line for line in lines_of(Path("s.jsonl")) if line["kind"] == "round"]
    failed = {(number, int(flow)) for number, one in enumerate(rounds) for flow in one["errors"]}
    empty = {(number, flow) for number, one in enumerate(rounds) for flow, t in enumerate(one["times_us"]) if not t}
    assert failed == empty != set()
    assert {reason for one in rounds for reason in one["errors"].values()} == {"timed out after 30 s"}
    for one, result in zip(rounds, read_search(Path("s.jsonl")).results, strict=True):
        assert set(np.flatnonzero(result.is_dead)) == set(map(int, one["errors"]))
    assert "SLOW: NIC mlx5_1 of n2 (GPU 1, rail 1) transfers nothing." in capsys.readouterr().out


def test_only_measured_searches_are_kept_without_a_request(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["find", "--simulate", "4x2"]) == 0
    assert list(Path().iterdir()) == []
    simulator = shlex.join([sys.executable, str(SIMULATOR), "4x2"])
    assert main(["find", "--measure-with", simulator]) == 0
    record = stored_record()
    assert capsys.readouterr().err == f"Record: {record}\n"
    run = json.loads((record.parent / "run.json").read_text())
    assert run["exit_code"] == 0
    assert lines_of(record)[0]["simulated"] is False
    assert main(["find", "--simulate", "4x2", "--store", "other"]) == 0
    assert len(list(Path("other").glob("*-find"))) == 1


def start_slow_search() -> "subprocess.Popen[str]":
    """Starts a search and returns it during its seventh round."""
    Path("slow.py").write_text(SLOW_PROGRAM)
    search = subprocess.Popen(
        [*BUSBW, "find", "--measure-with", f"{shlex.quote(sys.executable)} slow.py"],
        stdout=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: Path("ready").exists() or search.poll() is not None, "the seventh round")
    return search


def test_an_interrupted_search_keeps_its_rounds(capsys: pytest.CaptureFixture[str]) -> None:
    search = start_slow_search()
    os.kill(search.pid, signal.SIGINT)
    output, _ = search.communicate(timeout=60)
    assert search.returncode == 130
    assert "SLOW: node n5 " in output
    header, *rounds, end = lines_of(stored_record())
    assert header["kind"] == "search"
    assert [one["kind"] for one in rounds] == ["round"] * 6
    assert (end["exit_code"], end["result"]["complete"]) == (130, False)
    assert main(["runs"]) == 0
    assert f"{stored_record().parent.name}  SLOW: node n5 " in capsys.readouterr().out


def test_a_killed_search_keeps_its_rounds(capsys: pytest.CaptureFixture[str]) -> None:
    search = start_slow_search()
    os.kill(search.pid, signal.SIGKILL)
    search.communicate(timeout=60)
    record = stored_record()
    with record.open("ab") as file:
        file.write(b'{"kind":"round","load":"bo')  # as if it was killed in a write
    read = read_search(record)
    assert len(read.rounds) == 6
    assert read.end is None
    assert main(["runs"]) == 0
    assert f"{record.parent.name}  it has no end" in capsys.readouterr().out


def test_commands_for_logs_say_what_the_file_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["find", "--simulate", "4x2", *FAULT, "--store", "busbw-records"]) == 5
    name = stored_record().parent.name
    capsys.readouterr()
    for words in (["check", "last"], ["show", "last"], ["export", "csv", "last"], ["compare", "last", "last"]):
        assert main(words) == 2
        error = capsys.readouterr().err
        assert f"{name}/records.jsonl is a search without rows: SLOW: NIC mlx5_1 of n2 " in error
        assert error.endswith("; show it with busbw report\n")


def test_runs_lists_searches_with_their_answers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["find", "--simulate", "4x2", *FAULT, "--store", "busbw-records"]) == 5
    name = stored_record().parent.name
    capsys.readouterr()
    assert main(["runs"]) == 0
    output = capsys.readouterr()
    [line] = output.out.splitlines()
    assert line.startswith(f"{name}  SLOW: NIC mlx5_1 of n2 ")
    assert output.err == ""
    assert main(["runs", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert (listed["search"], listed["answer"][:24]) == (name, "SLOW: NIC mlx5_1 of n2 (")
    assert main(["runs", "--collective", "all_reduce"]) == 0
    assert "no run in busbw-records matches" in capsys.readouterr().err


def test_a_folder_with_a_search_is_judged_without_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["find", "--simulate", "4x2", "--store", "busbw-records"]) == 0
    Path("busbw-records/run.jsonl").write_bytes(GOLDEN_RECORD.read_bytes())
    capsys.readouterr()
    expected_code = main(["check", "busbw-records/run.jsonl"])
    capsys.readouterr()
    assert main(["check", "busbw-records"]) == expected_code
    assert "records.jsonl is a search without rows and is left out." in capsys.readouterr().out


def test_an_existing_file_is_refused_before_the_search(capsys: pytest.CaptureFixture[str]) -> None:
    Path("s.jsonl").write_text("mine")
    assert main(["find", "--simulate", "4x2", "--records", "s.jsonl"]) == 2
    assert "--records s.jsonl exists; give a new file" in capsys.readouterr().err
    assert Path("s.jsonl").read_text() == "mine"


def test_a_folder_that_does_not_exist_is_refused_before_the_search(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["find", "--simulate", "4x2", "--records", "absent/s.jsonl", "--json"]) == 3
    output = capsys.readouterr()
    message = "cannot write absent/s.jsonl: No such file or directory; set another path with --records"
    assert (output.out, output.err) == ("", f"busbw: {message}\n")


def search_with_full_disk(max_bytes: int) -> subprocess.CompletedProcess[str]:
    """Runs a search with a limit for the size of its record."""
    return subprocess.run(
        [*BUSBW, "find", "--simulate", "4x2", "--records", "s.jsonl", "--json"],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (max_bytes, max_bytes)),
    )


def test_a_record_that_cannot_be_written_ends_the_search_with_its_result() -> None:
    search = search_with_full_disk(0)
    assert search.returncode == 3
    assert json.loads(search.stdout)["rounds"] == 1
    assert search.stderr == "busbw: cannot write s.jsonl: File too large; give another file\n", "there is no record"


def test_a_full_disk_leaves_whole_lines() -> None:
    search = search_with_full_disk(3000)
    assert search.returncode == 3
    assert "cannot write s.jsonl: File too large; give another file" in search.stderr
    kept = read_search(Path("s.jsonl")).rounds
    assert 0 < len(kept) == json.loads(search.stdout)["rounds"] - 1


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("load", "unheard", "Invalid enum value 'unheard'"),
        ("sources", [99], "a round names other flows than it has times for"),
        ("times_us", [], "a round names other flows than it has times for"),
        ("times_us", "x", "Expected `array`"),
    ],
)
def test_a_malformed_round_is_refused(field: str, value: object, message: str) -> None:
    assert main(["find", "--simulate", "4x2", "--records", "s.jsonl", "--max-rounds", "2"]) == 0
    lines = lines_of(Path("s.jsonl"))
    lines[1][field] = value
    Path("bad.jsonl").write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    with pytest.raises(RecordsError, match=message):
        read_search(Path("bad.jsonl"))


def test_the_schema_names_every_load() -> None:
    assert list(get_args(LoadName)) == [load.name.lower() for load in Load]


def test_a_record_without_a_round_is_refused() -> None:
    assert main(["find", "--simulate", "4x2", "--records", "s.jsonl", "--max-rounds", "1"]) == 0
    Path("short.jsonl").write_text(Path("s.jsonl").read_text().splitlines()[0] + "\n")
    with pytest.raises(RecordsError, match="has no round; search again"):
        read_search(Path("short.jsonl"))
