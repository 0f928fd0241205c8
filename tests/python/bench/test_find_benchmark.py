"""The accuracy benchmark of `busbw find`: can it be interrupted, resumed and joined?"""

import importlib
import math
from pathlib import Path
from typing import Any

import msgspec
import pytest

BENCH = Path(__file__).resolve().parents[3] / "bench"


@pytest.fixture
def find(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("find")


def test_an_interrupted_last_line_is_removed_so_that_new_results_can_follow(find: Any, tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    line = msgspec.json.encode(score(find, seed=1)) + b"\n"
    path.write_bytes(line + line[:20])
    assert [one.seed for one in find.read_scores(path)] == [1]
    assert path.read_bytes() == line


def test_the_largest_clusters_are_measured_first_and_nothing_after_the_limit(find: Any, tmp_path: Path) -> None:
    cases = [find.Case("find", "nic", 2.0, nodes, seed) for seed in (1, 2) for nodes in (2, 4)]
    path = tmp_path / "results.jsonl"
    scores = list(find.measure_all(cases, path, 1, math.inf))
    assert [(one.nodes, one.seed) for one in scores] == [(4, 1), (4, 2), (2, 1), (2, 2)]
    assert find.read_scores(path) == scores
    assert not list(find.measure_all(cases, path, 1, 0))


def test_a_page_joins_files_without_measuring(find: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for seed, path in enumerate(paths):
        path.write_bytes(msgspec.json.encode(score(find, seed=find.FIRST_VALIDATION_SEED + seed)) + b"\n")
    page = tmp_path / "page.md"
    speed = "`busbw find --simulate 1024x8 --fault nic:3/5:2.0` takes 4 s"
    page.write_text(speed)
    options = ["--page-only", "--page", str(page), "--results", *map(str, paths)]
    monkeypatch.setattr("sys.argv", ["find.py", *options])
    assert find.main() == 0
    assert "| nic | 2 | 2 | 50 |" in page.read_text()
    assert speed in page.read_text()


def score(find: Any, seed: int) -> Any:
    return find.Score(
        method="find",
        fault="nic",
        slowdown=2.0,
        nodes=4,
        seed=seed,
        result="missed" if seed % 2 else "right",
        rounds=30,
        simulated_s=1.0,
        real_s=0.1,
        names=[],
        truth=[],
    )
