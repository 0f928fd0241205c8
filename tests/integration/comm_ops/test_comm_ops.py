"""comm_ops on the host backend: real ranks, late ranks, wrong data, and the commands that read its rows."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from busbw.cli.main import main

from ..launchers.launching import launch
from ..programs import Programs, read_records

HOST = socket.gethostname()
CALLS = ["rendezvous", "create", "first_all_reduce", "next_all_reduce", "destroy"]
"""Calls of the host backend, which has no finalize and no abort."""


def measure(programs: Programs, *arguments: object, code: int = 0) -> tuple[str, list[dict[str, Any]]]:
    """Runs the program. Returns the table and the rows of the record."""
    finished = programs.run("comm_ops_perf", *arguments, "--backend", "host", "--records", "out.jsonl")
    assert finished.code == code, finished.stderr
    return finished.stdout, [line for line in read_records(programs.folder / "out.jsonl") if line["kind"] == "row"]


@pytest.mark.parametrize("ranks", [["-t", 5], ["--processes", 5]], ids=["threads", "processes"])
def test_every_test_measures_and_checks_its_calls(programs: Programs, ranks: list[object]) -> None:
    table, rows = measure(programs, "all", *ranks, "-s", "fixed", "-i", 3)
    assert [row["collective"] for row in rows] == [
        f"{test}/{call}" for test in ("init", "split", "shrink", "grow") for call in CALLS
    ]
    for row in rows:
        test, call = row["collective"].split("/")
        moves_data = call.endswith("all_reduce")
        assert row["ranks"] == (3 if test == "shrink" and call != "rendezvous" else 5)
        assert [len(samples) for samples in row["samples_us"]] == [3] * row["ranks"]
        assert row["stats"]["samples"] == 3
        assert row["check"]["state"] == ("checked" if moves_data else "not_applicable")
        assert row["check"]["wrong_elements"] == (0 if moves_data else None)
        assert (row["algbw_gbps"], row["busbw_gbps"]) == (None, None)
        assert row["size_bytes"] == (4096 if moves_data else 0)
    assert "finalize is not measured: the host backend has no finalize" in table
    assert table.count("SUMMARY: Comm size    5, ") == 4 * (len(CALLS) - 1)
    assert "# Out of bounds values : 0 OK" in table


def test_separate_processes_meet_through_the_rendezvous(programs: Programs) -> None:
    launched = launch(
        ["local", "--processes", "4", "--", "comm_ops", "split,grow", "-s", "fixed", "-i", "2"], programs.folder
    )
    assert launched.code == 0, launched.stderr
    rows = [line for line in launched.records if line["kind"] == "row"]
    assert [row["collective"] for row in rows] == [f"{test}/{call}" for test in ("split", "grow") for call in CALLS]
    assert all(row["check"]["wrong_elements"] in (0, None) and row["ranks"] == 4 for row in rows)


def test_a_sweep_has_the_first_ranks_of_the_job(programs: Programs) -> None:
    _, rows = measure(programs, "split,init", "-t", 5, "-s", "step-2", "-i", 1, "-w", 0, "-W", 1)
    created = [(row["collective"], row["ranks"]) for row in rows if row["collective"].endswith("/create")]
    # One rank cannot be split.
    assert created == [(f"{test}/create", ranks) for ranks in (5, 3) for test in ("split", "init")] + [
        ("init/create", 1)
    ]
    assert not any(row["collective"].endswith("next_all_reduce") for row in rows)


def test_a_rank_that_creates_late_is_named_everywhere(programs: Programs, capsys: pytest.CaptureFixture[str]) -> None:
    late = ("--fault", "delay:rank=1,us=300000")
    table, rows = measure(programs, "init", "-t", 3, "-s", "fixed", "-i", 2, "-w", 0, "-W", 1, *late)
    name = f"rank 1 on {HOST} starts each "
    assert table.count(name) == 4, table
    for row in rows:
        (found,) = row["late_ranks"]
        assert (found["kind"], found["rank"], found["host"]) == ("late_start", 1, HOST)
        assert 200_000 < found["late_us"] <= row["rank_arrivals_us"][1]
    record = str(programs.folder / "out.jsonl")
    assert main(["show", record]) == 0
    assert name in " ".join(capsys.readouterr().out.split())
    main(["check", record])
    checked = " ".join(capsys.readouterr().out.split())
    assert name in checked
    assert "no expectation of communicator operations is known" in checked
    main(["report", record, "--output", str(programs.folder / "report.html")])
    assert name in (programs.folder / "report.html").read_text()


def test_wrong_data_is_found(programs: Programs) -> None:
    table, rows = measure(
        programs, "split", "-t", 4, "-s", "fixed", "-i", 1, "--fault", "flip:rank=1,index=0,bit=1", code=1
    )
    wrong = {row["collective"]: row["check"]["wrong_ranks"] for row in rows if row["check"]["wrong_elements"]}
    assert wrong == {"split/first_all_reduce": 1, "split/next_all_reduce": 1}
    assert "rank 0 of the job: expected rank 0 of the communicator, got rank 2 of the communicator" in table


def test_two_runs_are_compared_call_by_call(programs: Programs, capsys: pytest.CaptureFixture[str]) -> None:
    records = []
    for name in ("a", "b"):
        record = programs.folder / f"{name}.jsonl"
        finished = programs.run(
            "comm_ops_perf", "init", "-t", 2, "-s", "fixed", "-i", 20, "--backend", "host", "--records", record
        )
        assert finished.code == 0, finished.stderr
        records.append(str(record))
    main(["compare", *records, "--json"])
    results = json.loads(capsys.readouterr().out)["results"]
    assert [result["point"]["collective"] for result in results] == sorted(f"init/{call}" for call in CALLS)
    for result in results:
        assert result["compared"] == "median_us"
        assert result["a"]["samples"] == result["b"]["samples"] == 20


def test_the_command_keeps_a_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = tmp_path / "record.jsonl"
    words = ["comm_ops", "shrink", "-t", "3", "-s", "fixed", "--backend", "host"]
    assert main(["run", "--records", str(record), *words]) == 0
    printed = capsys.readouterr().err
    assert "every bit" in printed
    assert "not judged: no expectation of communicator operations is known" in printed
    main(["export", "csv", str(record)])
    lines = capsys.readouterr().out.splitlines()
    assert sum("shrink/create" in line for line in lines) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "comm_ops_perf (nothing): unknown test; name one of init, split, shrink, grow"),
        ("init,join -t 2", "comm_ops_perf init,join: unknown test; name one of init, split, shrink, grow"),
        ("split", "split with -r factor-2 on 1 rank: it must keep at least one rank"),
        ("shrink -t 4 -r step-4", "shrink with -r step-4 on 4 ranks: it must keep at least one rank"),
        ("grow -t 4 -r factor-1", "grow with -r factor-1 on 4 ranks: it must keep at least one rank"),
        ("init -t 2 -b 3", "-b (--sweep-begin) 3: allowed: a whole number from 1 to 2"),
        ("init -t 2 -e 0", "-e (--sweep-end) 0: allowed: a whole number from 1 to 2"),
        ("init -t 2 -s double", "-s (--sweep-comms) double: allowed: factor-N, fixed or step-N with N above 0"),
        ("split -t 2 -r fixed", "-r (--resize) fixed: allowed: factor-N or step-N with N above 0"),
        ("split -t 2 -S -a", "-S and -a exclude each other in split"),
        ("init -t 2 -i 0", "-i (--iterations) 0: allowed: a whole number from 1"),
        ("init -t 2 -F 4", 'unknown option "-F"'),
        ("init -t 2 -n 4", 'unknown option "-n"'),
        ("init split -t 2", 'unexpected argument "split"'),
        ("init -t 2 --fault overrun:rank=0", "allowed: all faults but overrun"),
    ],
)
def test_wrong_input_is_one_message(programs: Programs, words: str, message: str) -> None:
    finished = programs.run("comm_ops_perf", *words.split(), "--backend", "host")
    assert finished.code == 2
    assert message in finished.sentence()
    assert finished.stdout == ""
