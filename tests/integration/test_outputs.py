"""Do the records hold what their format promises, do they agree with the table, and keep secrets?"""

import json
import math
import os
import statistics
import subprocess
from pathlib import Path

import jsonschema
import pytest
from installed import plain_environment
from polling import HANG_GUARD_S, wait_until

from .programs import OUTPUTS, Finished, Programs, document_of, of_kind, records_of, run_and_record
from .table import rows_by_blanks, rows_by_pattern

SCHEMA = Path(__file__).resolve().parents[2] / "schema" / "records.schema.json"


EVERY_KIND_OF_RUN: list[tuple[list[object], dict[str, str]]] = [
    (["all_reduce", "-t", 3, "-b", 8, "-e", "4K", "-f", 8, "-n", 7], {}),
    (["reduce", "--processes", 3, "-b", "1K", "-e", "1K", "-d", "all", "-o", "avg", "-n", 2, "-r", "all"], {}),
    (["all_gather", "--processes", 3, "-t", 2, "-b", "1K", "-e", "2K", "-i", 512], {"NCCL_TESTS_SPLIT": "MOD 2"}),
    (["alltoallv", "-t", 3, "--sizes", "1K,8", "-c", 0], {"NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY": "1"}),
    (["sendrecv", "-t", 2, "-b", 64, "-e", 64, "--ping-pong", 1, "--placement", "out"], {}),
    (["hypercube", "-t", 4, "-b", 64, "-e", 64, "-I", 1, "-K", 3, "-S", 1, "-C", 1, "-N", 2, "-z", 3, "-m", 2], {}),
    (["scatter", "-b", 64, "-e", 64, "-n", 3, "-a", 0, "-p", 1, "-u", 5, "-T", 60, "--backend", "host"], {}),
    (["broadcast", "-t", 2, "--sizes", 64, "--target-ci", "1e-7%", "--max-time", "20ms"], {"NCCL_TESTS_MIN_BW": "0"}),
]


@pytest.mark.parametrize(("arguments", "environment"), EVERY_KIND_OF_RUN, ids=[str(a[0]) for a, _ in EVERY_KIND_OF_RUN])
def test_records_follow_their_schema(programs: Programs, arguments: list[object], environment: dict[str, str]) -> None:
    finished = run_and_record(programs, *arguments, environment=environment)
    schema = json.loads(SCHEMA.read_text())
    validator = jsonschema.Draft202012Validator(schema)
    records = records_of(programs)
    for line in records:
        validator.validate(line)
    warnings = of_kind(records, "warning")
    rows = of_kind(records, "row")
    assert [line["kind"] for line in records] == ["run", *["warning"] * len(warnings), *["row"] * len(rows), "end"]
    header, end = records[0], records[-1]
    assert header["args"] == [f"{arguments[0]}_perf", *map(str, arguments[1:]), *OUTPUTS]
    assert (end["reason"], end["exit_code"], end["message"]) == ("completed", 0, None)
    shown = rows_by_blanks(finished.stdout)
    assert end["rows"] == len(shown)
    assert header["rows_planned"] * len({rank["group"] for rank in header["ranks"]}) == len(shown)
    sizes = {(row["cycle"], row["dtype"], row["root"], row["requested_bytes"]) for row in rows}
    assert header["bytes_planned"] == sum(requested_bytes for *_, requested_bytes in sizes)

    settings = header["settings"]
    for row in rows:
        ranks = [rank["rank"] for rank in header["ranks"] if rank["group"] == row["group"]]
        assert row["ranks"] == len(ranks)
        # Every sample of every rank is there.
        assert len(row["samples_us"]) == len(ranks)
        (samples,) = {len(samples) for samples in row["samples_us"]}
        if row["stopped_by"] == "iterations":
            assert samples == settings["iterations"]
        assert samples - settings["per_iteration_skip"] == row["stats"]["samples"]


def test_records_agree_with_the_table(programs: Programs) -> None:
    finished = run_and_record(
        programs, "all_gather", "--processes", 2, "-b", "1K", "-e", "64K", "-f", 8, "-n", 4, "-N", 2
    )
    rows = of_kind(records_of(programs), "row")
    shown = rows_by_pattern(finished.stdout)
    assert len(rows) == 2 * len(shown) == 12
    for index, row in enumerate(rows):
        table = shown[index // 2]
        side = table.out_of_place if row["placement"] == "out_of_place" else table.in_place
        assert row["placement"] == ("out_of_place", "in_place")[index % 2]
        assert row["cycle"] == index // 6
        assert (row["size_bytes"], row["count"], row["dtype"]) == (table.size_bytes, table.count, table.dtype)
        assert (row["redop"], row["root"], row["group"], row["ranks"]) == (None, None, 0, 2)
        assert side.time_us == pytest.approx(row["time_us"], rel=0.001, abs=0.0051)
        assert side.algbw_gbps == pytest.approx(row["algbw_gbps"], rel=0.001, abs=0.0051)
        assert side.busbw_gbps == pytest.approx(row["busbw_gbps"], rel=0.001, abs=0.0051)
        assert side.wrong == row["check"]["wrong_elements"] == 0
    average = statistics.fmean(row["busbw_gbps"] for row in rows)
    assert records_of(programs)[-1]["average_busbw_gbps"] == pytest.approx(average, rel=1e-6)


def sign_test_rank(samples: int) -> int:
    """The largest rank k with P(Binomial(samples, 1/2) < k) <= 2.5 %."""
    rank, below = 0, 0
    while (below + math.comb(samples, rank)) / 2**samples <= 0.025:
        below += math.comb(samples, rank)
        rank += 1
    return rank


def test_statistics_can_be_computed_again(programs: Programs) -> None:
    run_and_record(programs, "all_reduce", "-t", 3, "-b", "16K", "-e", "16K", "-n", 50, "-I", 1, "-K", 10)
    for row in of_kind(records_of(programs), "row"):
        # An operation ends when its last rank ends; -K leaves the first ones out.
        iterations = [max(times) for times in zip(*row["samples_us"], strict=True)]
        counted = sorted(iterations[10:])
        low = sign_test_rank(40)
        told = row["stats"]
        assert told["samples"] == 40
        # Samples are written with three decimals of a microsecond.
        expected = {
            "mean_us": statistics.fmean(counted),
            "median_us": statistics.median(counted),
            "p95_us": counted[math.ceil(0.95 * 40) - 1],
            "p99_us": counted[math.ceil(0.99 * 40) - 1],
            "min_us": counted[0],
            "max_us": counted[-1],
            "stdev_us": statistics.pstdev(counted),
        }
        assert {name: told[name] for name in expected} == pytest.approx(expected, abs=0.002)
        assert told["median_ci95_us"] == pytest.approx([counted[low - 1], counted[40 - low]], abs=0.002)
        assert told["cv_percent"] == pytest.approx(100 * told["stdev_us"] / told["mean_us"], rel=1e-6)


def test_few_samples_have_no_interval(programs: Programs) -> None:
    run_and_record(programs, "all_reduce", "-t", 2, "-b", 64, "-e", 64, "-n", 5)
    assert [row["stats"]["median_ci95_us"] for row in of_kind(records_of(programs), "row")] == [None, None]


def test_requested_and_true_sizes_are_both_recorded(programs: Programs) -> None:
    run_and_record(programs, "all_gather", "-t", 3, "--sizes", "1000,8")
    rows = of_kind(records_of(programs), "row")[::2]
    assert [(row["requested_bytes"], row["size_bytes"], row["count"]) for row in rows] == [(1000, 960, 80), (8, 0, 0)]


def test_a_row_without_data_has_no_bandwidth(programs: Programs) -> None:
    """Sizes below what a rank can share out: rows of 0 bytes, which still are valid in every format."""
    run_and_record(programs, "reduce_scatter", "-t", 4, "-b", 8, "-e", 8)
    (result,) = document_of(programs)["results"]
    assert (result["size"], result["out_of_place"]["alg_bw"], result["out_of_place"]["nwrong"]) == (0, 0, 0)


# ---- secrets ---------------------------------------------------------------------------------------------------------


def test_the_environment_is_an_allow_list(programs: Programs) -> None:
    secrets = {
        "AWS_SECRET_ACCESS_KEY": "hush-1",
        "NCCL_FOO_TOKEN": "hush-2",
        "NCCL_NET_PASSWORD": "hush-3",
        "OMPI_MCA_some_secret": "hush-4",
        "UCX_api_key": "hush-5",
        "GITHUB_TOKEN": "hush-6",
        "MY_OWN_VARIABLE": "hush-7",
        "HOME": "/hush-8",
    }
    wanted = {"NCCL_DEBUG": "WARN", "NCCL_ALGO": 'a "quoted" word\n', "UCX_TLS": "all", "OMP_NUM_THREADS": "3"}
    finished = run_and_record(programs, "all_reduce", "-t", 2, "-b", 8, "-e", 8, environment={**secrets, **wanted})
    written = [finished.stdout, *(path.read_text() for path in programs.folder.iterdir())]
    assert len(written) == 3
    for text in written:
        assert "hush" not in text
    recorded = records_of(programs)[0]["environment"]
    assert {name: recorded[name] for name in wanted} == wanted
    assert set(secrets).isdisjoint(recorded)
    pairs = document_of(programs)["env"]
    assert {f"{name}={value}" for name, value in wanted.items()} <= set(pairs)


# ---- no room on the disk ---------------------------------------------------------------------------------------------


def run_in_a_small_disk(programs: Programs, kilobytes: int, *arguments: object) -> Finished:
    """Files may not grow beyond so many KiB, which is as a disk that is full."""
    command = f'ulimit -f {kilobytes}; exec "$0" "$@"'
    process = subprocess.run(
        ["bash", "-c", command, str(programs.path("all_reduce_perf")), *map(str, arguments)],
        cwd=programs.folder,
        env=plain_environment(),
        capture_output=True,
        text=True,
        timeout=HANG_GUARD_S,
    )
    return Finished(process.returncode, process.stdout, process.stderr)


@pytest.mark.parametrize("ranks", [["-t", 2], ["--processes", 2]], ids=["threads", "processes"])
def test_a_full_disk_ends_the_run(programs: Programs, ranks: list[object]) -> None:
    arguments = [*ranks, "-b", 64, "-e", 64, "-N", 0, "--records", "out.jsonl"]
    finished = run_in_a_small_disk(programs, 16, *arguments)
    assert finished.code == 3
    assert "cannot write to 'out.jsonl'" in finished.sentence()
    # Earlier content is kept completely; no space was left for the end.
    records = records_of(programs)
    assert {line["kind"] for line in records} - {"warning"} <= {"run", "row", "end"}
    shown = rows_by_pattern(finished.stdout)
    assert len(of_kind(records, "row")) // 2 - len(shown) in {0, 1}
    assert len(shown) > 2
    assert "# Run ended early: environment\n" in finished.stdout
    assert finished.stdout.endswith("# Test failure: environment\n")
    assert "concluded" not in finished.stdout


def test_a_disk_that_was_full_before_leaves_nothing(programs: Programs) -> None:
    finished = run_in_a_small_disk(programs, 0, "-t", 2, "-b", 64, "-e", 64, *OUTPUTS)
    assert (finished.code, finished.stdout) == (3, "")
    assert "out.json" in finished.sentence()
    assert list(programs.folder.iterdir()) == []


def test_rows_are_recorded_as_they_are_finished(programs: Programs) -> None:
    """Measured rows are on disk before the run ends."""
    arguments = ["-t", 2, "-b", 64, "-e", 64, "-N", 0, *OUTPUTS]
    running = programs.start("all_reduce", *arguments)
    wait_until(lambda: running.records_path().exists() and running.records_path().read_text().count("\n") > 3, "rows")
    assert running.process.poll() is None
    running.interrupt_group()
    assert running.finish().code == 130


def test_more_ranks_than_processors_is_a_warning_everywhere(programs: Programs) -> None:
    processors = len(os.sched_getaffinity(0))
    finished = run_and_record(programs, "all_reduce", "-t", processors + 1, "-b", 8, "-e", 8)
    sentence = f"{processors + 1} ranks share {processors} processor{'s' * (processors > 1)}"
    assert finished.stdout.count(f"# Warning: {sentence}") == 1
    (warning,) = of_kind(records_of(programs), "warning")
    assert warning["message"].startswith(sentence)
    (written,) = document_of(programs)["busbw"]["warnings"]
    assert written == warning["message"]

    assert "Warning" not in programs.run("all_reduce", "-b", 8, "-e", 8).stdout
