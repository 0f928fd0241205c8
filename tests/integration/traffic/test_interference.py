"""The measured collective next to a neighbor (--with): times, activity, checks and errors of real runs."""

import json
from pathlib import Path
from typing import Any

import pytest

from busbw.cli.main import main

from ..launchers.launching import launch
from ..programs import OUTPUTS, Programs, read_records, run_and_record, wait_for_rows

RANKS = {"threads": ["-t", 3], "processes": ["--processes", 3]}
SWEEP = ["-b", "1K", "-e", "64K", "-f", 64, "-n", 5]
NEIGHBORS = [
    "alltoall -b 64K -e 64K",
    "sendrecv -b 4K -e 4K",
    "all_reduce -b 1M -e 1M -d int32 -o max",
    "broadcast -b 8K -e 8K -r 2",
    "compute:MATMUL",
    "memory:copy",
]


def rows_of(record: Path) -> list[dict[str, Any]]:
    return [line for line in read_records(record) if line["kind"] == "row"]


def is_active(row: dict[str, Any]) -> bool:
    return bool(row["together"]["active_percent"] >= 90)


def expect_together(rows: list[dict[str, Any]], expected_rows: int) -> None:
    assert len(rows) == expected_rows
    for row in rows:
        together = row["together"]
        assert 0 < together["active_percent"] <= 100.1
        assert together["neighbor_operations"] > 0
        assert together["neighbor_time_us"] > 0
        assert row["check"]["wrong_elements"] in (0, None)
        # Other work on the machine can keep the neighbor waiting. Its effect is then unknown.
        if not is_active(row):
            assert any("the neighbor had an unfinished operation for" in warning for warning in row["warnings"])
            assert (together["time_us"], together["ratio_to_alone"], together["samples_us"]) == (None, None, [])
            continue
        assert together["time_us"] > 0
        assert together["ratio_to_alone"] == pytest.approx(together["time_us"] / row["time_us"])
        assert [len(samples) for samples in together["samples_us"]] == [len(row["samples_us"][0])] * row["ranks"]


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("neighbor", NEIGHBORS)
def test_rows_have_both_times_and_the_neighbor_is_active(programs: Programs, ranks: str, neighbor: str) -> None:
    for _ in range(5):  # other work on the machine does not delay the neighbor in all runs
        finished = run_and_record(programs, "all_reduce", *RANKS[ranks], *SWEEP, "--with", neighbor)
        rows = rows_of(programs.folder / "out.jsonl")
        expect_together(rows, 4)
        if all(map(is_active, rows)):
            break
        (programs.folder / "out.jsonl").unlink()
    assert all(map(is_active, rows))
    assert finished.stdout.count("# Together: ") == 4
    assert read_records(programs.folder / "out.jsonl")[0]["settings"]["neighbor"] == neighbor


@pytest.mark.parametrize("measured", ["alltoallv", "sendrecv", "hypercube"])
def test_both_may_exchange_messages_between_the_same_ranks(programs: Programs, measured: str) -> None:
    run_and_record(programs, measured, "-t", 4, *SWEEP, "--with", "sendrecv -b 300K -e 300K", "-c", 3)
    expect_together(rows_of(programs.folder / "out.jsonl"), 4)


def test_a_neighbor_over_sockets(programs: Programs) -> None:
    launched = launch(
        ["local", "--processes", "2", "--", "all_reduce", *map(str, SWEEP), "--with", "alltoall -b 64K -e 64K"],
        programs.folder,
    )
    assert launched.code == 0, launched.stderr
    (record,) = (programs.folder / "busbw-records").glob("*/records.jsonl")
    expect_together(rows_of(record), 4)


def test_groups_have_neighbors_of_their_own(programs: Programs) -> None:
    split = {"NCCL_TESTS_SPLIT": "MOD 2"}
    run_and_record(
        programs, "all_reduce", "--processes", 4, *SWEEP, "--with", "alltoall -b 4K -e 4K", environment=split
    )
    expect_together(rows_of(programs.folder / "out.jsonl"), 8)


def test_a_run_without_a_neighbor_has_no_such_fields(programs: Programs) -> None:
    finished = run_and_record(programs, "all_reduce", "-t", 2, *SWEEP)
    assert "Together" not in finished.stdout
    assert all(row["together"] is None and row["skew"] is None for row in rows_of(programs.folder / "out.jsonl"))


def test_ctrl_c_ends_the_run_with_a_complete_record(programs: Programs) -> None:
    running = programs.start(
        "all_reduce", "--processes", 2, "-b", 64, "-e", 64, "-n", 3, "-N", 0, "--with", "alltoall -b 1M -e 1M", *OUTPUTS
    )
    wait_for_rows(running, 2)
    running.interrupt_group()
    finished = running.finish()
    assert finished.code == 130
    end = read_records(running.records_path())[-1]
    assert (end["kind"], end["reason"]) == ("end", "interrupted")


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("together", ["all_reduce", "-t", 2, *SWEEP, "--with", "alltoall -b 4K -e 4K"]),
        ("skew", ["alltoallv", "-t", 2, *SWEEP, "--skew", "hot:1"]),
    ],
)
def test_the_json_of_nccl_tests_has_the_comparison_of_the_record(
    programs: Programs, kind: str, arguments: list[object]
) -> None:
    run_and_record(programs, *arguments)
    document = json.loads((programs.folder / "out.json").read_text())
    measured = [result[name] for result in document["results"] for name in ("out_of_place", "in_place") if result[name]]
    rows = rows_of(programs.folder / "out.jsonl")
    assert [placement[kind] for placement in measured] == [row[kind] for row in rows]
    assert all({"skew", "together"} & placement.keys() == {kind} for placement in measured)


def test_a_neighbor_without_memory_is_named(programs: Programs) -> None:
    finished = programs.run("all_reduce", "-t", 2, "--sizes", "64K", "--with", "alltoall -b 900G -e 900G")
    assert (finished.code, finished.stdout) == (3, "")
    assert "--with alltoall -b 900G -e 900G: its buffers on 2 ranks need 3.5 TiB" in finished.stderr
    assert "use a smaller neighbor" in finished.stderr


def test_a_neighbor_is_not_blamed_for_sizes_that_do_not_fit_without_it(programs: Programs) -> None:
    sizes = ["-b", "65536G", "-e", "65536G"]
    finished = programs.run("all_gather", "-t", 2, *sizes, "--with", "all_reduce -b 8 -e 8")
    assert (finished.code, finished.stdout) == (3, "")
    assert "use sizes up to " in finished.stderr
    assert "or fewer ranks" in finished.stderr
    assert "neighbor" not in finished.stderr


def test_a_lost_rank_ends_the_neighbors(programs: Programs) -> None:
    finished = programs.run(
        "all_reduce", "--processes", 2, *SWEEP, "--with", "alltoall -b 1M -e 1M", "--fault", "die:rank=1,phase=timing"
    )
    assert finished.code == 4
    assert "rank 1" in finished.stderr


def test_commands_show_the_neighbor(programs: Programs, capsys: pytest.CaptureFixture[str]) -> None:
    record = programs.folder / "out.jsonl"
    # A time is unknown if the neighbor was idle for a part of it, which other load on the processors can cause.
    for _ in range(10):
        for name in OUTPUTS[1::2]:
            (programs.folder / name).unlink(missing_ok=True)
        run_and_record(programs, "all_reduce", "-t", 2, *SWEEP, "--with", "alltoall -b 4K -e 4K")
        assert main(["show", "--json", str(record)]) == 0
        (table,) = json.loads(capsys.readouterr().out)["tables"]
        ratios = [figure["together"]["ratio_to_alone"] for row in table["rows"] for figure in row["figures"].values()]
        if None not in ratios:
            break
    assert all(ratio > 0 for ratio in ratios)
    assert main(["show", "--no-plot", str(record)]) == 0
    assert "time us  busbw  with us  to alone" in capsys.readouterr().out
    assert main(["export", "csv", str(record)]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    column = header.split(",").index("together_time_us")
    assert all(float(line.split(",")[column]) > 0 for line in lines)
    assert main(["compare", str(record), str(record), "--json"]) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    assert [result["point"]["together"] for result in results] == [False, False, True, True] * 2
    assert programs.run("all_reduce", "-t", 2, *SWEEP, "--with", "memory:copy", "--records", "other.jsonl").code == 0
    assert main(["compare", str(record), str(programs.folder / "other.jsonl")]) == 2
    assert "neighbor alltoall -b 4K -e 4K against memory:copy" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (["--with", ""], ["--with", "allowed", "memory:copy"]),
        (["--with", "alltoal -b 1M"], ["alltoal", "did you mean", "alltoall"]),
        (["--with", "memory:cpoy"], ["did you mean", "memory:copy"]),
        (["--with", "alltoall -b 1K -e 1M"], ["one size"]),
        (["--with", "alltoall -b 1M -e 1M -n 5"], ["--iters", "drop it"]),
        (["--with", "alltoall -b x -e 1M"], ["--with", "-b (--minbytes) x"]),
        (["--with", "broadcast -r 2"], ["-r 2", "0 to 1"]),
        (["--with", "hypercube", "-t", 3], ["nRanks 3 is not a power of 2; use another collective"]),
        (["--with", "broadcast -r all"], ["one size, type, operator and root"]),
        (["--with", "alltoall -b 1M -e 1M --help"], ["a neighbor has no --help", "drop it"]),
        (["--with", "alltoall --with memory:copy"], ["--with", "drop it"]),
        (["--with", "memory:copy", "-y", 1], ["exclude each other", "-y (--stream_null)"]),
        (["--with"], ["--with", "a value is missing"]),
    ],
)
def test_invalid_values_are_refused_in_one_message(programs: Programs, flags: list[object], names: list[str]) -> None:
    finished = programs.run("all_reduce", "-t", 2, *flags)
    assert (finished.code, finished.stdout) == (2, "")
    assert finished.stderr.count("\n") == 1
    for name in names:
        assert name in finished.stderr
