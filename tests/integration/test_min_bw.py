"""Does NCCL_TESTS_MIN_BW judge the average bus bandwidth as nccl-tests does, and does the exit code say so?"""

import pytest

from .programs import Programs, of_kind, read_json, read_records
from .table import footer

ARGUMENTS = ["-t", 2, "-b", "4K", "-e", "64K", "-f", 4, "-n", 3, "-J", "out.json", "--records", "out.jsonl"]


def test_fast_enough(programs: Programs) -> None:
    finished = programs.run("all_reduce", *ARGUMENTS, environment={"NCCL_TESTS_MIN_BW": "1e-9"})
    assert (finished.code, finished.stderr) == (0, "")
    assert footer(finished.stdout)["Avg bus bandwidth"].endswith(" OK")
    assert read_json(programs.folder / "out.json")["average_bus_bandwidth"]["okay"] == "true"
    end = read_records(programs.folder / "out.jsonl")[-1]
    assert (end["reason"], end["exit_code"]) == ("completed", 0)
    assert end["demanded_busbw_gbps"] == pytest.approx(1e-9)


def test_too_slow(programs: Programs) -> None:
    finished = programs.run("all_reduce", *ARGUMENTS, environment={"NCCL_TESTS_MIN_BW": "1000000"})
    assert finished.code == 5
    sentence = finished.sentence()
    assert sentence.startswith("all_reduce_perf: the average busbw is ")
    assert "NCCL_TESTS_MIN_BW=1" in sentence
    assert footer(finished.stdout) == {
        "Out of bounds values": "0 OK",
        "Avg bus bandwidth": footer(finished.stdout)["Avg bus bandwidth"].split()[0] + " FAILED",
    }
    # The table is whole: being slow is no reason to lose rows.
    assert "# Collective test concluded: all_reduce_perf\n" in finished.stdout
    assert "Run ended early" not in finished.stdout
    assert finished.stdout.splitlines()[-1].startswith("# Test failure: slower than demanded: the average busbw is ")
    document = read_json(programs.folder / "out.json")
    assert document["average_bus_bandwidth"]["okay"] == "false"
    assert len(document["results"]) == 3
    records = read_records(programs.folder / "out.jsonl")
    assert len(of_kind(records, "row")) == 6
    end = records[-1]
    assert (end["reason"], end["exit_code"], end["demanded_busbw_gbps"]) == ("slower than demanded", 5, 1_000_000)
    assert end["average_busbw_gbps"] == pytest.approx(
        document["average_bus_bandwidth"]["bandwidth"], rel=1e-4, abs=1e-6
    )


def test_processes_give_the_same_verdict(programs: Programs) -> None:
    environment = {"NCCL_TESTS_MIN_BW": "1000000"}
    finished = programs.run("all_gather", "--processes", 2, "-b", "4K", "-e", "4K", environment=environment)
    assert finished.code == 5
    assert footer(finished.stdout)["Avg bus bandwidth"].endswith(" FAILED")
    assert "NCCL_TESTS_MIN_BW" in finished.sentence()


def test_not_demanded(programs: Programs) -> None:
    finished = programs.run("all_reduce", *ARGUMENTS)
    assert finished.code == 0
    # nccl-tests' own line ends with a blank then.
    assert footer(finished.stdout)["Avg bus bandwidth"].endswith(" ")
    assert read_json(programs.folder / "out.json")["average_bus_bandwidth"]["okay"] == "unchecked"
    assert read_records(programs.folder / "out.jsonl")[-1]["demanded_busbw_gbps"] is None


def test_wrong_data_has_priority_over_slowness(programs: Programs) -> None:
    environment = {"NCCL_TESTS_MIN_BW": "1000000"}
    arguments = [*ARGUMENTS, "--fault", "flip:rank=0,index=0,bit=0"]
    finished = programs.run("all_reduce", *arguments, environment=environment)
    assert finished.code == 1
    assert footer(finished.stdout)["Out of bounds values"] == "6 FAILED"
    assert footer(finished.stdout)["Avg bus bandwidth"].endswith(" FAILED")
