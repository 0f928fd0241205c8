"""Do the document of -J and the records hold what their formats promise, and agree with the table and one another?"""

import json
import math
import re
import statistics
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from .programs import Finished, Programs, of_kind, read_json, read_records, wait_until
from .table import rows_by_blanks, rows_by_pattern

SCHEMA = Path(__file__).resolve().parents[2] / "schema" / "records.schema.json"
OUTPUTS = ["-J", "out.json", "--records", "out.jsonl"]
STAMP = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"

# Keys of nccl-tests' JSON, format version 3, in its order; the last key of the document is ours.
DOCUMENT = ["version", "start_time", "args", "env", "nccl_version", "config", "results"]
DOCUMENT += ["out_of_bounds", "average_bus_bandwidth", "errors", "end_time", "busbw"]
CONFIG = ["nthreads", "ngpus", "minimum_bytes", "maximum_bytes", "step_factor", "warmup_iters", "iterations"]
CONFIG += ["aggregated_iterations", "validation", "graph", "blocking_collectives", "per_iter_timing", "per_iter_skip"]
CONFIG += ["parallel_init", "devices"]
DEVICE = ["rank", "group", "pid", "hostname", "device", "device_hex", "device_info"]
RESULT = ["size", "count", "type", "redop", "root", "out_of_place", "in_place", "actual_iterations", "experiment_name"]
PLACEMENT = ["time", "alg_bw", "bus_bw", "nwrong"]
PER_ITERATION = ["skipped_iterations", "min_us", "max_us", "avg_us", "p50_us", "p95_us", "p99_us", "stdev_us", "cv_pct"]
PER_ITERATION += ["times_us"]


def run(programs: Programs, *arguments: object, environment: dict[str, str] | None = None) -> Finished:
    finished = programs.run(str(arguments[0]), *arguments[1:], *OUTPUTS, environment=environment)
    assert (finished.code, finished.stderr) == (0, "")
    return finished


def document_of(programs: Programs) -> dict[str, Any]:
    return read_json(programs.folder / "out.json")


def records_of(programs: Programs) -> list[dict[str, Any]]:
    return read_records(programs.folder / "out.jsonl")


# ---- -J -------------------------------------------------------------------------------------------------------------


def test_document(programs: Programs) -> None:
    arguments = ["-t", 2, "-b", "1K", "-e", "16K", "-f", 4, "-n", 5]
    finished = run(programs, "all_reduce", *arguments)
    document = document_of(programs)
    assert list(document) == DOCUMENT
    assert document["version"] == 3
    assert re.fullmatch(STAMP, document["start_time"])
    assert re.fullmatch(STAMP, document["end_time"])
    assert document["args"] == ["all_reduce_perf", *map(str, arguments), *OUTPUTS]
    assert document["nccl_version"] is None
    assert document["out_of_bounds"] == {"count": 0, "okay": "true"}
    assert list(document["average_bus_bandwidth"]) == ["bandwidth", "okay"]
    assert document["average_bus_bandwidth"]["okay"] == "unchecked"
    assert document["errors"] == []
    assert list(document["busbw"]) == ["version", "backend", "warnings", "end_reason"]
    assert document["busbw"]["backend"] == "host"
    assert document["busbw"]["end_reason"] == "completed"

    config = document["config"]
    assert list(config) == CONFIG
    (device,) = config.pop("devices")
    assert config == {
        "nthreads": 2,
        "ngpus": 1,
        "minimum_bytes": 1024,
        "maximum_bytes": 16384,
        "step_factor": 4,
        "warmup_iters": 1,
        "iterations": 5,
        "aggregated_iterations": 1,
        "validation": 1,
        "graph": 0,
        "blocking_collectives": "false",
        "per_iter_timing": "false",
        "per_iter_skip": 0,
        "parallel_init": "false",
    }
    assert list(device) == DEVICE
    assert (device["rank"], device["group"], device["device"], device["device_hex"]) == (0, 0, 0, "cpu")

    rows = rows_by_pattern(finished.stdout)
    assert len(rows) == 3
    for result, row in zip(document["results"], rows, strict=True):
        assert list(result) == RESULT
        assert (result["size"], result["count"], result["type"]) == (row.size_bytes, row.count, row.dtype)
        assert (result["redop"], result["root"]) == ("sum", "    -1")
        assert (result["actual_iterations"], result["experiment_name"]) == (5, "")
        for side in (result["out_of_place"], result["in_place"]):
            assert list(side) == PLACEMENT
            assert all(isinstance(number, float) for number in side.values())
            assert side["nwrong"] == 0


def test_document_per_iteration(programs: Programs) -> None:
    run(programs, "all_reduce", "--processes", 2, "-b", 64, "-e", 128, "-i", 64, "-n", 9, "-I", 1, "-K", 2, "-z", 3)
    document = document_of(programs)
    config = document["config"]
    assert list(config) == [{"step_factor": "step_bytes"}.get(key, key) for key in CONFIG]
    assert (config["blocking_collectives"], config["per_iter_timing"], config["per_iter_skip"]) == ("true", "true", 2)
    assert [device["rank"] for device in config["devices"]] == [0, 1]
    assert len({device["pid"] for device in config["devices"]}) == 2
    for result in document["results"]:
        keys = [*RESULT]
        keys.insert(keys.index("in_place"), "out_of_place_per_iter")
        keys.insert(keys.index("in_place") + 1, "in_place_per_iter")
        assert list(result) == keys
        for placement in ("out_of_place", "in_place"):
            told = result[f"{placement}_per_iter"]
            assert list(told) == [*PER_ITERATION, "per_process_max_times_us"]
            times = told["times_us"]
            assert len(times) == 9
            assert times == [max(pair) for pair in zip(*told["per_process_max_times_us"], strict=True)]
            counted = sorted(times[2:])
            assert told["skipped_iterations"] == 2
            assert told["min_us"] == counted[0]
            assert told["max_us"] == counted[-1]
            assert told["p50_us"] == counted[3]
            assert told["avg_us"] == pytest.approx(statistics.fmean(counted), abs=1e-5)
            assert told["stdev_us"] == pytest.approx(statistics.pstdev(counted), abs=1e-4)
            assert told["cv_pct"] == pytest.approx(100 * told["stdev_us"] / told["avg_us"], abs=1e-3)


def test_document_with_cpu_time(programs: Programs) -> None:
    run(programs, "gather", "-t", 3, "-b", 96, "-e", 96, "-C", 1, "-r", "all", "-c", 0)
    results = document_of(programs)["results"]
    assert [result["root"] for result in results] == ["     0", "     1", "     2"]
    assert {result["redop"] for result in results} == {"none"}
    for result in results:
        assert list(result["in_place"]) == ["cpu_time", "alg_bw", "bus_bw", "nwrong"]
        assert result["in_place"]["nwrong"] is None


def test_document_of_one_placement(programs: Programs) -> None:
    run(programs, "hypercube", "-t", 2, "--sizes", "64,1K", "--placement", "in", "-I", 1)
    document = document_of(programs)
    assert document["config"]["sizes_bytes"] == [64, 1024]
    assert "step_bytes" not in document["config"]
    for result in document["results"]:
        assert result["out_of_place"] is None
        assert "out_of_place_per_iter" not in result
        assert result["redop"] == ""
        assert len(result["in_place_per_iter"]["times_us"]) == 20


def test_documents_are_numbered(programs: Programs) -> None:
    """nccl-tests never writes over a document: it takes the next free name, and says which."""
    for name in ("out.json", "out.json.0", "out.json.1"):
        finished = programs.run("all_reduce", "-t", 2, "-b", 8, "-e", 8, "-J", "out.json")
        assert finished.code == 0
        assert finished.stdout.startswith(f"# Writing JSON output to {name}\n# nccl-tests version ")
    documents = [read_json(programs.folder / name) for name in ("out.json", "out.json.0", "out.json.1")]
    assert len({document["config"]["devices"][0]["pid"] for document in documents}) == 3
    assert len(list(programs.folder.iterdir())) == 3


# ---- records --------------------------------------------------------------------------------------------------------

EVERY_KIND_OF_RUN: list[tuple[list[object], dict[str, str]]] = [
    (["all_reduce", "-t", 3, "-b", 8, "-e", "4K", "-f", 8, "-n", 7], {}),
    (["reduce", "--processes", 3, "-b", "1K", "-e", "1K", "-d", "all", "-o", "avg", "-n", 2, "-r", "all"], {}),
    (["all_gather", "--processes", 3, "-t", 2, "-b", "1K", "-e", "2K", "-i", 512], {"NCCL_TESTS_SPLIT": "MOD 2"}),
    (["alltoallv", "-t", 3, "--sizes", "1K,8", "-c", 0], {"NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY": "1"}),
    (["sendrecv", "-t", 2, "-b", 64, "-e", 64, "--ping-pong", 1, "--placement", "out"], {}),
    (["hypercube", "-t", 4, "-b", 64, "-e", 64, "-I", 1, "-K", 3, "-S", 1, "-C", 1, "-N", 2, "-z", 3, "-m", 2], {}),
    (["scatter", "-b", 64, "-e", 64, "-n", 3, "-a", 0, "-p", 1, "-u", 5, "-T", 60, "--backend", "host"], {}),
    (["broadcast", "-t", 2, "-b", 64, "-e", 64, "--target-ci", "1e-7%", "--max-time", "20ms"], {"NCCL_TESTS_MIN_BW": "0"}),
]


@pytest.mark.parametrize(("arguments", "environment"), EVERY_KIND_OF_RUN, ids=[str(a[0]) for a, _ in EVERY_KIND_OF_RUN])
def test_records_follow_their_schema(programs: Programs, arguments: list[object], environment: dict[str, str]) -> None:
    finished = run(programs, *arguments, environment=environment)
    schema = json.loads(SCHEMA.read_text())
    validator = jsonschema.Draft202012Validator(schema)
    records = records_of(programs)
    for line in records:
        validator.validate(line)
    assert [line["kind"] for line in records] == ["run", *["row"] * (len(records) - 2), "end"]
    header, end = records[0], records[-1]
    assert header["args"] == [f"{arguments[0]}_perf", *map(str, arguments[1:]), *OUTPUTS]
    assert (end["reason"], end["exit_code"], end["message"]) == ("completed", 0, None)
    shown = rows_by_blanks(finished.stdout)
    assert end["rows"] == len(shown)

    settings = header["settings"]
    for row in of_kind(records, "row"):
        ranks = [rank["rank"] for rank in header["ranks"] if rank["group"] == row["group"]]
        assert row["ranks"] == len(ranks)
        # Every sample of every rank is there.
        assert len(row["samples_us"]) == len(ranks)
        (samples,) = {len(samples) for samples in row["samples_us"]}
        if row["stopped_by"] == "iterations":
            assert samples == settings["iterations"]
        assert samples - settings["per_iteration_skip"] == row["stats"]["samples"]


def test_records_agree_with_the_table(programs: Programs) -> None:
    finished = run(programs, "all_gather", "--processes", 2, "-b", "1K", "-e", "64K", "-f", 8, "-n", 4, "-N", 2)
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
    run(programs, "all_reduce", "-t", 3, "-b", "16K", "-e", "16K", "-n", 50, "-I", 1, "-K", 10)
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
    run(programs, "all_reduce", "-t", 2, "-b", 64, "-e", 64, "-n", 5)
    assert [row["stats"]["median_ci95_us"] for row in of_kind(records_of(programs), "row")] == [None, None]


def test_requested_and_true_sizes_are_both_recorded(programs: Programs) -> None:
    run(programs, "all_gather", "-t", 3, "--sizes", "1000,8")
    rows = of_kind(records_of(programs), "row")[::2]
    assert [(row["requested_bytes"], row["size_bytes"], row["count"]) for row in rows] == [(1000, 960, 80), (8, 0, 0)]


def test_a_row_without_data_has_no_bandwidth(programs: Programs) -> None:
    """Sizes below what a rank can share out: rows of 0 bytes, which still are valid in every format."""
    run(programs, "reduce_scatter", "-t", 4, "-b", 8, "-e", 8)
    (result,) = document_of(programs)["results"]
    assert (result["size"], result["out_of_place"]["alg_bw"], result["out_of_place"]["nwrong"]) == (0, 0, 0)


# ---- secrets --------------------------------------------------------------------------------------------------------


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
    finished = run(programs, "all_reduce", "-t", 2, "-b", 8, "-e", 8, environment={**secrets, **wanted})
    written = [finished.stdout, *(path.read_text() for path in programs.folder.iterdir())]
    assert len(written) == 3
    for text in written:
        assert "hush" not in text
    recorded = records_of(programs)[0]["environment"]
    assert {name: recorded[name] for name in wanted} == wanted
    assert set(secrets).isdisjoint(recorded)
    pairs = document_of(programs)["env"]
    assert {f"{name}={value}" for name, value in wanted.items()} <= set(pairs)


# ---- the memory plan ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "asked"),
    [
        (["-b", "65536G", "-e", "65536G"], "64 TiB"),
        (["--sizes", "1K,65536G"], "64 TiB"),
        (["-b", "4294967296G", "-e", "4294967296G"], "4 EiB"),
    ],
)
def test_what_does_not_fit_is_refused(programs: Programs, sizes: list[object], asked: str) -> None:
    finished = programs.run("all_reduce", "-t", 4, *sizes, *OUTPUTS)
    assert (finished.code, finished.stdout) == (3, "")
    sentence = finished.sentence()
    assert f"2 buffers of {asked} for each of 4 ranks need " in sentence
    assert re.search(r"of \S+ [KMGT]?i?B free memory \S+ [KMGT]?i?B may be used: ask for sizes up to ", sentence)
    assert list(programs.folder.iterdir()) == []


def test_a_sweep_that_does_not_fit_is_reduced(programs: Programs) -> None:
    """The rank hangs before it touches its memory: the plan is all that this test wants."""
    arguments = ["-t", 1, "-b", 8, "-e", "65536G", "-f", 2, *OUTPUTS, "-T", 1]
    finished = programs.run("all_reduce", *arguments, "--fault", "hang:rank=0,phase=warmup")
    found = re.search(r"^# Reducing maxBytes to (\d+) due to memory limitation$", finished.stdout, flags=re.MULTILINE)
    assert found
    assert re.search(r"^# 2 buffers of 64 TiB for each of 1 ranks need ", finished.stdout, flags=re.MULTILINE)
    assert f" maxBytes {found.group(1)} step: 2(factor) " in finished.stdout
    assert document_of(programs)["config"]["maximum_bytes"] == int(found.group(1))
    header = records_of(programs)[0]
    assert header["settings"]["max_bytes"] == int(found.group(1))
    assert any("Reducing maxBytes" in note for note in header["notes"])


def test_rows_are_recorded_as_they_are_finished(programs: Programs) -> None:
    """What has been measured lies on disk before the run ends."""
    arguments = ["-t", 2, "-b", 64, "-e", 64, "-N", 0, *OUTPUTS]
    running = programs.start("all_reduce", *arguments)
    wait_until(lambda: running.records_path().exists() and running.records_path().read_text().count("\n") > 3, "rows")
    assert running.process.poll() is None
    running.interrupt_group()
    assert running.finish().code == 130
