"""Do the flags that say how to measure do what they say?"""

from typing import Any

import pytest

from .programs import Programs, of_kind, read_records
from .table import comments, expect_nothing_wrong, passed, rows_by_blanks, rows_by_pattern


@pytest.mark.parametrize(
    ("blocking", "line"),
    [
        (0, None),
        (1, "# Blocking Enabled: wait and barrier after each inner iteration (-m) "),
        (2, "# Blocking Enabled: wait after each inner iteration (-m), no barrier "),
        (3, "# Blocking Enabled: wait and barrier after each outer iteration (-n); time excludes barrier "),
    ],
)
def test_blocking(programs: Programs, blocking: int, line: str | None) -> None:
    table = passed(programs.run("alltoall", "-t", 2, "-b", "4K", "-e", "4K", "-n", 3, "-m", 2, "-z", blocking))
    expect_nothing_wrong(rows_by_pattern(table), "alltoall")
    assert [found for found in comments(table) if "Blocking" in found] == ([line] if line else [])


@pytest.mark.parametrize(("asked", "run"), [(0, 1), (1, 1), (3, 3)])
def test_warmup_iterations_that_ran_are_shown_and_recorded(programs: Programs, asked: int, run: int) -> None:
    arguments = ["-t", 2, "-b", 8, "-e", 8, "-w", asked, "--records", "out.jsonl"]
    assert f" warmup iters: {run} iters: " in passed(programs.run("all_reduce", *arguments))
    (header,) = of_kind(read_records(programs.folder / "out.jsonl"), "run")
    assert header["settings"]["warmup_iterations"] == run


@pytest.mark.parametrize("average", range(4))
def test_average_over_ranks(programs: Programs, average: int) -> None:
    arguments = ["-t", 3, "-b", 8, "-e", "2M", "-f", 512, "-a", average, "-m", 2, "--records", "out.jsonl"]
    passed(programs.run("reduce", *arguments))
    for row in of_kind(read_records(programs.folder / "out.jsonl"), "row"):
        ranks = row["rank_times_us"]
        assert len(ranks) == 3
        combined = [ranks[0], sum(ranks) / len(ranks), min(ranks), max(ranks)][average]
        assert row["time_us"] == pytest.approx(combined)
        if row["size_bytes"] == 2 << 20:  # so long that the samples are the time too
            means = [sum(samples) / len(samples) for samples in row["samples_us"]]
            assert ranks == pytest.approx(means, abs=0.001)


def test_placements(programs: Programs) -> None:
    shown = {}
    for placement in ("in", "out", "both"):
        arguments = ["-t", 2, "-b", 64, "-e", 64, "--placement", placement, "--records", f"{placement}.jsonl"]
        (row,) = rows_by_blanks(passed(programs.run("all_gather", *arguments)))
        shown[placement] = [column != "N/A" for column in row[5:]]
        records = of_kind(read_records(programs.folder / f"{placement}.jsonl"), "row")
        assert [line["placement"] for line in records] == {
            "in": ["in_place"],
            "out": ["out_of_place"],
            "both": ["out_of_place", "in_place"],
        }[placement]
    assert shown == {"in": [False] * 4 + [True] * 4, "out": [True] * 4 + [False] * 4, "both": [True] * 8}


def test_list_of_sizes(programs: Programs) -> None:
    table = passed(programs.run("broadcast", "-t", 2, "--sizes", "1K,3000,0.5M,8", "-n", 2))
    assert [row.size_bytes for row in rows_by_pattern(table)] == [1024, 3000, 524288, 8]
    assert " minBytes 8 maxBytes 524288 step: 4(sizes) " in table


def test_fixed_step(programs: Programs) -> None:
    table = passed(programs.run("broadcast", "-t", 2, "-b", "1K", "-e", "3K", "-i", 1000, "-n", 2))
    assert [row.size_bytes for row in rows_by_pattern(table)] == [1024, 2024, 3024]
    assert " step: 1000(bytes) " in table


def rows_with_rule(programs: Programs, *rule: object) -> tuple[str, list[dict[str, Any]]]:
    arguments = ["-t", 2, "-b", "256K", "-e", "256K", "-n", 10, *rule, "--records", "out.jsonl"]
    table = passed(programs.run("all_reduce", *arguments))
    return table, of_kind(read_records(programs.folder / "out.jsonl"), "row")


def test_stops_by_count(programs: Programs) -> None:
    _, rows = rows_with_rule(programs)
    assert [(row["stopped_by"], row["stats"]["samples"]) for row in rows] == [("iterations", 10)] * 2


def test_stops_when_the_interval_is_narrow(programs: Programs) -> None:
    _, rows = rows_with_rule(programs, "--target-ci", "50%")
    for row in rows:
        low, high = row["stats"]["median_ci95_us"]
        assert row["stopped_by"] == "target_ci"
        assert high - low <= row["stats"]["median_us"] * 1.0000001
        assert not [warning for warning in row["warnings"] if "--target-ci" in warning]


def test_stops_when_the_time_is_over(programs: Programs) -> None:
    _, rows = rows_with_rule(programs, "--max-time", "100ms")
    assert [row["stopped_by"] for row in rows] == ["max_time"] * 2
    for row in rows:
        # Until the last batch begins the samples lie within the budget, and each batch has ten.
        assert row["stats"]["samples"] % 10 == 0
        assert {len(samples) for samples in row["samples_us"]} == {row["stats"]["samples"]}


def test_a_missed_target_is_a_warning(programs: Programs) -> None:
    table, rows = rows_with_rule(programs, "--target-ci", "0.0000001%", "--max-time", "100ms")
    assert [row["stopped_by"] for row in rows] == ["max_time"] * 2
    # Beside it there may be words on the machine: that a rank came late, or that it has one processor.
    for row in rows:
        (missed,) = [warning for warning in row["warnings"] if "--target-ci" in warning]
        assert f": {missed}\n" in table
    assert table.count("--target-ci") == 2


@pytest.mark.parametrize("ranks", [2, 4])
def test_ping_pong_is_half_a_round_trip(programs: Programs, ranks: int) -> None:
    arguments = ["-t", ranks, "-b", "4K", "-e", "4K", "--ping-pong", 1, "-a", 3, "--records", "out.jsonl"]
    table = passed(programs.run("sendrecv", *arguments))
    expect_nothing_wrong(rows_by_pattern(table), "sendrecv")
    for row in of_kind(read_records(programs.folder / "out.jsonl"), "row"):
        assert row["time_us"] == pytest.approx(max(row["rank_times_us"]))
        assert row["busbw_gbps"] == pytest.approx(4096 / row["time_us"] / 1e3)
