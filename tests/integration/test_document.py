"""Does -J write nccl-tests' JSON, format version 3, and always valid?"""

import re
import statistics

import pytest

from .programs import OUTPUTS, Programs, document_of, read_json, run_and_record
from .table import rows_by_pattern

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


def test_document(programs: Programs) -> None:
    arguments = ["-t", 2, "-b", "1K", "-e", "16K", "-f", 4, "-n", 5]
    finished = run_and_record(programs, "all_reduce", *arguments)
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
    run_and_record(
        programs, "all_reduce", "--processes", 2, "-b", 64, "-e", 128, "-i", 64, "-n", 9, "-I", 1, "-K", 2, "-z", 3
    )
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
    run_and_record(programs, "gather", "-t", 3, "-b", 96, "-e", 96, "-C", 1, "-r", "all", "-c", 0)
    results = document_of(programs)["results"]
    assert [result["root"] for result in results] == ["     0", "     1", "     2"]
    assert {result["redop"] for result in results} == {"none"}
    for result in results:
        assert list(result["in_place"]) == ["cpu_time", "alg_bw", "bus_bw", "nwrong"]
        assert result["in_place"]["nwrong"] is None


def test_document_of_one_placement(programs: Programs) -> None:
    run_and_record(programs, "hypercube", "-t", 2, "--sizes", "64,1K", "--placement", "in", "-I", 1)
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
