"""Records with figures that no measurement has: the measurement is refused by name, and the others stay."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from busbw import readers
from busbw.cli.main import main

GOLDEN = Path(__file__).resolve().parents[3] / "golden" / "records.jsonl"
ROW = 2
"""The line, from 0, of the first measurement: 8 B, out of place."""

Change = Callable[[dict[str, Any]], object]


def changed(folder: Path, change: Change) -> Path:
    lines = GOLDEN.read_text().splitlines()
    row = json.loads(lines[ROW])
    change(row)
    lines[ROW] = json.dumps(row)
    path = folder / "records.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path


IMPLAUSIBLE: dict[str, Change] = {
    "time_us": lambda row: row.update(time_us=-5),
    "busbw_gbps": lambda row: row.update(busbw_gbps=1e308),
    "algbw_gbps": lambda row: row.update(algbw_gbps=5e-324),
    "size_bytes": lambda row: row.update(size_bytes=10**400),
    "count": lambda row: row.update(count=1 << 63),
    "ranks": lambda row: row.update(ranks=1 << 64),
    "wrong_elements": lambda row: row["check"].update(wrong_elements=-1),
    "samples": lambda row: row["stats"].update(samples=1 << 63),
    "p99_us": lambda row: row["stats"].update(p99_us=-1),
    "median_ci95_low_us": lambda row: row["stats"].update(median_ci95_us=[-1, 5]),
    "median_us": lambda row: row["stats"].update(max_us=0),
    "samples_us has": lambda row: row["samples_us"][1].pop(),
    "samples_us cannot": lambda row: row["samples_us"][1].append(row["samples_us"][0].append(1e308) or 1.0),
}

SHARED = ("count", "ranks")
"""Refused once for both placements of a row."""


@pytest.mark.parametrize("name", IMPLAUSIBLE)
def test_an_implausible_measurement_is_refused_and_the_others_stay(name: str, tmp_path: Path) -> None:
    path = changed(tmp_path, IMPLAUSIBLE[name])
    whole, log = readers.read(GOLDEN), readers.read(path)
    assert [refusal.line for refusal in log.refused] == [ROW + 1]
    assert name in log.refused[0].reason
    assert len(log.refused[0].reason) < 80
    lost = 2 if name in SHARED else 1
    assert sum(len(row.figures) for row in log.rows) == sum(len(row.figures) for row in whole.rows) - lost
    wrong = [figure.wrong_elements for row in log.rows for figure in row.figures.values()]
    assert (5 in wrong) == (name not in SHARED)  # the in-place figure of the same size


@pytest.mark.parametrize("name", IMPLAUSIBLE)
@pytest.mark.parametrize("command", ["show", "check", "report -o -", "export markdown", "compare"])
def test_every_command_handles_it(name: str, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(changed(tmp_path, IMPLAUSIBLE[name]))
    others = [str(GOLDEN)] if command == "compare" else []
    code = main([*command.split(), path, *others])
    shown = capsys.readouterr()
    assert code in (0, 1, 2, 3, 5)
    assert shown.err if code == 2 else shown.out


@pytest.mark.parametrize(
    "change",
    [
        lambda row: row.update(time_us=0, algbw_gbps=None, busbw_gbps=None),
        lambda row: row.update(algbw_gbps=1e-10, busbw_gbps=1.5e-10),
        lambda row: row["stats"].update(stdev_us=3e-17, cv_percent=2e-16),
    ],
    ids=["zero", "slow", "steady"],
)
def test_unlikely_figures_are_accepted(change: Change, tmp_path: Path) -> None:
    log = readers.read(changed(tmp_path, change))
    assert log.refused == ()
    assert len(log.rows) == len(readers.read(GOLDEN).rows)


@pytest.mark.parametrize(
    "change",
    [
        {"max_us": 0.0},
        {"min_us": -1.0},
        {"per_process_max_times_us": [[12.0, 16.0], [8.0]]},
        {"per_process_max_times_us": [[-12.0], [-8.0]]},
    ],
)
def test_implausible_statistics_of_a_document_are_left_out(
    change: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    document = json.loads((GOLDEN.parent / "nccl_tests.json").read_text())
    document["results"][0]["out_of_place_per_iter"] |= change
    Path("log.json").write_text(json.dumps(document))
    figures = readers.read(Path("log.json")).rows[0].figures
    assert figures["out_of_place"].stats is None
    assert figures["in_place"].stats is not None
    assert main(["report", "log.json", "-o", "report.html"]) == 0


def test_a_refused_placement_leaves_no_statistics_to_the_next_row(tmp_path: Path) -> None:
    """Two entries of one row: the first has an invalid out of place, the second has only this placement."""
    document = json.loads((GOLDEN.parent / "nccl_tests.json").read_text())
    first = document["results"][0]
    second = json.loads(json.dumps(first))
    first["out_of_place"]["nwrong"] = -1
    del second["in_place"], second["out_of_place_per_iter"]
    document["results"] = [first, second]
    path = tmp_path / "log.json"
    path.write_text(json.dumps(document))
    (row,) = readers.read(path).rows
    assert row.figures["in_place"].stats is not None
    assert row.figures["out_of_place"].stats is None
    assert row.figures["out_of_place"].samples_us == ()
