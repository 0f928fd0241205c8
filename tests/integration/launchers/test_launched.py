"""Are processes that were started apart, with BUSBW_* variables alone, one job: in what it measures and how it ends?"""

import json
import os
import re
import signal
import socket
from pathlib import Path

import pytest
from polling import free_port, send_signal

from busbw.collectives import COLLECTIVES

from ..programs import (
    OUTPUTS,
    REDUCING,
    Finished,
    Programs,
    Running,
    complaints,
    of_kind,
    read_json,
    read_records,
    wait_for_rows,
)
from ..table import expect_nothing_wrong, footer, rows_by_pattern

PHASES = ["rendezvous", "initialisation", "warmup", "timing", "check", "report"]
BEFORE_THE_TABLE = {"rendezvous", "initialisation"}
HOST = socket.gethostname()
SMALL = ["-b", 64, "-e", 256, "-f", 2, "-n", 2]
# For jobs that end by it. Processes that start side by side on a busy machine may be seconds apart.
LIMIT_S = 15


def variables(process: int, processes: int, store: str) -> dict[str, str]:
    return {
        "BUSBW_RANK": str(process),
        "BUSBW_SIZE": str(processes),
        "BUSBW_LOCAL_RANK": str(process),
        "BUSBW_LOCAL_SIZE": str(processes),
        "BUSBW_RENDEZVOUS": store,
        "BUSBW_TOKEN": "of-these-tests",
    }


def start(
    programs: Programs,
    processes: int,
    collective: str,
    *arguments: object,
    store: str | None = None,
    folder: Path | None = None,
    environment: dict[str, str] | None = None,
    leave_out: int | None = None,
) -> list[Running]:
    """The processes of one job, all in one folder as on a shared file system."""
    where = store or f"tcp://127.0.0.1:{free_port()}"
    return [
        programs.start(
            collective,
            *arguments,
            environment={**variables(process, processes, where), **(environment or {})},
            folder=folder,
        )
        for process in range(processes)
        if process != leave_out
    ]


def finish(job: list[Running]) -> list[Finished]:
    return [running.finish() for running in job]


def run(programs: Programs, processes: int, collective: str, *arguments: object, **more: str) -> list[Finished]:
    return finish(start(programs, processes, collective, *arguments, **more))  # type: ignore[arg-type]


def expect_good(ended: list[Finished]) -> str:
    """All went well, and only the first process said anything: the table."""
    assert [(one.code, complaints(one.stderr)) for one in ended] == [(0, [])] * len(ended), ended
    assert [one.stdout for one in ended[1:]] == [""] * (len(ended) - 1)
    assert footer(ended[0].stdout)["Out of bounds values"] == "0 OK"
    return ended[0].stdout


def columns(table: str) -> list[tuple[int, int, str, str, int]]:
    return [(row.size_bytes, row.count, row.dtype, row.redop, row.root) for row in rows_by_pattern(table)]


# ---- one job --------------------------------------------------------------------------------------------------------


def test_the_table_is_that_of_processes_of_one_machine(programs: Programs) -> None:
    flags = ["-b", 8, "-e", "64K", "-f", 8, "-n", 3, "-d", "int32", "-o", "all"]
    launched = expect_good(run(programs, 3, "all_reduce", *flags))
    beside = programs.run("all_reduce", "--processes", 3, *flags)
    assert columns(launched) == columns(beside.stdout)
    assert "Launched by busbw: 3 processes on 1 host" in launched
    ranks = re.findall(r"^#\s+Rank\s+(\d+)\s.*[Pp]id\s+(\d+)", launched, flags=re.MULTILINE)
    assert [rank for rank, _ in ranks] == ["0", "1", "2"]
    assert len({pid for _, pid in ranks}) == 3


def test_every_collective_is_right(programs: Programs) -> None:
    jobs = {}
    for collective in COLLECTIVES:
        operations = ["-o", "all"] if collective in REDUCING else []
        flags = ["-b", 960, "-e", 960, "-n", 1, "-w", 1, "-d", "all", *operations]
        jobs[collective] = start(programs, 4 if collective == "hypercube" else 3, collective, *flags)
    for collective, job in jobs.items():
        rows = rows_by_pattern(expect_good(finish(job)))
        assert len({row.dtype for row in rows}) >= 10
        expect_nothing_wrong(rows, collective)


def test_several_ranks_a_process_and_groups(programs: Programs) -> None:
    job = start(programs, 3, "all_gather", "-t", 2, *SMALL)
    groups = start(programs, 4, "all_reduce", *SMALL, environment={"NCCL_TESTS_SPLIT": "MOD 2"})
    table = expect_good(finish(job))
    assert len(re.findall(r"^#\s+Rank\s+\d+\s", table, flags=re.MULTILINE)) == 6
    expect_nothing_wrong(rows_by_pattern(table), "all_gather")
    split = expect_good(finish(groups))
    expect_nothing_wrong(rows_by_pattern(split), "all_reduce")
    assert len(rows_by_pattern(split)) == 2 * 3


def test_processes_find_each_other_by_a_folder(programs: Programs) -> None:
    folder = programs.folder / "store"
    expect_good(run(programs, 3, "all_reduce", *SMALL, store=f"file://{folder}"))
    assert not folder.exists()


# ---- what is written ------------------------------------------------------------------------------------------------


def test_only_the_first_process_writes_files(programs: Programs) -> None:
    expect_good(run(programs, 3, "all_reduce", *SMALL, *OUTPUTS))
    assert sorted(path.name for path in programs.folder.iterdir()) == ["out.json", "out.jsonl"]
    records = read_records(programs.folder / "out.jsonl")
    (begin,) = of_kind(records, "run")
    assert len(begin["ranks"]) == 3
    assert len(of_kind(records, "row")) == 6
    assert {len(row["samples_us"]) for row in of_kind(records, "row")} == {3}
    assert len(read_json(programs.folder / "out.json")["results"]) == 3


def test_records_between_the_lines_of_the_table(programs: Programs) -> None:
    first, *others = run(programs, 2, "all_reduce", *SMALL, "--records", "-")
    assert [one.stdout for one in others] == [""]
    lines = first.stdout.splitlines(keepends=True)
    records = [json.loads(line) for line in lines if line.startswith("{")]
    kinds = [record["kind"] for record in records if record["kind"] != "warning"]  # of too few processors
    assert kinds == ["run", *["row"] * 6, "end"]
    table = "".join(line for line in lines if not line.startswith("{"))
    expect_good([Finished(first.code, table, first.stderr), *others])
    assert len(rows_by_pattern(table)) == 3


# ---- verdicts -------------------------------------------------------------------------------------------------------


def test_wrong_data_and_too_slow_are_the_first_process_s_exit_code(programs: Programs) -> None:
    wrong = start(programs, 3, "all_reduce", *SMALL, "--fault", "flip:rank=2,index=5,bit=3")
    slow = start(programs, 2, "all_reduce", *SMALL, environment={"NCCL_TESTS_MIN_BW": "1000000"})
    ended = finish(wrong)
    assert ended[0].code == 1
    assert "rank 2, receive buffer, index 5" in ended[0].stdout
    assert finish(slow)[0].code == 5


# ---- a wrong set-up -------------------------------------------------------------------------------------------------


def test_all_processes_refuse_different_command_lines(programs: Programs) -> None:
    store = f"tcp://127.0.0.1:{free_port()}"
    job = [
        programs.start("all_reduce", "-b", 64, "-e", size, environment=variables(process, 2, store))
        for process, size in enumerate(["1K", "2K"])
    ]
    for ended in finish(job):
        assert (ended.code, ended.stdout) == (2, "")
        assert "-e 1K" in ended.sentence()
        assert "-e 2K" in ended.sentence()
        assert f"process 1 on {HOST}" in ended.sentence()


def test_all_processes_refuse_different_rank_or_process_counts(programs: Programs) -> None:
    stores = [f"tcp://127.0.0.1:{free_port()}" for _ in range(2)]
    ranks = [
        programs.start("all_reduce", "-t", 1 + process, environment=variables(process, 2, stores[0]))
        for process in range(2)
    ]
    sizes = [
        programs.start("all_reduce", environment=variables(process, 2 + process, stores[1])) for process in range(2)
    ]
    for ended in finish(ranks):
        assert ended.code == 2
        assert "2 ranks, process 0 has 1" in ended.sentence()
    for ended in finish(sizes):
        assert ended.code == 3
        assert "expects 3 processes, process 0 expects 2" in ended.sentence()


def test_an_absent_process_is_named(programs: Programs) -> None:
    # A process that waits for three seconds reports it before the last message.
    limit = {"BUSBW_JOIN_TIMEOUT_S": "8"}
    job = start(programs, 3, "all_reduce", environment=limit, leave_out=1)
    without_first = start(programs, 3, "all_reduce", environment=limit, leave_out=0)
    for ended in finish(job):
        assert (ended.code, ended.stdout) == (4, "")
        assert "1 of 3 processes has not joined: 1 (limit 8 s)" in ended.stderr
    for process, ended in enumerate(finish(without_first), 1):
        assert (ended.code, ended.stdout) == (4, "")
        assert f"process {process} on {HOST} could not reach process 0 in 8 s" in ended.stderr


def test_a_wrong_token_is_rejected(programs: Programs) -> None:
    store = f"tcp://127.0.0.1:{free_port()}"
    job = [
        programs.start(
            "all_reduce",
            environment={**variables(process, 2, store), "BUSBW_TOKEN": token, "BUSBW_JOIN_TIMEOUT_S": "8"},
        )
        for process, token in enumerate(["right", "wrong"])
    ]
    first, second = finish(job)
    assert (first.code, second.code) == (4, 3)
    assert "1 of 2 processes has not joined: 1" in first.stderr
    assert "1 connection was rejected" in first.stderr
    assert "the token differs" in second.stderr
    assert "right" not in second.stderr.replace("the token differs", "")


# ---- losses ---------------------------------------------------------------------------------------------------------


def expect_rows_kept(folder: Path, first: Finished, phase: str) -> None:
    rows = len(rows_by_pattern(first.stdout))
    # The last row may still have been on its way to the first process.
    assert rows in ([2, 3] if phase == "report" else [0])
    if phase in BEFORE_THE_TABLE:
        return
    records = read_records(folder / "out.jsonl")
    assert len(of_kind(records, "row")) == 2 * rows
    (end,) = of_kind(records, "end")
    assert (end["exit_code"], end["rows"]) == (4, rows)
    assert "# Run ended early: rank lost or timed out\n" in first.stdout


def phases_seen(victim: int, phase: str) -> list[str]:
    """How far the first process got, only its own store knew: the others say how far they got, which may be less."""
    return [phase] if victim != 0 else PHASES[max(0, PHASES.index(phase) - 1) : PHASES.index(phase) + 1]


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_death_in_every_phase(programs: Programs, victim: int) -> None:
    jobs = {}
    for phase in PHASES:
        folder = programs.subfolder(phase)
        fault = ["--fault", f"die:rank={victim},phase={phase}"]
        jobs[phase] = (folder, start(programs, 3, "all_reduce", *SMALL, *OUTPUTS, *fault, folder=folder))
    for phase, (folder, job) in jobs.items():
        ended = finish(job)
        assert ended[victim].code == -signal.SIGKILL
        for process in {0, 1, 2} - {victim}:
            assert ended[process].code == 4, (phase, ended)
            sentence = ended[process].sentence()
            assert re.search(rf"rank {victim} \(process {victim}(, pid \d+)? on {HOST}\) was lost", sentence), sentence
            assert any(f"phase {possible}" in sentence for possible in phases_seen(victim, phase)), sentence
        if victim != 0:
            expect_rows_kept(folder, ended[0], phase)


def test_silence_in_every_phase(programs: Programs) -> None:
    jobs = {}
    for phase in PHASES:
        folder = programs.subfolder(phase)
        fault = ["-T", LIMIT_S, "--fault", f"hang:rank=1,phase={phase}"]
        jobs[phase] = (folder, start(programs, 3, "all_reduce", *SMALL, *OUTPUTS, *fault, folder=folder))
    for phase, (folder, job) in jobs.items():
        ended = finish(job)
        for one in ended:
            assert one.code == 4, (phase, ended)
            assert "rank 1" in one.sentence()
            assert HOST in one.sentence()
            assert f"phase {phase}" in one.sentence()
        expect_rows_kept(folder, ended[0], phase)
        if phase in {"timing", "check", "report"}:  # by then all have issued some
            # The last phase of process 1 is known although it is silent.
            assert re.search(rf"^# last issued: operation \d+ .*rank 1 on {HOST}", ended[0].stdout, flags=re.MULTILINE)
            end = read_records(folder / "out.jsonl")[-1]
            assert end["details"][0].startswith("last issued: operation ")


def test_a_stopped_process_is_named_and_the_rows_are_kept(programs: Programs) -> None:
    jobs = []
    for victim in range(3):
        folder = programs.subfolder(f"stop-{victim}")
        flags = ["-b", "1K", "-e", "1K", "-n", 2, "-N", 0, "-T", LIMIT_S, *OUTPUTS]
        jobs.append(start(programs, 3, "all_gather", *flags, folder=folder))
    for victim, job in enumerate(jobs):
        wait_for_rows(job[0], 4)
        send_signal(job[victim].pid, signal.SIGSTOP)
    for victim, job in enumerate(jobs):
        for process in {0, 1, 2} - {victim}:
            ended = job[process].finish()
            assert ended.code == 4
            assert f"rank {victim}" in ended.sentence()
            assert HOST in ended.sentence()
            if process == 0:
                assert len(rows_by_pattern(ended.stdout)) >= 2
                assert read_records(job[0].records_path())[-1]["kind"] == "end"
        if victim != 0:
            job[victim].kill_group()
    # The others ended only because of process 0, so it must not blame them when it continues.
    send_signal(jobs[0][0].pid, signal.SIGCONT)
    continued = jobs[0][0].finish()
    end = read_records(jobs[0][0].records_path())[-1]
    assert continued.code == 4
    assert continued.sentence().startswith(f"all_gather_perf: rank 0 (process 0 on {HOST}) was lost in phase ")
    assert end["message"] == continued.sentence().removeprefix("all_gather_perf: ")


@pytest.mark.parametrize("to", [[0], [1], [0, 1, 2]], ids=["first", "second", "all"])
def test_an_interrupt_ends_all_and_keeps_the_rows(programs: Programs, to: list[int]) -> None:
    job = start(programs, 3, "all_reduce", "-b", "1K", "-e", "1K", "-n", 2, "-N", 0, *OUTPUTS)
    wait_for_rows(job[0], 4)
    for process in to:
        os.kill(job[process].pid, signal.SIGINT)
    ended = finish(job)
    assert [one.code for one in ended] == [130] * 3
    assert len(rows_by_pattern(ended[0].stdout)) >= 2
    assert "# Run ended early: interrupted\n" in ended[0].stdout
    assert read_records(programs.folder / "out.jsonl")[-1]["exit_code"] == 130
