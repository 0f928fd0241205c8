"""The table of `make bench`: does it say which targets were missed?"""

import importlib
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).resolve().parents[3] / "bench"


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("bench").as_table


def results(**worse: float) -> dict[str, Any]:
    found = {"ratio": 1.03, "first_row_ms": 100.0, "compare": 0.5, "share": 0.02, "beside": 1.0} | worse
    return {
        "machine": "2 x a processor",
        "date": "2026-11-23",
        "version": "0.1.0",
        "overhead": {
            "engine_us": 0.3,
            "bare_us": 0.3,
            "engine_us_min": 0.3,
            "bare_us_min": 0.3,
            "ratio_median": found["ratio"],
            "ratio_quartiles": [0.9, 1.1],
            "rounds": 31,
        },
        "startup": {"rounds": 9, "first_row_ms_median": found["first_row_ms"]},
        "check_speed": {"compare_gbps": 1.0, "read_gbps": 2.0, "compare_over_read_median": found["compare"]},
        "output_cost": {"output_s": 0.02, "measured_s": 1.0, "share": found["share"]},
        "open_mpi": {
            "peer": "an MPI",
            "sizes": [{"size_bytes": 1024, "busbw_us": 1.0, "open_mpi_us": 1.0, "ratio_median": found["beside"]}],
        },
    }


def test_targets_that_are_just_met(table: Any) -> None:
    assert "missed" not in table(results())


@pytest.mark.parametrize(
    ("figure", "value", "said"),
    [
        ("ratio", 1.031, "at most 1.03"),
        ("first_row_ms", 100.1, "at most 100 ms"),
        ("compare", 0.49, "at least 0.5"),
        ("share", 0.021, "at most 2 %"),
        ("beside", 1.001, "at most 1"),
    ],
)
def test_a_missed_target_is_marked(table: Any, figure: str, value: float, said: str) -> None:
    text = table(results(**{figure: value}))
    assert text.count("**missed**") == 1
    assert f"| {said}: **missed** |" in text
