"""comm_ops on the host backend: real ranks, late ranks, wrong data, and the commands that read its rows."""

import json
import re
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
    assert [line for line in table.splitlines() if line.startswith("# SUMMARY")] == [
        f"# SUMMARY lines of {test}" for test in ("init", "split", "shrink", "grow")
    ]
    # As in nccl-tests, the end of the parent communicator counts too.
    for test, count in (("init", 3), ("split", 4), ("shrink", 4), ("grow", 4)):
        (line,) = [line for line in table.splitlines() if f" {test} destroy: " in line]
        assert line.endswith(f"Collectives   {count}")
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


def test_zero_ranks_stand_for_the_default_as_in_nccl_tests(programs: Programs) -> None:
    _, rows = measure(programs, "init", "-t", 4, "-b", 0, "-e", 0, "-F", 1, "-i", 1, "-w", 0)
    assert [row["ranks"] for row in rows if row["collective"] == "init/create"] == [4, 2, 1]


@pytest.mark.parametrize("word", ["help", "--help", "-h"])
def test_help_is_a_word_too_as_in_nccl_tests(programs: Programs, word: str) -> None:
    finished = programs.run("comm_ops_perf", word)
    assert finished.code == 0, finished.stderr
    assert "Usage: comm_ops_perf TESTS" in finished.stdout


def test_flags_without_an_effect_on_the_host_are_named(programs: Programs) -> None:
    table, _ = measure(programs, "split", "-t", 4, "-s", "fixed", "-R", 2, "-S")
    assert "# -R has no effect: the host backend has no roots (unique ids)" in table
    assert "# -S has no effect: the host backend shares no resources" in table
    assert "Scalable Comm Initialization" not in table


def test_verbose_names_every_rank(programs: Programs) -> None:
    table, rows = measure(programs, "init", "-t", 3, "-s", "fixed", "-i", 2, "-v")
    for row in rows:
        for rank in range(3):
            assert f"# {row['collective']}: rank {rank} on {HOST}: mean " in table
    # A line for each iteration, as in nccl-tests.
    assert sum(line.lstrip().startswith("init create: Max ") for line in table.splitlines()) == 2


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


def record_of(programs: Programs, name: str, *arguments: object) -> str:
    record = programs.folder / f"{name}.jsonl"
    finished = programs.run("comm_ops_perf", *arguments, "--backend", "host", "--records", record)
    assert finished.code == 0, finished.stderr
    return str(record)


@pytest.mark.parametrize(
    ("flags", "difference"),
    [
        (["-S"], {"what": "share", "a": "False", "b": "True"}),
        (["-a"], {"what": "abort", "a": "False", "b": "True"}),
        (["-R", 2], {"what": "root_every", "a": "0", "b": "2"}),
        (["-W", 3], {"what": "work_iterations", "a": "2", "b": "3"}),
        (["-r", "step-2"], {"what": "resize", "a": "factor-2", "b": "step-2"}),
    ],
    ids=["shared", "aborted", "roots", "work", "resized"],
)
def test_a_comparison_names_other_settings(
    programs: Programs, capsys: pytest.CaptureFixture[str], flags: list[object], difference: dict[str, str]
) -> None:
    common = ("split", "-t", 4, "-s", "fixed", "-i", 5)
    records = [record_of(programs, "a", *common), record_of(programs, "b", *common, *flags)]
    main(["compare", *records, "--json"])
    assert json.loads(capsys.readouterr().out)["differences"] == [difference]


def test_a_good_run_is_a_reference(programs: Programs, capsys: pytest.CaptureFixture[str]) -> None:
    common = ("init,shrink", "-t", 3, "-s", "fixed", "-i", 20)
    good = record_of(programs, "good", *common)
    assert main(["check", good, "--reference", good, "--json"]) == 0
    verdicts = json.loads(capsys.readouterr().out)["verdicts"]
    assert [verdict["collective"] for verdict in verdicts] == [
        f"{test}/{call}" for test in ("init", "shrink") for call in CALLS
    ]
    assert {verdict["grade"] for verdict in verdicts} == {"GOOD"}
    assert not any("not checked" in note for verdict in verdicts for note in verdict["beside"])

    # All ranks wait for the late one within the calls that end together.
    late = record_of(programs, "late", *common, "--fault", "delay:rank=1,us=20000")
    assert main(["check", late, "--reference", good]) == 5
    shown = " ".join(capsys.readouterr().out.split())
    assert "SLOW init/first_all_reduce" in shown
    assert "measure its neighbors" not in shown

    shared = record_of(programs, "shared", *common, "-S")
    assert main(["check", shared, "--reference", good]) == 3
    assert "not comparable: method share True against default" in " ".join(capsys.readouterr().out.split())


def test_the_command_keeps_a_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = tmp_path / "record.jsonl"
    words = ["comm_ops", "shrink", "-t", "3", "-s", "fixed", "--backend", "host"]
    assert main(["run", "--records", str(record), *words]) == 0
    printed = capsys.readouterr().err
    assert "Data: correct: all 2 checked rows of 5 right, every bit." in printed
    assert "not judged: no expectation of communicator operations is known" in printed
    main(["export", "csv", str(record)])
    lines = capsys.readouterr().out.splitlines()
    assert sum("shrink/create" in line for line in lines) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "comm_ops_perf (nothing): unknown test; name one of init, split, shrink, grow"),
        ("init,join -t 2", "comm_ops_perf init,join: unknown test; name one of init, split, shrink, grow"),
        ("split", "split with -r factor-2 on 1 rank: -r must divide the ranks into two parts of at least one rank"),
        ("shrink -t 4 -r step-4", "shrink with -r step-4 on 4 ranks: -r must divide the ranks into two parts"),
        ("grow -t 4 -r factor-1", "grow with -r factor-1 on 4 ranks: -r must divide the ranks into two parts"),
        ("init -t 2 -b 3", "-b (--sweep-begin) 3: allowed: a whole number from 0 to 2"),
        ("init -t 2 -e -1", "-e (--sweep-end) -1: allowed: a whole number from 0 to 2"),
        ("init -t 2 -s double", "-s (--sweep-comms) double: allowed: factor-N, fixed or step-N with N above 0"),
        ("split -t 2 -r fixed", "-r (--resize) fixed: allowed: factor-N or step-N with N above 0"),
        ("split -t 2 -S -a", "-S and -a exclude each other in split"),
        ("init -t 2 -i 0", "-i (--iterations) 0: allowed: a whole number from 1"),
        ("init -t 2 -F 4", "-F (--flush-interval) 4: allowed: 1, because a barrier precedes each call"),
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


def test_samples_beyond_the_memory_are_refused_by_the_flag_of_the_program(programs: Programs) -> None:
    finished = programs.run("comm_ops_perf", "init", "-t", 2, "-s", "fixed", "-i", 2147483647, "--backend", "host")
    assert finished.code == 3
    assert finished.sentence().startswith(
        "comm_ops_perf: -i 2147483647 (--iterations): the samples of 2 ranks need 3.9 TiB; of "
    )


@pytest.mark.parametrize("work", [2_000_000_000, 2_147_483_647])
def test_work_iterations_beyond_the_memory_are_refused_by_their_flag(programs: Programs, work: int) -> None:
    flags = ["-t", 1000, "-s", "fixed", "-W", work, "-i", 1]
    finished = programs.run("comm_ops_perf", "init", *flags, "--backend", "host")
    assert finished.code == 3
    sentence = finished.sentence()
    assert sentence.startswith(f"comm_ops_perf: -W {work} (--work-iterations): the samples of 1000 ranks need ")
    assert re.search(r"; use -W up to [1-9]\d*, or fewer ranks", sentence)
