"""Does a run that is stopped from outside end all ranks, say so, and keep every row so far in every format?"""

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
from polling import HANG_GUARD_S, send_signal, wait_for_end, wait_until

from .programs import (
    OUTPUTS,
    Finished,
    Programs,
    Running,
    expect_no_process_left,
    first_record,
    group_members,
    of_kind,
    read_json,
    read_records,
    wait_for_ranks,
    wait_for_rows,
    wait_for_text,
)
from .table import footer, rows_by_pattern

THREADS = ["-t", 2]
PROCESSES = ["--processes", 3]
WITHOUT_END = ["-b", 64, "-e", "4K", "-f", 4, "-n", 3, "-N", 0, *OUTPUTS]
ONE_ROW = ["-b", 64, "-e", 64, *OUTPUTS]

RANKS = pytest.mark.parametrize("ranks", [THREADS, PROCESSES], ids=["threads", "processes"])


def expect_rows_kept(running: Running, finished: Finished, reason: str, code: int) -> None:
    """The same rows in the table, the document and the record, each of which says how it ended."""
    assert finished.code == code
    rows = rows_by_pattern(finished.stdout)
    assert len(rows) >= 4
    assert {(row.out_of_place.wrong, row.in_place.wrong) for row in rows} == {(0, 0)}
    # nccl-tests, too, prints nothing below the rows when it is killed.
    assert finished.stdout.endswith(f"# Run ended early: {reason}\n# error: {reason}\n")
    assert "Test failure" not in finished.stdout
    assert footer(finished.stdout) == {}

    document = read_json(running.json_path())
    assert [result["size"] for result in document["results"]] == [row.size_bytes for row in rows]
    assert document["busbw"]["end_reason"] == reason
    assert document["end_time"]
    assert {"out_of_bounds", "average_bus_bandwidth"}.isdisjoint(document)

    records = read_records(running.records_path())
    recorded = of_kind(records, "row")
    assert [line["size_bytes"] for line in recorded[::2]] == [row.size_bytes for row in rows]
    assert len(recorded) == 2 * len(rows)
    assert records[-1]["kind"] == "end"
    assert (records[-1]["reason"], records[-1]["exit_code"]) == (reason, code)
    assert records[-1]["rows"] == len(rows)
    expect_no_process_left(running)


@pytest.mark.parametrize(
    ("name", "to_all", "reason", "code"),
    [
        ("SIGINT", True, "interrupted", 130),
        ("SIGINT", False, "interrupted", 130),
        ("SIGTERM", True, "terminated", 143),
        ("SIGTERM", False, "terminated", 143),
        ("SIGHUP", True, "terminated", 143),
    ],
    ids=["ctrl-c", "sigint", "sigterm-to-all", "sigterm", "terminal-closed"],
)
@RANKS
def test_a_signal_ends_the_run(
    programs: Programs, ranks: list[object], name: str, to_all: bool, reason: str, code: int
) -> None:
    running = programs.start("all_reduce", *ranks, *WITHOUT_END)
    wait_for_rows(running, 10)
    number = signal.Signals[name]
    if to_all:
        os.killpg(running.pid, number)
    else:
        os.kill(running.pid, number)
    finished = running.finish()
    assert finished.stderr == f"all_reduce_perf: {reason}\n"
    expect_rows_kept(running, finished, reason, code)


@RANKS
def test_ctrl_c_twice_in_a_row(programs: Programs, ranks: list[object]) -> None:
    """An impatient user must not lose rows, or get two messages, where the first one was enough."""
    running = programs.start("all_reduce", *ranks, *WITHOUT_END)
    wait_for_rows(running, 10)
    running.interrupt_group()
    running.interrupt_group()
    finished = running.finish()
    assert finished.code == 130
    assert "Traceback" not in finished.stderr
    assert len(rows_by_pattern(finished.stdout)) >= 4
    assert len(read_json(running.json_path())["results"]) >= 4
    assert len(of_kind(read_records(running.records_path()), "row")) >= 10
    expect_no_process_left(running)


@RANKS
def test_ctrl_c_ends_ranks_that_do_not_listen(programs: Programs, ranks: list[object]) -> None:
    """One Ctrl-C is enough for ranks that hang; a second one only shortens the wait for them."""
    arguments = [*ranks, *ONE_ROW, "--fault", "hang:rank=1,phase=report"]
    runs = {
        interrupts: programs.start("all_reduce", *arguments, folder=programs.subfolder(f"interrupts-{interrupts}"))
        for interrupts in (1, 2)
    }
    for interrupts, running in runs.items():
        wait_for_rows(running, 2)
        running.interrupt_group()
        if interrupts == 2:
            time.sleep(0.3)  # until the first one has been seen; two at once may count as one
            running.interrupt_group()
    for interrupts, running in runs.items():
        finished = running.finish()
        assert finished.code == 130
        assert len(rows_by_pattern(finished.stdout)) == 1
        assert len(read_json(running.json_path())["results"]) == 1
        records = read_records(running.records_path())
        assert len(of_kind(records, "row")) == 2
        if interrupts == 1:
            assert finished.stderr == "all_reduce_perf: interrupted\n"
            assert records[-1]["reason"] == "interrupted"
        expect_no_process_left(running)


@pytest.mark.parametrize("rank", [0, 2])
def test_ctrl_c_ends_a_stopped_process(programs: Programs, rank: int) -> None:
    running = programs.start("all_reduce", *PROCESSES, *WITHOUT_END)
    wait_for_rows(running, 10)
    send_signal(first_record(running.records_path())["ranks"][rank]["pid"], signal.SIGSTOP)
    running.interrupt_group()
    expect_rows_kept(running, running.finish(), "interrupted", 130)


@pytest.mark.parametrize(
    ("rank", "number", "reason", "code"),
    [(0, signal.SIGTERM, "terminated", 143), (2, signal.SIGINT, "interrupted", 130)],
)
def test_a_signal_to_one_rank_ends_the_run(
    programs: Programs, rank: int, number: signal.Signals, reason: str, code: int
) -> None:
    running = programs.start("all_reduce", *PROCESSES, *WITHOUT_END)
    wait_for_rows(running, 10)
    os.kill(first_record(running.records_path())["ranks"][rank]["pid"], number)
    finished = running.finish()
    assert finished.stderr == f"all_reduce_perf: {reason}\n"
    expect_rows_kept(running, finished, reason, code)


def test_ctrl_c_before_the_first_row(programs: Programs) -> None:
    for ranks in (THREADS, PROCESSES):
        folder = programs.subfolder(f"ranks{ranks[1]}")
        arguments = [*ranks, *ONE_ROW, "-n", 100_000, "--fault", "delay:rank=1,us=1000"]
        running = programs.start("all_reduce", *arguments, folder=folder)
        wait_for_text(running.records_path())
        running.interrupt_group()
        finished = running.finish()
        assert (finished.code, finished.stderr) == (130, "all_reduce_perf: interrupted\n")
        assert rows_by_pattern(finished.stdout) == []
        assert finished.stdout.endswith("# Run ended early: interrupted\n# error: interrupted\n")
        kinds = [line["kind"] for line in read_records(running.records_path())]
        assert [kind for kind in kinds if kind != "warning"] == ["run", "end"]
        assert "average_bus_bandwidth" not in read_json(running.json_path())
        expect_no_process_left(running)


@RANKS
def test_ctrl_c_before_the_table(programs: Programs, ranks: list[object]) -> None:
    running = programs.start("all_reduce", *ranks, *ONE_ROW, "--fault", "hang:rank=1,phase=rendezvous")
    wait_for_ranks(running)
    running.interrupt_group()
    finished = running.finish()
    assert (finished.code, finished.stderr) == (130, "all_reduce_perf: interrupted\n")
    assert finished.stdout == "# Writing JSON output to out.json\n"
    assert read_json(running.json_path())["version"] == 3
    assert read_records(running.records_path()) == []
    expect_no_process_left(running)


# ---- killed ---------------------------------------------------------------------------------------------------------


@RANKS
def test_killed_at_any_moment(programs: Programs, ranks: list[object]) -> None:
    """Nothing can be said at the end, so everything must have been right all the time."""
    moments = random.Random(str(ranks))
    for attempt in range(6):
        running = programs.start("all_reduce", *ranks, *WITHOUT_END, folder=programs.subfolder(f"attempt{attempt}"))
        wait_for_rows(running, moments.randrange(2, 100))
        pids = {rank["pid"] for rank in first_record(running.records_path())["ranks"]}
        time.sleep(moments.random() / 50)
        os.kill(running.pid, signal.SIGKILL)
        finished = running.finish()
        assert (finished.code, finished.stderr) == (-signal.SIGKILL, "")
        wait_for_end(pids)
        expect_no_process_left(running)

        results = read_json(running.json_path())["results"]
        records = read_records(running.records_path(), killed=True)
        assert {line["kind"] for line in records} - {"warning"} == {"run", "row"}
        rows = of_kind(records, "row")
        shown = [line for line in finished.stdout.split("\n")[:-1] if not line.startswith("#")]
        # Each format gets a row a moment after the one before it: record, document, table.
        assert len(rows) // 2 - len(results) in {0, 1}
        assert len(results) - len(shown) in {0, 1}
        assert [result["size"] for result in results] == [row["size_bytes"] for row in rows[::2]][: len(results)]


def test_the_document_is_whole_at_every_moment(programs: Programs) -> None:
    running = programs.start("all_reduce", *THREADS, *WITHOUT_END, "-I", 1)
    wait_for_text(running.json_path())
    most = 0

    def grown() -> bool:
        nonlocal most
        rows = len(read_json(running.json_path()).get("results", []))
        assert rows >= most
        most = rows
        return most >= 200

    wait_until(grown, "200 rows in the document", pause_s=0)
    running.interrupt_group()
    running.finish()
    assert len(read_json(running.json_path())["results"]) >= most
    assert {entry.name for entry in programs.folder.iterdir()} == {"out.json", "out.jsonl"}


# ---- nobody reads ---------------------------------------------------------------------------------------------------


@RANKS
def test_a_reader_that_goes_away(programs: Programs, ranks: list[object]) -> None:
    """As `all_reduce_perf ... | head -3` does it."""
    running = programs.start("all_reduce", *ranks, *WITHOUT_END)
    assert running.process.stdout
    for _ in range(3):
        running.process.stdout.readline()
    running.process.stdout.close()
    assert running.process.wait(HANG_GUARD_S) == 141
    assert running.process.stderr
    assert running.process.stderr.read() == ""
    running.process.stderr.close()
    records = read_records(running.records_path())
    assert records[-1]["kind"] == "end"
    assert (records[-1]["exit_code"], records[-1]["reason"]) == (141, "the reader of the output went away")
    assert len(of_kind(records, "row")) == 2 * records[-1]["rows"]
    assert len(read_json(running.json_path())["results"]) == records[-1]["rows"]
    expect_no_process_left(running)


def test_stdout_closed_from_the_beginning(programs: Programs) -> None:
    """Nothing is measured for a table that nobody will see, and no empty file is left behind."""
    reading, writing = os.pipe()
    os.close(reading)
    process = subprocess.run(
        [programs.path("all_reduce_perf"), *map(str, [*THREADS, *WITHOUT_END])],
        cwd=programs.folder,
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        timeout=HANG_GUARD_S,
    )
    os.close(writing)
    assert (process.returncode, process.stderr) == (141, "")
    assert list(programs.folder.iterdir()) == []


@RANKS
def test_head_in_a_shell(programs: Programs, ranks: list[object]) -> None:
    program = programs.path("all_reduce_perf")
    command = f'"{program}" {" ".join(map(str, [*ranks, *WITHOUT_END]))} | head -n 3; echo "${{PIPESTATUS[0]}}"'
    finished = subprocess.run(
        ["bash", "-c", command], cwd=programs.folder, capture_output=True, text=True, timeout=HANG_GUARD_S, check=True
    )
    assert finished.stderr == ""
    *lines, code = finished.stdout.splitlines()
    assert code == "141"
    assert len(lines) == 3
    assert lines[-1] == "# Collective test starting: all_reduce_perf"


@RANKS
def test_a_full_disk_under_the_table(programs: Programs, ranks: list[object]) -> None:
    arguments = [*ranks, "-b", 64, "-e", 256, "-f", 2, "--records", "out.jsonl"]
    with Path("/dev/full").open("w") as full:
        process = subprocess.run(
            [programs.path("all_reduce_perf"), *map(str, arguments)],
            cwd=programs.folder,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=HANG_GUARD_S,
        )
    assert process.returncode == 3
    finished = Finished(process.returncode, "", process.stderr)
    assert "cannot write to standard output" in finished.sentence()
    end = read_records(programs.folder / "out.jsonl")[-1]
    assert (end["kind"], end["exit_code"]) == ("end", 3)


def test_no_process_outlives_a_run(programs: Programs) -> None:
    running = programs.start("all_reduce", *PROCESSES, "-b", 64, "-e", 64)
    assert running.finish().code == 0
    assert group_members(running.pid) == set()
