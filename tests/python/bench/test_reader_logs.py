"""The logs that bench/readers.py measures are read completely, and its tables have a row per log."""

import importlib
from pathlib import Path
from typing import Any

import pytest

from busbw import readers

BENCH = Path(__file__).resolve().parents[3] / "bench"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("readers")


def test_the_logs_are_read_completely(bench: Any, tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    for kind in bench.LOGS:
        bench.write_log(path, kind, 0.05)
        log = readers.read(path)
        assert {(table.collective, table.ranks) for table in log.tables} == {("all_reduce", 4)}, kind
        assert log.row_count == log.candidate_rows > 10, kind
        warnings = {*log.warnings, *(warning for table in log.tables for warning in table.warnings)}
        assert warnings <= {"-f 1: steps of 1048576 bytes (-i) are used"}, kind  # a note of the golden record


def test_tables_have_a_row_per_log_and_a_column_per_task(bench: Any) -> None:
    measurements = [
        bench.Measurement("a", "check", speed=1.26, peak_mib=60),
        bench.Measurement("a", "show", speed=2, peak_mib=70),
        bench.Measurement("b", "check", speed=3, peak_mib=80),
        bench.Measurement("b", "show", speed=4, peak_mib=90),
    ]
    assert bench.tables_text(measurements).splitlines()[:4] == [
        "| MB per CPU s | check | show |",
        "| --- | ---: | ---: |",
        "| a | 1.3 | 2.0 |",
        "| b | 3.0 | 4.0 |",
    ]
