"""The benchmarks on GPUs, as far as they need none: reading both programs' tables, ratios, spreads, pages."""

import argparse
import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a script of bench/, which find each other by their folder."""
    monkeypatch.syspath_prepend(str(ROOT / "bench"))

    def load(name: str) -> ModuleType:
        sys.modules.pop(name, None)
        return importlib.import_module(name)

    return load


def test_both_placements_of_every_row(bench: Any) -> None:
    found = bench("gpu_programs").times_us((GOLDEN / "nccl_tests_2_19_6_single.txt").read_text())
    assert found
    assert {placement for _, placement in found} == {"out_of_place", "in_place"}
    assert all(time_us > 0 for time_us in found.values())


def test_a_blank_operator_moves_no_column(bench: Any) -> None:
    row = " 1048576   65536   float           -1   21.07   49.77   37.33   N/A   20.50   51.15   38.36   N/A"
    found = bench("gpu_programs").times_us(f"# size count\n{row}\n# Avg\n")
    assert found == {(1048576, "out_of_place"): 21.07, (1048576, "in_place"): 20.50}


@pytest.mark.parametrize(("size", "text"), [(8, "8"), (1024, "1K"), (3 << 20, "3M"), (16 << 30, "16G"), (1500, "1500")])
def test_sizes(bench: Any, size: int, text: str) -> None:
    assert bench("gpu_programs").size_text(size) == text


def test_commands_of_both_sides(bench: Any) -> None:
    programs = bench("gpu_programs")
    flags = ["-b", "8"]
    ours = programs.Ours(Path("/a"))
    assert ours.command("all_reduce", ["-g", "4"], flags) == [
        *["/a/all_reduce_perf", "-g", "4", "-b", "8", "--backend", "nccl"]
    ]
    theirs = programs.NcclTests(Path("/b"))
    assert theirs.command("all_reduce", ["--processes", "4"], flags)[1:] == ["-t", "4", "-g", "1", "-b", "8"]
    under_mpi = programs.NcclTests(Path("/b"), ("mpirun", "--oversubscribe"))
    assert under_mpi.command("all_reduce", ["--processes", "4"], flags) == [
        *["mpirun", "--oversubscribe", "-np", "4", "/b/all_reduce_perf", "-g", "1", "-b", "8"]
    ]


def test_multicast_stays_off_unless_asked_for(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = bench("gpu_programs")
    monkeypatch.delenv("NCCL_NVLS_ENABLE", raising=False)
    assert programs.environment()["NCCL_NVLS_ENABLE"] == "0"
    monkeypatch.setenv("NCCL_NVLS_ENABLE", "1")
    assert programs.environment()["NCCL_NVLS_ENABLE"] == "1"


def test_names_in_place_of_paths(bench: Any) -> None:
    record = {"args": ["/a/all_reduce_perf", "-b", "8"], "machine": {"library": "/b/libnccl.so.2", "cpus": 4}}
    assert bench("gpu_programs").without_paths(record) == {
        "args": ["all_reduce_perf", "-b", "8"],
        "machine": {"library": "libnccl.so.2", "cpus": 4},
    }


def test_ratio_and_spread(bench: Any) -> None:
    parity = bench("gpu_parity")
    assert parity.ratio_of([2.0, 9.0, 1.0], [4.0]) == 0.5
    assert parity.ratio_of([2.0], [0.0]) is None
    spread = parity.spread_of([10.0, 11.0, 12.0])
    assert spread["range_percent"] == pytest.approx(200 / 11)
    assert spread["stdev_percent"] == pytest.approx(100 / 11)


def test_a_budget_that_is_spent_names_what_it_left_out(bench: Any) -> None:
    parity = bench("gpu_parity")
    assert parity.Budget(1000).allows("this")
    spent = parity.Budget(0)
    assert not spent.allows("that")
    assert spent.left_out == ["that"]


def test_what_to_measure(bench: Any) -> None:
    parity = bench("gpu_parity")
    found = parity.measures("g,t:all_reduce,sendrecv:latency:2")
    assert [(each.way, each.collective) for each in found] == [
        *[("g", "all_reduce"), ("g", "sendrecv"), ("t", "all_reduce"), ("t", "sendrecv")]
    ]
    assert len(parity.measures("processes:all:small,large:1")) == 12
    for text in parity.MEASURE:
        assert parity.measures(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("g:all:latency", "expected WAYS:COLLECTIVES:BANDS:ROUNDS"),
        ("g:all:latency:0", "expected WAYS:COLLECTIVES:BANDS:ROUNDS"),
        ("h:all:latency:1", "h: allowed are g, t, processes"),
        ("g:reduce:latency:1", "reduce: allowed are all_reduce, "),
        ("g:all:huge:1", "huge: allowed are latency, "),
    ],
)
def test_what_cannot_be_measured(bench: Any, text: str, said: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=said):
        bench("gpu_parity").measures(text)


def test_rounds_alternate_which_side_begins(bench: Any) -> None:
    parity = bench("gpu_parity")
    wanted = [*parity.measures("g:all_reduce,sendrecv:latency:3"), *parity.measures("t:all_reduce:large:1")]
    found = [(turn, each.way, each.collective, theirs_first) for turn, each, theirs_first in parity.turns(wanted)]
    assert found == [
        (0, "g", "all_reduce", False),
        (0, "g", "sendrecv", True),
        (0, "t", "all_reduce", False),
        (1, "g", "all_reduce", True),
        (1, "g", "sendrecv", False),
        (2, "g", "all_reduce", False),
        (2, "g", "sendrecv", True),
    ]


def test_parity_page(bench: Any) -> None:
    row = {"way": "g", "collective": "all_reduce", "placement": "in_place"}
    page = bench("gpu_parity_page").as_page(
        {
            "provenance": {
                "machine": "4 x GPU",
                "date": "2026-11-21",
                "busbw": "0.1.0",
                "facts": {"nccl_version": "2.28.9", "driver": "580.1"},
            },
            "gpus": 4,
            "notes": ["One run each."],
            "their_processes": "threads, -t",
            "rows": [
                {**row, "size_bytes": 1024, "busbw_us": [9.0], "nccl_tests_us": [10.0], "ratio": 0.9},
                {**row, "size_bytes": 1 << 20, "busbw_us": [20.0, 20.2], "nccl_tests_us": [20.0, 20.0], "ratio": 1.005},
            ],
            "wall_s": {"busbw": [6.04], "nccl-tests": []},
            "repeatability": [
                {"what": "busbw: median", "size_bytes": 1024, "runs": 10, "median_us": 9.0}
                | {"range_percent": 1.25, "stdev_percent": 0.5}
            ],
            "left_out": ["round 3"],
        }
    )
    assert page.startswith("# busbw beside nccl-tests: 4 x GPU, 2026-11-21, busbw 0.1.0, NCCL 2.28.9, driver 580.1\n")
    for line in (
        "| g | all_reduce | 1 MiB and above | 2 | 1.005 | 1.005 | 1.005 | 1.000 | 1.01 | 1.00 |",
        "| g | all_reduce | below 1 MiB | 1 | 0.900 | 0.900 | 0.900 | 0.900 | - | - |",
        "One run each.",
        "- busbw: 6.0",
        "- nccl-tests: not measured",
        "| 1K | busbw: median | 10 | 9.00 | 1.25 % | 0.50 % |",
        "Left out (1): round 3",
        "| g | all_reduce | 1M | in place | 2 | 20.10 | 20.00 | 1.005 |",
    ):
        assert line in page.splitlines()


def test_tables_leave_out_what_is_missing(bench: Any) -> None:
    tables = bench("gpu_tables")
    rows = {
        "all_reduce": {(1 << 20, "out_of_place"): {"algbw_gbps": 50.126}},
        "hypercube": {(4 << 20, "out_of_place"): {"algbw_gbps": None}},
    }
    assert tables.ten(rows)[2:] == [
        "| size | all_reduce | hypercube |",
        "| ---: | ---: | ---: |",
        "| 1M | 50.13 |  |",
        "| 4M |  |  |",
    ]


@pytest.mark.parametrize("known", [False, True])
def test_half_shows_device_time_where_there_is_one(bench: Any, known: bool) -> None:
    row = {"time_us": 9.5, "device_time_us": 8.25} if known else {"time_us": 9.5}
    lines = bench("gpu_tables").half({"all_gather": {(1024, "in_place"): row}})
    assert lines[2] == (
        "| size | all_gather time | all_gather device time |" if known else "| size | all_gather time |"
    )
    assert lines[-1] == ("| 1K | 9.50 | 8.25 |" if known else "| 1K | 9.50 |")
