"""Is every fault of a rank caught and named: wrong data, writes past the end, lateness, death, silence?"""

import os
import re
import signal
from typing import Any

import pytest
from polling import send_signal

from busbw.collectives import COLLECTIVES

from .programs import (
    OUTPUTS,
    Finished,
    Programs,
    Running,
    expect_no_process_left,
    first_record,
    of_kind,
    read_json,
    read_records,
    wait_for_rows,
)
from .table import footer, rows_by_pattern

PHASES = ["rendezvous", "initialisation", "warmup", "timing", "check", "report"]
BEFORE_THE_TABLE = {"rendezvous", "initialisation"}
UNCHECKED_IN_PLACE = {"alltoall", "alltoallv", "sendrecv"}
ONLY_ROOT_HAS_A_RESULT = {"reduce", "gather"}
# Limit of runs that end by it. On a busy machine a rank may start or progress seconds later than the others.
LIMIT_S = 8


def bits(text: str) -> int:
    """The bits in "3 (0x40400000)"."""
    found = re.search(r"\(0x([0-9a-f]+)\)", text)
    assert found, text
    return int(found.group(1), 16)


def rows_recorded(programs: Programs) -> list[dict[str, Any]]:
    return of_kind(read_records(programs.folder / "out.jsonl"), "row")


# ---- wrong data -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [["-t", 4], ["--processes", 4]], ids=["threads", "processes"])
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_one_flipped_bit_is_found(programs: Programs, collective: str, ranks: list[object]) -> None:
    bad = 0 if collective in ONLY_ROOT_HAS_A_RESULT else 2
    fault = f"flip:rank={bad},index=5,bit=3"
    arguments = [*ranks, "-b", "4K", "-e", "4K", "-n", 2, *OUTPUTS, "--fault", fault]
    finished = programs.run(collective, *arguments)
    assert finished.code == 1
    verdict = "wrong data: the '#' lines under the rows name the first wrong elements"
    assert finished.sentence() == f"{collective}_perf: {verdict}"

    placements = ["out of place"] if collective in UNCHECKED_IN_PLACE else ["out of place", "in place"]
    (row,) = rows_by_pattern(finished.stdout)
    assert (row.out_of_place.wrong, row.in_place.wrong) == (1, None if len(placements) == 1 else 1)
    assert footer(finished.stdout)["Out of bounds values"] == f"{len(placements)} FAILED"
    assert finished.stdout.endswith(
        f"#\n\n# Test failure: wrong data in {len(placements)} element{'s' * (len(placements) > 1)}\n"
    )
    assert finished.stdout.count("out-of-place") == 1  # parsers take the last line with it as the heading
    lines = [line for line in finished.stdout.splitlines() if line.startswith("# Wrong data: ")]
    for line, placement in zip(lines, placements, strict=True):
        operation = f"{row.redop} in float" if row.redop not in {"", "none"} else "float"
        what = f"{collective} {operation}, {placement}, {row.size_bytes} bytes"
        assert line.startswith(f"# Wrong data: {what}: rank {bad}, receive buffer, index 5: expected ")
        expected, got = line.split(": expected ")[1].split(", got ")
        assert bits(expected) ^ bits(got) == 1 << 3

    for record in rows_recorded(programs)[: len(placements)]:
        check = record["check"]
        assert (check["state"], check["wrong_elements"], check["wrong_ranks"]) == ("checked", 1, 1)
        (wrong,) = check["first_wrong"]
        assert (wrong["rank"], wrong["place"], wrong["index"]) == (bad, "receive buffer", 5)
        assert bits(wrong["expected"]) ^ bits(wrong["got"]) == 1 << 3
    document = read_json(programs.folder / "out.json")
    assert document["out_of_bounds"] == {"count": len(placements), "okay": "false"}
    assert document["results"][0]["out_of_place"]["nwrong"] == 1


@pytest.mark.parametrize(
    ("dtype", "op", "bit"),
    [("int8", "sum", 0), ("uint64", "max", 63), ("half", "prod", 0), ("double", "avg", 63), ("bfloat16", "sum", 0)],
)
def test_the_last_bit_of_the_last_element(programs: Programs, dtype: str, op: str, bit: int) -> None:
    fault = f"flip:rank=1,index=99,bit={bit}"
    arguments = ["-t", 3, "-d", dtype, "-o", op, "-n", 1, *OUTPUTS, "--fault", fault]
    size = 100 * {"int8": 1, "uint64": 8, "half": 2, "double": 8, "bfloat16": 2}[dtype]
    finished = programs.run("all_reduce", *arguments, "-b", size, "-e", size)
    assert finished.code == 1
    for record in rows_recorded(programs):
        (wrong,) = record["check"]["first_wrong"]
        assert (wrong["rank"], wrong["index"]) == (1, 99)
        assert bits(wrong["expected"]) ^ bits(wrong["got"]) == 1 << bit


def test_the_first_check_that_fails_is_the_last(programs: Programs) -> None:
    """As in nccl-tests: of 20 checks the first finds one wrong element, and no other is made."""
    arguments = ["-t", 4, "-b", 64, "-e", 64, "-n", 1, "-c", 20, *OUTPUTS, "--fault", "flip:rank=3,index=7,bit=1"]
    finished = programs.run("all_reduce", *arguments)
    assert finished.code == 1
    (row,) = rows_by_pattern(finished.stdout)
    assert (row.out_of_place.wrong, row.in_place.wrong) == (1, 1)
    assert finished.stdout.count("# Wrong data: ") == 2


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_a_write_past_the_end_is_wrong_data(programs: Programs, collective: str) -> None:
    bad = 0 if collective in ONLY_ROOT_HAS_A_RESULT else 1
    arguments = ["-t", 4, "-b", 1280, "-e", 1280, "-n", 1, *OUTPUTS, "--fault", f"overrun:rank={bad}"]
    finished = programs.run(collective, *arguments)
    assert finished.code == 1
    check = rows_recorded(programs)[0]["check"]
    assert (check["wrong_elements"], check["wrong_ranks"]) == (1, 1)
    (wrong,) = check["first_wrong"]
    assert wrong["rank"] == bad
    # After a rank's result comes the guard, or the rest of its buffer if ranks receive different amounts.
    assert wrong["place"] in {"guard after the receive buffer, byte", "receive buffer"}
    assert f"rank {bad}, {wrong['place']}, index {wrong['index']}: expected " in finished.stdout


def test_an_all_reduce_past_the_end_hits_the_guard(programs: Programs) -> None:
    arguments = ["--processes", 2, "-b", 100, "-e", 100, "-n", 1, *OUTPUTS, "--fault", "overrun:rank=1"]
    assert programs.run("all_reduce", *arguments).code == 1
    for record in rows_recorded(programs):
        (wrong,) = record["check"]["first_wrong"]
        assert (wrong["rank"], wrong["place"], wrong["index"]) == (1, "guard after the receive buffer, byte", 0)


# ---- lateness -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [["-t", 3], ["--processes", 3]], ids=["threads", "processes"])
def test_a_late_rank_shows_in_its_own_samples(programs: Programs, ranks: list[object]) -> None:
    late_us = 20_000
    arguments = [*ranks, "-b", 64, "-e", 64, "-n", 5, *OUTPUTS, "--fault", f"delay:rank=1,us={late_us}"]
    finished = programs.run("broadcast", *arguments)
    assert (finished.code, finished.stderr) == (0, "")
    for record in rows_recorded(programs):
        assert min(record["samples_us"][1]) >= late_us
        assert record["time_us"] * 3 >= late_us
        assert record["stats"]["min_us"] >= late_us


# ---- death and silence ----------------------------------------------------------------------------------------------


def start_all(programs: Programs, kind: str, *ranks: object) -> dict[str, Running]:
    """One run for each phase, all at the same time: each of them takes its time limit."""
    return {
        phase: programs.start(
            "all_reduce",
            *ranks,
            *["-b", 64, "-e", 256, "-f", 2, "-n", 2, *OUTPUTS, "--fault", f"{kind}:rank=1,phase={phase}"],
            folder=programs.subfolder(f"{kind}-{phase}"),
        )
        for phase in PHASES
    }


def expect_lost(running: Running, finished: Finished, phase: str) -> None:
    """Exit 4, and everything that was measured before is there, in every format."""
    assert finished.code == 4
    message = finished.sentence().removeprefix("all_reduce_perf: ")
    records = read_records(running.records_path())
    document = read_json(running.json_path())
    rows = 3 if phase == "report" else 0
    assert len(of_kind(records, "row")) == 2 * rows
    assert len(rows_by_pattern(finished.stdout)) == rows
    if phase not in BEFORE_THE_TABLE:
        assert len(document["results"]) == rows
        assert document["errors"] == [message]
        (end,) = of_kind(records, "end")
        assert records[-1] == end
        assert (end["exit_code"], end["rows"], end["message"]) == (4, rows, message)
        assert "# Run ended early: rank lost or timed out\n" in finished.stdout
        why = "Test timeout" if "made progress for" in message else "rank lost or timed out"
        assert finished.stdout.endswith(f"# error: {message}\n# Test failure: {why}\n")
        # Scripts take these words as a sign that the run has completed.
        for word in ("Out of bounds", "Avg bus", "concluded"):
            assert word not in finished.stdout
        assert {"out_of_bounds", "average_bus_bandwidth"}.isdisjoint(document)
    expect_no_process_left(running)


def test_death_in_every_phase(programs: Programs) -> None:
    runs = start_all(programs, "die", "--processes", 3)
    for phase, running in runs.items():
        finished = running.finish()
        assert re.match(
            rf"all_reduce_perf: rank 1 \(process 1, pid \d+\) died of signal 9 \(Killed\) in phase {phase}; ",
            finished.stderr,
        )
        expect_lost(running, finished, phase)


@pytest.mark.parametrize("ranks", [["-t", 2], ["--processes", 2]], ids=["threads", "processes"])
def test_silence_in_every_phase(programs: Programs, ranks: list[object]) -> None:
    runs = start_all(programs, "hang", *ranks, "-T", LIMIT_S)
    for phase, running in runs.items():
        finished = running.finish()
        stalled = f"no rank made progress for {LIMIT_S} s: rank 1 did not get past phase {phase}, the others wait; "
        assert stalled in finished.stderr
        assert "-T" in finished.sentence()
        expect_lost(running, finished, phase)
        if phase in {"timing", "check", "report"}:  # by then all have issued some
            assert re.search(r"^# last issued: operation \d+ .*rank 1", finished.stdout, flags=re.MULTILINE)


def test_death_of_the_rank_that_writes(programs: Programs) -> None:
    """Rank 0's process holds the outputs: they stay valid and complete up to the last row, without an end."""
    arguments = ["--processes", 2, "-b", 64, "-e", 256, "-f", 2, "-n", 2, *OUTPUTS]
    running = programs.start("all_reduce", *arguments, "--fault", "die:rank=0,phase=report")
    finished = running.finish()
    assert finished.code == 4
    assert finished.sentence().startswith("all_reduce_perf: rank 0 (process 0, pid ")
    assert len(rows_by_pattern(finished.stdout)) == 3
    assert len(read_json(running.json_path())["results"]) == 3
    records = read_records(running.records_path())
    assert [line["kind"] for line in records] == ["run", *["row"] * 6]
    expect_no_process_left(running)


def test_a_stopped_rank_ends_the_run_within_the_limit(programs: Programs) -> None:
    """Rank 0's process holds the outputs. It is continued to finish them, so the record says how the run ended."""
    arguments = ["--processes", 3, "-b", 64, "-e", 64, "-n", 2, "-N", 0, *OUTPUTS, "-T", LIMIT_S]
    runs = {
        rank: programs.start("all_reduce", *arguments, folder=programs.subfolder(f"stopped-{rank}")) for rank in (0, 2)
    }
    for rank, running in runs.items():
        wait_for_rows(running, 6)
        send_signal(first_record(running.records_path())["ranks"][rank]["pid"], signal.SIGSTOP)
    for rank, running in runs.items():
        finished = running.finish()
        assert finished.code == 4
        message = finished.sentence().removeprefix("all_reduce_perf: ")
        # Also if it stops within an operation, at the same step as the others, which wait in the same one.
        stopped = (
            rf"no rank made progress for {LIMIT_S} s: rank {rank} is stopped or silent in phase \w+, the others wait; "
        )
        assert re.match(stopped, message), message
        end = read_records(running.records_path())[-1]
        assert (end["kind"], end["exit_code"], end["message"]) == ("end", 4, message)
        assert f"# error: {message}\n" in finished.stdout
        expect_no_process_left(running)


def test_several_ranks_of_a_dead_process_are_named(programs: Programs) -> None:
    arguments = ["--processes", 2, "-t", 2, "-b", 64, "-e", 64, "--fault", "die:rank=2,phase=timing"]
    finished = programs.run("all_reduce", *arguments)
    assert finished.code == 4
    assert finished.sentence().startswith("all_reduce_perf: ranks 2 to 3 (process 1, pid ")


def test_death_in_the_middle_keeps_the_rows(programs: Programs) -> None:
    """As the kernel kills a process that it has no memory for."""
    running = programs.start("all_gather", "--processes", 3, "-b", "1K", "-e", "1K", "-n", 2, "-N", 0, *OUTPUTS)
    wait_for_rows(running, 6)
    victim = first_record(running.records_path())["ranks"][2]["pid"]
    os.kill(victim, signal.SIGKILL)
    finished = running.finish()
    assert finished.code == 4
    assert f"rank 2 (process 2, pid {victim}) died of signal 9" in finished.sentence()
    records = read_records(running.records_path())
    rows = len(of_kind(records, "row")) // 2
    assert rows >= 3
    assert records[-1]["kind"] == "end"
    assert records[-1]["rows"] == rows
    assert len(rows_by_pattern(finished.stdout)) == rows
    assert len(read_json(running.json_path())["results"]) == rows
    expect_no_process_left(running)
