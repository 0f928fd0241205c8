"""`busbw history`: trends of a measurement over time."""

import json
from pathlib import Path

import pytest
from conftest import Busbw, one_sentence
from kept_runs import add_run


@pytest.fixture
def kept(here: Path) -> Path:
    store = here / "busbw-records"
    for day in range(30):
        add_run(store, day, slower=1.25 if day >= 20 else 1, library="2" if day >= 20 else "1")
    return store


def test_a_change_with_its_time_and_differences(busbw: Busbw, kept: Path) -> None:
    done = busbw("history", "all_reduce")
    assert done.returncode == 0
    assert done.stderr == ""
    assert "all_reduce float sum out of place" in done.stdout
    assert "hosts vm, AMD EPYC, backend host" in done.stdout
    assert "speed in % of the usual" in done.stdout
    assert done.stdout.count("slower from 2026-01-21 12:00 on: run-0020") == 3
    assert "with library: host 1 -> host 2" in done.stdout


def test_few_runs_are_not_called_steady(busbw: Busbw, here: Path) -> None:
    for day in range(5):
        add_run(here / "busbw-records", day)
    done = busbw("history", "all_reduce")
    assert done.stdout.count("too few runs to detect a change") == 3
    assert "last run at 100.0% of the median of 5 runs" in done.stdout
    assert "no change" not in done.stdout


@pytest.mark.parametrize("columns", [80, 140])
def test_it_fits_the_width(busbw: Busbw, kept: Path, columns: int) -> None:
    done = busbw("history", "all_reduce", environment={"COLUMNS": str(columns)})
    assert max(map(len, done.stdout.splitlines())) <= columns


def break_data(folder: Path, *, sizes: int | None = None) -> None:
    """Writes a run with fast but wrong first sizes."""
    head, *rows = (json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines())
    for row in rows[:sizes]:
        row["time_us"] /= 10
        row["check"] |= {"state": "checked", "wrong_elements": 5}
    (folder / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in (head, *rows)))


def test_wrong_data_are_excluded(busbw: Busbw, here: Path) -> None:
    store = here / "busbw-records"
    for day in range(30):
        add_run(store, day)
    for number in range(20, 30):
        break_data(store / f"run-{number:04}", sizes=1)
    done = busbw("history", "all_reduce", "--no-plot")
    assert done.returncode == 0
    assert "10 measurements of 10 runs excluded: the data were wrong" in done.stderr
    assert "faster" not in done.stdout
    assert "30 runs" in done.stdout
    (trend,) = [json.loads(line) for line in busbw("history", "all_reduce", "--json").stdout.splitlines()]
    assert trend["changes"] == []
    assert trend["runs"][-1]["speed"]["latency"] is None


def test_only_wrong_data_is_no_trend(busbw: Busbw, here: Path) -> None:
    add_run(here / "busbw-records", 0)
    break_data(here / "busbw-records" / "run-0000")
    done = busbw("history", "all_reduce")
    assert done.returncode == 2
    assert "3 measurements of 1 run excluded" in done.stderr
    assert "all matching runs in busbw-records have wrong data" in done.stderr


def test_json(busbw: Busbw, kept: Path) -> None:
    (trend,) = [json.loads(line) for line in busbw("history", "all_reduce_perf", "--json").stdout.splitlines()]
    assert len(trend["runs"]) == 30
    assert {change["run"] for change in trend["changes"]} == {"run-0020"}
    assert {change["band"] for change in trend["changes"]} == {"latency", "middle", "plateau"}


def test_filters_choose_the_runs(busbw: Busbw, kept: Path) -> None:
    done = busbw("history", "all_reduce", "--until", "2026-01-20", "--sizes", "1M..", "--no-plot")
    assert "19 runs" in done.stdout
    assert "plateau (64 MiB): no change of level" in done.stdout
    assert "latency" not in done.stdout


@pytest.mark.parametrize("words", [["all_gather"], ["all_reduce", "--device", "H100"], ["all_reduce", "--since", "x"]])
def test_nothing_to_show_is_refused(busbw: Busbw, kept: Path, words: list[str]) -> None:
    done = busbw("history", *words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert one_sentence(done.stderr)
