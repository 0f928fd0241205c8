"""The comparison with nccl-tests, as far as it takes no GPU: what to measure, verdicts, more rounds, the page."""

import argparse
import importlib
import json
import sys
from dataclasses import replace
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


def test_spread(bench: Any) -> None:
    spread = bench("gpu_parity").spread_of([10.0, 11.0, 12.0])
    assert spread["range_percent"] == pytest.approx(200 / 11)
    assert spread["stdev_percent"] == pytest.approx(100 / 11)


def test_a_budget_that_is_spent_names_what_it_left_out(bench: Any) -> None:
    rounds = bench("gpu_parity_rounds")
    assert rounds.Budget(1000).allows("this", 900)
    short = rounds.Budget(1000)
    assert not short.allows("that", 1001)
    assert short.left_out == ["that"]


def test_a_measure_is_parsed(bench: Any) -> None:
    rounds = bench("gpu_parity_rounds")
    found = rounds.parse_comparisons("g,t:all_reduce,sendrecv:latency:2")
    assert [(each.launch_mode, each.collective) for each in found] == [
        *[("g", "all_reduce"), ("g", "sendrecv"), ("t", "all_reduce"), ("t", "sendrecv")]
    ]
    assert len(rounds.parse_comparisons("processes:all:plateau,large:1")) == 12
    for text in bench("gpu_parity").DEFAULT_COMPARISONS:
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
        bench("gpu_parity_rounds").parse_comparisons(text)


def test_rounds_alternate_which_side_begins(bench: Any) -> None:
    rounds = bench("gpu_parity_rounds")
    wanted = [
        *rounds.parse_comparisons("g:all_reduce,sendrecv:latency:3"),
        *rounds.parse_comparisons("t:all_reduce:large:1"),
    ]
    found = [
        (turn, each.launch_mode, each.collective, theirs_first)
        for turn, each, theirs_first in rounds.planned_rounds(wanted)
    ]
    assert found == [
        (0, "g", "all_reduce", False),
        (0, "g", "sendrecv", True),
        (0, "t", "all_reduce", False),
        (1, "g", "all_reduce", True),
        (1, "g", "sendrecv", False),
        (2, "g", "all_reduce", False),
        (2, "g", "sendrecv", True),
    ]


@pytest.mark.parametrize(("size", "power"), [(8, 8), (48, 64), (64, 64), (1048560, 1 << 20), (1 << 33, 1 << 33)])
def test_sizes_of_the_table_were_asked_for_as_powers_of_two(bench: Any, size: int, power: int) -> None:
    assert bench("gpu_parity_rounds").requested_size(size) == power


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
    found = bench("gpu_parity_verdict").evaluate_row(row_of([value * factor for value in STEADY], STEADY, size))
    assert found.by_median.ratio == pytest.approx(factor)
    assert found.verdict() == verdict


def test_one_round_tells_nothing(bench: Any) -> None:
    found = bench("gpu_parity_verdict").evaluate_row(row_of([100.0], [100.0]))
    assert found.by_median.ratio == 1
    assert (found.verdict(), found.minimum_verdict()) == ("cannot be told", "cannot be told")


def test_a_side_without_a_time_has_no_ratio(bench: Any) -> None:
    found = bench("gpu_parity_verdict").evaluate_row(row_of([1.0, 1.0], [0.0, 1.0]))
    assert (found.by_median, found.by_minimum) == (None, None)
    assert found.verdict() == "cannot be told"


def test_the_minimums_decide_between_two_launch_speeds(bench: Any) -> None:
    """The medians are of how much of a run was slow; the least of each run are of the fast mode in both programs."""
    ours, theirs = [37.0, 25.2, 36.5, 25.0], [25.1, 25.3, 37.2, 36.9]
    least = {"busbw_least_us": [25.0, 24.9, 25.1, 24.9], "nccl_tests_least_us": [25.0, 25.1, 24.8, 25.0]}
    found = bench("gpu_parity_verdict").evaluate_row(row_of(ours, theirs, 1024, **least))
    assert found.verdict() == "cannot be told"
    assert found.by_median.low < 0.8
    assert found.by_minimum.ratio == pytest.approx(24.9 / 24.8)
    assert found.minimum_verdict() == "met"


def test_a_single_fast_run_does_not_decide(bench: Any) -> None:
    """Without it among the rounds drawn, the least would be another: the interval is wide."""
    found = bench("gpu_parity_verdict").evaluate_row(row_of([25.0, 37.0, 37.0, 37.0], [25.0, 25.0, 25.0, 25.0], 1024))
    assert found.by_minimum.ratio == 1
    assert found.by_minimum.high > 1.4
    assert found.minimum_verdict() == "cannot be told"


def test_the_median_over_sizes_is_taken_round_by_round(bench: Any) -> None:
    """A size of which more rounds were run has no more weight."""
    rows = [row_of([10.0, 10.1], [10.0, 10.0]), row_of([20.2, 20.2, 99.0], [20.0, 20.0, 20.0])]
    found = bench("gpu_parity_verdict").median_over_sizes(rows)
    assert found.ratio == pytest.approx((1.005 * 1.01) ** 0.5)
    assert found.low < 1.005
    assert found.high > 1.01
    assert bench("gpu_parity_verdict").median_over_sizes([row_of([1.0], [2.0])]).low is None


def test_a_round_adds_to_its_rows(bench: Any) -> None:
    kept = bench("gpu_parity_rounds").RowCollection([row_of([1.0], [2.0], 8)])
    kept.add("g", "all_reduce", {(8, "in_place"): [3.0, 9.0, 4.0], (0, "in_place"): [1.0]}, {(8, "in_place"): [5.0]})
    kept.add("g", "sendrecv", {(16, "in_place"): [3.0]}, {(16, "in_place"): [5.0]})
    kept.add("g", "all_reduce", {(4, "in_place"): [3.0]}, {(4, "in_place"): [5.0]})
    found = [(row["collective"], row["size_bytes"], row["busbw_us"]) for row in kept.rows()]
    assert found == [("all_reduce", 4, [3.0]), ("all_reduce", 8, [1.0, 4.0]), ("sendrecv", 16, [3.0])]
    assert kept.rows()[0]["busbw_least_us"] == [3.0]
    assert kept.rows()[1]["nccl_tests_us"] == [2.0, 5.0]


def test_undecided_sizes_are_one_range(bench: Any) -> None:
    rounds = bench("gpu_parity_rounds")
    (measure,) = rounds.parse_comparisons("g:all_reduce:large:2")
    wide = [90.0, 110.0, 100.0]
    rows = [row_of(STEADY, STEADY, 128 << 20), row_of(wide, STEADY, 512 << 20), row_of(wide, STEADY, (1 << 30) - 16)]
    found, nearness = rounds.RowCollection(rows).undecided(measure, trial=False)
    assert found.sizes == (512 << 20, 1 << 30)
    assert found.flags(trial=False)[:4] == ["-b", str(512 << 20), "-e", str(1 << 30)]
    assert 0 < nearness < 1
    assert rounds.RowCollection(rows[:1]).undecided(measure, trial=False) is None
    (plateau,) = rounds.parse_comparisons("g:all_reduce:plateau:2")
    assert rounds.RowCollection(rows).undecided(plateau, trial=False) is None


def test_from_1_mib_on_both_programs_check_as_they_do_by_default(bench: Any) -> None:
    rounds = bench("gpu_parity_rounds")
    for name, band in rounds.BANDS.items():
        (measure,) = rounds.parse_comparisons(f"g:all_reduce:{name}:1")
        flags = measure.flags(trial=False)
        assert flags[flags.index("-c") + 1] == ("1" if band.first >= 1 << 20 else "0")
        assert (band.first >= 1 << 20) == (band.last >= 1 << 20)
    assert (rounds.BANDS["large"].first, rounds.BANDS["large"].last) == (1 << 20, 8 << 30)
    assert replace(measure, factor=4).flags(trial=False)[4:6] == ["-f", "4"]


SCRIPT = """#!{python}
import sys
folder, name = {folder!r}, sys.argv[0].rpartition("/")[2]
with open(folder + "/calls.txt", "a") as calls:
    print(name, *sys.argv[1:], file=calls)
if name == "sendrecv_perf":
    sys.exit("no such GPU")
flags = dict(zip(sys.argv[1::2], sys.argv[2::2]))
size, last = int(flags["-b"]), int(flags["-e"])
seed = len(open(folder + "/calls.txt").readlines())
while size <= last:
    time_us = 10 * (1 + seed % 5 / 10 if size == {noisy} else 1)
    print(size, 2, "float sum -1", time_us, "1 1 N/A", time_us, "1 1 N/A")
    size *= 2
"""


@pytest.fixture
def stand_in(tmp_path: Path) -> Any:
    """Programs that print rows at once, of which those of one size scatter."""

    def make(noisy: int) -> Path:
        for name in ("all_reduce", "sendrecv"):
            path = tmp_path / f"{name}_perf"
            path.write_text(SCRIPT.format(python=sys.executable, folder=str(tmp_path), noisy=noisy))
            path.chmod(0o755)
        return tmp_path

    return make


class Seconds:
    """A budget of so many rounds, each of which is expected to take no time."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self.left_out: list[str] = []

    def has(self, _: float) -> bool:
        self.rounds -= 1
        return self.rounds >= 0

    def allows(self, what: str, _: float) -> bool:
        if self.has(0):
            return True
        self.left_out.append(what)
        return False


def test_more_rounds_go_to_noisy_sizes(bench: Any, stand_in: Any) -> None:
    rounds, programs = bench("gpu_parity_rounds"), bench("gpu_programs")
    folder = stand_in(1 << 20)
    side = programs.NcclTests(folder)
    kept = rounds.RowCollection()
    budget = Seconds(7)
    work = rounds.Rounds({"g": {"busbw": side, "nccl-tests": side}}, 2, budget, kept, trial=False)
    wanted = rounds.parse_comparisons("g:all_reduce,sendrecv:plateau:2")
    work.run_planned(wanted)
    assert [len(row["busbw_us"]) for row in kept.rows()] == [2] * 14
    assert [said for said in budget.left_out if "no such GPU" in said]
    assert (folder / "calls.txt").read_text().count("sendrecv_perf") == 1  # what failed is not tried again
    more = work.run_undecided(wanted)
    assert more == 4
    assert [len(row["busbw_us"]) for row in kept.rows()] == [6, 6] + [2] * 12
    (last,) = (folder / "calls.txt").read_text().splitlines()[-1:]
    assert last.startswith("all_reduce_perf -g 2 -b 1048576 -e 1048576 -f 2 ")


def test_rounds_are_merged_only_for_an_equal_machine(bench: Any) -> None:
    differences = bench("gpu_parity").find_differences
    provenance = {"machine": "4 x GPU", "busbw": "0.1.0", "facts": {"driver": "580.1", "cpus": 4}}
    now = {"provenance": provenance, "gpus": 4, "their_processes": "threads, -t"}
    before = json.loads(json.dumps(now))
    before["provenance"]["facts"]["cpus"] = 8
    assert differences(before, now) == []
    before["provenance"]["facts"]["driver"] = "570.1"
    before["gpus"] = 2
    now["large_flags"] = ["-c", "1"]
    assert differences(before, now) == ["driver", "gpus", "large_flags"]


def test_whether_a_program_agrees_with_itself(bench: Any) -> None:
    """By the limit of the size: 3 % from 1 MiB on, 2 % below."""
    agrees = bench("gpu_parity_verdict").agrees_with_itself
    assert agrees([100.0, 102.5, 101.0], 1 << 20)
    assert agrees([100.0, 102.5], 1 << 10) is False
    assert agrees([100.0], 1 << 10) is agrees([0.0, 1.0], 1 << 10) is None
    rows = [row_of([1.0], times) for times in ([100.0, 101.0], [100.0, 110.0], [100.0])]
    assert bench("gpu_parity_page").agreement_text(rows, "nccl_tests_us") == "1 of 2"


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
            "notes": ["One run each."],
            "their_processes": "threads, -t",
            "large_flags": ["-c", "1"],
            "rows": [row_of([9.0], [10.0], 1024), row_of([20.0, 20.0, 20.0], [20.0, 20.0, 20.0])],
            "wall_s": {"busbw": [6.04], "nccl-tests": []},
            "repeatability": [
                {"what": "busbw: median", "size_bytes": 1024, "runs": 10, "median_us": 9.0}
                | {"range_percent": 1.25, "stdev_percent": 0.5, "values_us": [8.9, 9.1]}
            ],
            "left_out": ["round 3"],
        }
    )
    assert page.splitlines()[0] == (
        "# busbw compared with nccl-tests: 4 x GPU, 2026-11-21, busbw 0.1.0, NCCL 2.28.9, driver 580.1, "
        "NCCL_NVLS_ENABLE=0"
    )
    for line in (
        "| g | all_reduce | 1 MiB and above | 3 | 1.000 (1.000 to 1.000) | met | 1 met | 1.000 | 1 met | 1.00 | 1.00 "
        "| 1 of 1 | 1.000 (1M in place) | 1.000 (1M in place) |",
        "| g | all_reduce | below 1 MiB | 1 | 0.900 | - | 1 cannot be told | 0.900 | 1 cannot be told | - | - | - "
        "| 0.900 (1K in place) | 0.900 (1K in place) |",
        bench("gpu_parity_page").CHECK_NOTE.splitlines()[0],
        "One run each.",
        "- busbw: 6.0",
        "- nccl-tests: not measured",
        "| 1K | busbw: median | 10 | 9.00 | 8.90 | 9.10 | 1.25 % | 0.50 % |",
        "Left out (1): round 3",
        "| g | all_reduce | 1M | in place | 3 | 20.00 | 20.00 "
        "| 1.000 (1.000 to 1.000) | met | 1.000 (1.000 to 1.000) | met |",
    ):
        assert line in page.splitlines()


@pytest.mark.parametrize(
    ("budget_s", "is_interrupted", "code"), [("0", False, 3), ("nan", False, 3), ("-1", False, 3), ("300", True, 130)]
)
def test_results_stay_if_nothing_was_measured(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, budget_s: str, is_interrupted: bool, code: int
) -> None:
    module = bench("gpu_parity")

    def interrupted(*_: Any) -> None:
        assert is_interrupted
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "provenance", lambda *_: {})
    monkeypatch.setattr(module, "run", interrupted)
    (tmp_path / "x.md").write_text("good")
    words = ["--programs", "a", "--nccl-tests", "b", "--gpus", "4", "--parts", "wall,spread,parity"]
    monkeypatch.setattr(sys, "argv", ["x", *words, "--results", str(tmp_path / "x"), "--budget-s", budget_s])
    assert module.main() == code
    assert [path.name for path in tmp_path.iterdir()] == ["x.md"]
    assert (tmp_path / "x.md").read_text() == "good"


def test_an_interrupt_writes_the_results(bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = bench("gpu_parity")
    found = {"busbw": [1.0, 1.0], "nccl-tests": [2.0, 2.0]}

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    facts = {"machine": "4 x H200", "date": "2026-11-22", "busbw": "0.1.0", "facts": {}}
    monkeypatch.setattr(module, "provenance", lambda *_: facts)
    monkeypatch.setattr(module, "measure_wall_times", lambda *_, **__: found)
    monkeypatch.setattr(module, "measure_repeatability", interrupted)
    monkeypatch.setattr(module, "as_page", lambda results: str(results["left_out"]))
    words = ["--programs", "a", "--nccl-tests", "b", "--gpus", "4", "--parts", "wall,spread"]
    monkeypatch.setattr(sys, "argv", ["x", *words, "--results", str(tmp_path / "x")])
    assert module.main() == 130
    assert "interrupted" in (tmp_path / "x.md").read_text()
    assert json.loads((tmp_path / "x.json").read_text())["wall_s"] == found
