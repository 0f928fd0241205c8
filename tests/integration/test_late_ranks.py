"""Late ranks and slow groups of real runs: table, record and the commands that read it name rank and hosts."""

import json
import socket
from pathlib import Path

import pytest

from busbw.cli.main import main

from .launchers.launching import launch
from .programs import Programs, read_records

# Longer than the waits for a processor on a busy machine.
LATE = ["-b", "256", "-e", "1K", "-f", "2", "-n", "10", "-c", "0", "--fault", "delay:rank=2,us=20000"]
HOST = socket.gethostname()


def run_late(programs: Programs, ranks: str) -> tuple[str, Path]:
    """Runs three ranks of which rank 2 is late. Returns the table and the record."""
    if ranks == "sockets":
        launched = launch(["local", "--processes", "3", "--", "all_reduce", *LATE], programs.folder)
        assert launched.code == 0, launched.stderr
        (record,) = (programs.folder / "busbw-records").glob("*/records.jsonl")
        return launched.stdout, record
    finished = programs.run(
        "all_reduce", *(["-t", 3] if ranks == "threads" else ["--processes", 3]), *LATE, "--records", "out.jsonl"
    )
    assert finished.code == 0, finished.stderr
    return finished.stdout, programs.folder / "out.jsonl"


@pytest.mark.parametrize("ranks", ["threads", "processes", "sockets"])
def test_a_late_rank_is_named_everywhere(programs: Programs, capsys: pytest.CaptureFixture[str], ranks: str) -> None:
    table, record = run_late(programs, ranks)
    name = f"rank 2 on {HOST} starts each iteration "
    assert table.count(name) == 6, table  # three sizes, two placements
    rows = [line for line in read_records(record) if line["kind"] == "row"]
    assert len(rows) == 6
    for row in rows:
        (late,) = row["late_ranks"]
        assert (late["kind"], late["rank"], late["host"]) == ("late_start", 2, HOST)
        assert late["late_us"] >= 2900
        assert late["message"] in row["warnings"]
        assert late["late_us"] <= row["rank_arrivals_us"][2]
    assert main(["show", str(record), "--no-plot"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.count(name) == 1, shown
    assert "at 3 of 3 sizes" in shown
    main(["check", str(record)])
    assert name in " ".join(capsys.readouterr().out.split())
    main(["check", "--json", str(record)])
    (verdict,) = json.loads(capsys.readouterr().out)["verdicts"]
    assert [(late["rank"], late["host"]) for late in verdict["late_ranks"]] == [(2, HOST)]
    page = programs.folder / "report.html"
    main(["report", str(record), "--output", str(page)])
    assert name in page.read_text()


def test_nobody_is_late_in_an_ordinary_run(programs: Programs) -> None:
    """The waits of ranks that share processors are not lateness."""
    finished = programs.run("all_reduce", "-t", 4, "-b", 8, "-e", "64K", "-f", 4, "--records", "out.jsonl")
    assert finished.code == 0, finished.stderr
    rows = [line for line in read_records(programs.folder / "out.jsonl") if line["kind"] == "row"]
    assert all(len(row["rank_arrivals_us"]) == 4 for row in rows)
    assert [row["late_ranks"] for row in rows if row["late_ranks"]] == []


def test_a_slow_group_is_named_with_its_hosts(programs: Programs, capsys: pytest.CaptureFixture[str]) -> None:
    """Three groups of two ranks. Rank 2 belongs to group 1 and delays it."""
    arguments = ["--processes", 3, "-t", 2, "--sizes", "64,128", "-n", 6, "-c", 0, "--placement", "out"]
    fault = ["--fault", "delay:rank=2,us=20000"]
    finished = programs.run(
        "all_reduce", *arguments, *fault, "--records", "out.jsonl", environment={"NCCL_TESTS_SPLIT": "MOD 3"}
    )
    assert finished.code == 0, finished.stderr
    assert f"# Group 1: 2 ranks on {HOST}\n" in finished.stdout
    record = str(programs.folder / "out.jsonl")
    assert main(["check", "--json", record]) == 5
    verdicts = json.loads(capsys.readouterr().out)["verdicts"]
    assert [(verdict["group"], verdict["hosts"]) for verdict in verdicts] == [(group, [HOST]) for group in range(3)]
    assert [verdict["reason_kind"] == "slow_group" for verdict in verdicts] == [False, True, False]
    assert [verdict["grade"] for verdict in verdicts] == ["UNSURE", "SLOW", "UNSURE"]
    assert f"group 1 on {HOST}" in verdicts[1]["reasons"][0]
    assert [late["rank"] for late in verdicts[1]["late_ranks"]] == [2]
    assert main(["show", "--no-plot", record]) == 0
    assert f"group 1: 2 ranks on {HOST}" in capsys.readouterr().out
