"""The comparison with nccl-tests, as far as it takes no GPU: what to measure, verdicts, rounds, the page."""

import argparse
import importlib
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a script of bench/, which find each other by their folder."""
    monkeypatch.syspath_prepend(str(ROOT / "bench"))

    def load(name: str) -> ModuleType:
        return importlib.import_module(name)

    yield load
    for name in [name for name in sys.modules if name.startswith("gpu_")]:
        del sys.modules[name]


def row_of(ours: list[float], theirs: list[float], size: int = 1 << 20, **more: Any) -> dict[str, Any]:
    row = {"way": "g", "collective": "all_reduce", "size_bytes": size, "placement": "in_place"}
    return {**row, "busbw_us": ours, "nccl_tests_us": theirs, **more}


def test_a_measure_is_parsed(bench: Any) -> None:
    rounds = bench("gpu_parity")
    found = rounds.parse_comparisons("g,t:all_reduce,sendrecv:latency:2")
    assert [(each.launch_mode, each.collective) for each in found] == [
        *[("g", "all_reduce"), ("g", "sendrecv"), ("t", "all_reduce"), ("t", "sendrecv")]
    ]
    assert len(rounds.parse_comparisons("processes:all:plateau,large:1")) == 12
    for text in rounds.DEFAULT_COMPARISONS:
        assert rounds.parse_comparisons(text)


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
def test_an_invalid_measure_is_refused(bench: Any, text: str, said: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=said):
        bench("gpu_parity").parse_comparisons(text)


def test_rounds_alternate_which_side_begins(bench: Any) -> None:
    rounds = bench("gpu_parity")
    wanted = [
        *rounds.parse_comparisons("g:all_reduce,sendrecv:latency:3"),
        *rounds.parse_comparisons("t:all_reduce:large:1"),
    ]
    found = [(each.launch_mode, each.collective, theirs_first) for each, theirs_first in rounds.planned_rounds(wanted)]
    assert found == [
        ("g", "all_reduce", False),
        ("g", "sendrecv", True),
        ("t", "all_reduce", False),
        ("g", "all_reduce", True),
        ("g", "sendrecv", False),
        ("g", "all_reduce", False),
        ("g", "sendrecv", True),
    ]


STEADY = [100.0, 100.2, 99.8]


@pytest.mark.parametrize(
    ("size", "factor", "verdict"),
    [
        (1 << 20, 1.0, "met"),
        (1 << 20, 1.025, "met"),
        (1 << 20, 1.03, "cannot be told"),
        (1 << 20, 1.04, "not met"),
        (1 << 20, 0.96, "not met"),
        (512 << 10, 0.5, "met"),
        (512 << 10, 1.02, "cannot be told"),
        (512 << 10, 1.03, "not met"),
    ],
)
def test_verdicts_of_steady_rounds(bench: Any, size: int, factor: float, verdict: str) -> None:
    """From 1 MiB on within 3 %, below not above by more than 2 %."""
    row = row_of([value * factor for value in STEADY], STEADY, size)
    assert bench("gpu_parity_page").estimate_ratio(row).ratio == pytest.approx(factor)
    assert bench("gpu_parity_page").row_verdict(row) == verdict


def test_one_round_tells_nothing(bench: Any) -> None:
    row = row_of([100.0], [100.0])
    assert bench("gpu_parity_page").estimate_ratio(row).ratio == 1
    assert bench("gpu_parity_page").row_verdict(row) == "cannot be told"


def test_a_side_without_a_time_has_no_ratio(bench: Any) -> None:
    row = row_of([1.0, 1.0], [0.0, 1.0])
    assert bench("gpu_parity_page").estimate_ratio(row) is None
    assert bench("gpu_parity_page").row_verdict(row) == "cannot be told"


def test_the_median_over_sizes_is_taken_round_by_round(bench: Any) -> None:
    """A size of which more rounds were run has no more weight."""
    rows = [row_of([10.0, 10.1], [10.0, 10.0]), row_of([20.2, 20.2, 99.0], [20.0, 20.0, 20.0])]
    found = bench("gpu_parity_page").median_over_sizes(rows)
    assert found.ratio == pytest.approx((1.005 * 1.01) ** 0.5)
    low, high = found.interval
    assert low < 1.005
    assert high > 1.01
    assert bench("gpu_parity_page").median_over_sizes([row_of([1.0], [2.0])]).interval is None


def test_a_round_adds_to_its_rows(bench: Any) -> None:
    module = bench("gpu_parity")
    all_reduce, sendrecv = module.parse_comparisons("g:all_reduce,sendrecv:latency:1")
    kept = module.RowCollection()
    kept.add(all_reduce, {(8, "in_place"): [1.0]}, {(8, "in_place"): [2.0]})
    kept.add(all_reduce, {(8, "in_place"): [3.0, 9.0, 4.0], (0, "in_place"): [1.0]}, {(8, "in_place"): [5.0]})
    kept.add(sendrecv, {(16, "in_place"): [3.0]}, {(16, "in_place"): [5.0]})
    kept.add(all_reduce, {(4, "in_place"): [3.0]}, {(4, "in_place"): [5.0]})
    found = [(row["collective"], row["size_bytes"], row["busbw_us"]) for row in kept.rows()]
    assert found == [("all_reduce", 4, [3.0]), ("all_reduce", 8, [1.0, 4.0]), ("sendrecv", 16, [3.0])]
    assert kept.rows()[1]["nccl_tests_us"] == [2.0, 5.0]


def test_from_1_mib_on_both_programs_check_as_they_do_by_default(bench: Any) -> None:
    for flags in bench("gpu_parity").BANDS.values():
        first_size = flags[flags.index("-b") + 1]
        assert flags[flags.index("-c") + 1] == ("1" if first_size == "1M" else "0")


SCRIPT = """#!{python}
import sys
folder, name = {folder!r}, sys.argv[0].rpartition("/")[2]
with open(folder + "/calls.txt", "a") as calls:
    print(name, *sys.argv[1:], file=calls)
if name == "sendrecv_perf":
    sys.exit("no such GPU")
for size in (8, 16):
    print(size, 2, "float sum -1 10 1 1 N/A 10 1 1 N/A")
"""


def test_a_failed_comparison_is_left(bench: Any, tmp_path: Path) -> None:
    """A comparison that failed once is named and not tried again. The others go on."""
    module, programs = bench("gpu_parity"), bench("gpu_programs")
    for name in ("all_reduce", "sendrecv"):
        path = tmp_path / f"{name}_perf"
        path.write_text(SCRIPT.format(python=sys.executable, folder=str(tmp_path)))
        path.chmod(0o755)
    side = programs.NcclTests(tmp_path)
    kept = module.RowCollection()
    wanted = module.parse_comparisons("g:all_reduce,sendrecv:latency:2")
    sides = {"g": {"busbw": side, "nccl-tests": side}}
    (sentence,) = module.measure(wanted, sides, 2, module.BANDS, kept)
    assert "no such GPU" in sentence
    assert [len(row["busbw_us"]) for row in kept.rows()] == [2] * 4
    calls = (tmp_path / "calls.txt").read_text()
    assert calls.count("sendrecv_perf") == 1
    assert calls.count("all_reduce_perf -g 2 -f 2 -b 8 -e 512K ") == 4


def test_parity_page(bench: Any) -> None:
    page = bench("gpu_parity_page").as_page(
        {
            "provenance": {
                "machine": "4 x GPU",
                "date": "2026-11-21",
                "busbw": "0.1.0",
                "facts": {"nccl_version": "2.28.9", "driver": "580.1"},
                "environment": {"NCCL_NVLS_ENABLE": "0", "NCCL_VERSION": "2.28.3-1"},
            },
            "gpus": 4,
            "their_processes": "threads, -t",
            "rows": [row_of([9.0], [10.0], 1024), row_of([20.0, 20.0, 20.0], [20.0, 20.0, 20.0])],
            "left_out": ["round 3"],
        }
    )
    assert page.splitlines()[0] == (
        "# busbw compared with nccl-tests: 4 x GPU, 2026-11-21, busbw 0.1.0, NCCL 2.28.9, driver 580.1, "
        "NCCL_NVLS_ENABLE=0"
    )
    for line in (
        "| g | all_reduce | 1 MiB and above | 3 | 1.000 (1.000 to 1.000) | met | 1 met | 1.00 | 1.00 "
        "| 1.000 (1M in place) | 1.000 (1M in place) |",
        "| g | all_reduce | below 1 MiB | 1 | 0.900 | - | 1 cannot be told | - | - "
        "| 0.900 (1K in place) | 0.900 (1K in place) |",
        bench("gpu_parity_page").CHECK_NOTE.splitlines()[0],
        "Left out (1): round 3",
        "| g | all_reduce | 1M | 3 | 20.00 | 20.00 | 1.000 (1.000 to 1.000) | met |",
    ):
        assert line in page.splitlines()


def test_results_stay_if_nothing_was_measured(bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = bench("gpu_parity")

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "provenance", lambda *_: {})
    monkeypatch.setattr(module, "run", interrupted)
    (tmp_path / "x.md").write_text("good")
    words = ["--programs", "a", "--nccl-tests", "b", "--gpus", "4"]
    monkeypatch.setattr(sys, "argv", ["x", *words, "--results", str(tmp_path / "x")])
    assert module.main() == 130
    assert [path.name for path in tmp_path.iterdir()] == ["x.md"]
    assert (tmp_path / "x.md").read_text() == "good"


def test_an_interrupt_writes_the_results(bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, runs = bench("gpu_parity"), []

    def run(command: list[str], _timeout_s: float) -> str:
        runs.append(command)
        if len(runs) > 2:
            raise KeyboardInterrupt
        return f"8 2 float sum -1 1 1 1 N/A {len(runs)} 1 1 N/A"

    facts = {"machine": "4 x H200", "date": "2026-11-22", "busbw": "0.1.0", "facts": {}}
    monkeypatch.setattr(module, "provenance", lambda *_: facts)
    monkeypatch.setattr(module, "run", run)
    words = ["--programs", "a", "--nccl-tests", "b", "--gpus", "4"]
    monkeypatch.setattr(sys, "argv", ["x", *words, "--results", str(tmp_path / "x")])
    assert module.main() == 130
    assert "interrupted" in (tmp_path / "x.md").read_text()
    row, _ = json.loads((tmp_path / "x.json").read_text())["rows"]
    assert (row["placement"], row["busbw_us"], row["nccl_tests_us"]) == ("in_place", [1.0], [2.0])
