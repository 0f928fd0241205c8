"""Which rows are compared, what may be said of them, and what is refused."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from conftest import Busbw, one_sentence
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from busbw.cli.main import main
from busbw.compare import ChangeVerdict, Comparison, SizeResult, compare_logs, compare_variants, pairing
from busbw.compare.figures import PointFigures, program_time, side_figures
from busbw.compare.pairing import require_common
from busbw.compare.result import PointKey, TimeQuantity
from busbw.compare.text import render, summary
from busbw.errors import UsageError
from busbw.logs.log import Figure, Log, Placement, Refusal, Row, Table
from busbw.readers import read
from busbw.records import LifecycleRecord, SampleClock, TogetherRecord, WrongElement

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
SIZES = [1 << 12, 1 << 16, 1 << 20, 1 << 24]

Figures = dict[Placement, Figure]


def row(size: int, figures: Figures | float, line: int = 1, **more: Any) -> Row:
    if not isinstance(figures, dict):
        figures = {"out_of_place": Figure(time_us=figures)}
    fields = {"collective": "all_reduce", "dtype": "float", "redop": "sum", "ranks": 8, "size_bytes": size} | more
    return msgspec.convert({"line": line, "figures": figures, **fields}, Row)


def log(rows: Sequence[Row], name: str = "x.txt", **more: Any) -> Log:
    table = msgspec.convert({"format": "test", "rows": list(rows), **more}, Table)
    return Log(source=name, tables=(table,), candidate_rows=len(rows))


def times(values: Sequence[float], sizes: Sequence[int] = SIZES, **more: Any) -> Log:
    return log([row(size, value, **more) for size, value in zip(sizes, values, strict=True)])


def sampled(medians: Sequence[float], seed: int, samples: int = 60, spread: float = 0.01) -> Log:
    random = np.random.default_rng(seed)
    rows = []
    for size, median in zip(SIZES, medians, strict=True):
        slowest = median * np.exp(spread * random.normal(size=samples))
        figure = Figure(time_us=float(slowest.mean()), samples_us=(tuple(slowest * 0.9), tuple(slowest)))
        rows.append(row(size, {"out_of_place": figure}))
    return log(rows)


def verdicts(comparison: Comparison) -> list[str]:
    return [result.verdict.value for result in comparison.results]


def at(comparison: Comparison, size: int, collective: str = "all_reduce") -> SizeResult:
    found = [r for r in comparison.results if (r.point.size_bytes, r.point.collective) == (size, collective)]
    assert len(found) == 1
    return found[0]


# Single figures


def test_single_figures_have_no_interval_and_a_large_change_with_a_neighbor_counts() -> None:
    comparison = compare_logs(times([100, 100, 100, 100]), times([100, 100, 50, 50.5]))
    assert verdicts(comparison) == ["UNCLEAR", "UNCLEAR", "FASTER", "FASTER"]
    assert [result.interval for result in comparison.results] == [None] * 4
    assert comparison.results[2].speedup == 2.0
    assert comparison.level_text == "no intervals"


def test_a_change_without_an_agreeing_neighbor_is_unclear() -> None:
    assert verdicts(compare_logs(times([100] * 4), times([100, 100, 50, 100]))) == ["UNCLEAR"] * 4
    assert verdicts(compare_logs(times([100] * 4), times([100, 100, 50, 200]))) == ["UNCLEAR"] * 4


def test_a_size_without_neighbors_needs_no_confirmation() -> None:
    (result,) = compare_logs(times([100], [1 << 24]), times([200], [1 << 24])).results
    assert result.verdict is ChangeVerdict.SLOWER
    assert "no neighboring size" in result.reason


def test_small_sizes_need_a_larger_change() -> None:
    sizes = [1 << 10, 1 << 11, 1 << 25, 1 << 26]
    assert verdicts(compare_logs(times([100.01] * 4, sizes), times([112.01] * 4, sizes))) == [
        "UNCLEAR",
        "UNCLEAR",
        "SLOWER",
        "SLOWER",
    ]


def test_two_logs_of_one_machine_with_the_same_settings_show_no_change() -> None:
    sweep = read(GOLDEN / "nccl_tests_2_19_6_single.txt")
    again = msgspec.structs.replace(sweep, source="again.txt")
    comparison = compare_logs(sweep, again)
    assert comparison.results
    assert set(verdicts(comparison)) == {"UNCLEAR"}
    assert {result.speedup for result in comparison.results} == {1.0}


def test_rounding_bounds_a_change_beyond_the_printed_digits() -> None:
    # 1.1 may have been 1.05 and 1.0 may be 1.5 of an integer column: nothing follows.
    sizes = [1 << 25, 1 << 26]
    comparison = compare_logs(times([1.0, 1.0], sizes), times([1.1, 1.1], sizes))
    assert verdicts(comparison) == ["UNCLEAR", "UNCLEAR"]
    assert comparison.results[0].rounding == pytest.approx((0.5 / 1.15, 1.5 / 1.05))


def test_the_median_of_several_runs_is_rounded_as_their_figures() -> None:
    a = Log(source="a", tables=(*times([10.1] * 4).tables, *times([10.2] * 4).tables))
    b = Log(source="b", tables=(*times([100.0] * 4).tables, *times([101.0] * 4).tables))
    result = compare_logs(a, b).results[0]
    assert (result.basis, result.compared) == ("means", "time_us")
    assert result.rounding == pytest.approx((10.1 / 101, 10.2 / 100))


def test_the_quantity_with_the_most_digits_is_compared() -> None:
    def one(algbw: float, time: float) -> Log:
        return log([row(1 << 25, {"out_of_place": Figure(time_us=time, algbw_gbps=algbw, derived=())})])

    (result,) = compare_logs(one(359.18, 93.0), one(360.15, 93.0)).results
    assert result.compared == "algbw_gbps"
    assert result.speedup == pytest.approx(360.15 / 359.18)


def test_derived_figures_are_not_compared() -> None:
    def one(busbw: float) -> Log:
        figure = Figure(time_us=123.456789, busbw_gbps=busbw, derived=("time_us",))
        return log([row(1 << 25, {"unstated": figure})])

    (result,) = compare_logs(one(100.5), one(201.0)).results
    assert (result.compared, result.speedup) == ("busbw_gbps", 2.0)


def test_rows_without_a_common_figure_have_no_speedup() -> None:
    a = log([row(1 << 25, {"out_of_place": Figure(time_us=10.0)})])
    b = log([row(1 << 25, {"out_of_place": Figure(busbw_gbps=10.0)})])
    (result,) = compare_logs(a, b).results
    assert result.speedup is None
    assert result.verdict is ChangeVerdict.UNCLEAR


# Samples


def test_samples_of_one_run_each_give_intervals_of_the_slowest_rank() -> None:
    comparison = compare_logs(sampled([10, 20, 40, 80], 1), sampled([10, 20, 60, 120], 2))
    assert verdicts(comparison) == ["UNCLEAR", "UNCLEAR", "SLOWER", "SLOWER"]
    result = at(comparison, 1 << 20)
    assert result.basis == "iterations"
    assert result.interval is not None
    assert result.interval[0] < 40 / 60 < result.interval[1]
    assert result.a.median_us == pytest.approx(40, rel=0.01)
    assert result.a.samples == 60
    assert any("busbw ab" in sentence for sentence in comparison.method)


def test_a_change_below_the_spread_of_too_few_samples_is_no_change() -> None:
    fast_first, slow_first = [10, 10, 10, 15, 15], [15, 15, 15, 10, 10]

    def few(slowest_us: Sequence[float]) -> Log:
        figure = Figure(time_us=float(np.mean(slowest_us)), samples_us=(tuple(slowest_us),))
        return log([row(size, {"out_of_place": figure}) for size in (1 << 24, 1 << 26)])

    comparison = compare_logs(few(fast_first), few(slow_first))
    assert [result.basis for result in comparison.results] == ["means", "means"]
    assert verdicts(comparison) == ["UNCLEAR", "UNCLEAR"]
    assert comparison.results[0].threshold == pytest.approx(0.5)
    assert verdicts(compare_logs(few(fast_first), few([2 * time for time in fast_first]))) == ["SLOWER", "SLOWER"]
    without_samples = times([13] * 2, sizes=[1 << 24, 1 << 26])
    assert verdicts(compare_logs(few(fast_first), without_samples)) == ["UNCLEAR", "UNCLEAR"]


def test_a_significant_but_small_difference_of_two_runs_is_no_change() -> None:
    comparison = compare_logs(sampled([10] * 4, 1, spread=0.001), sampled([10.3] * 4, 2, spread=0.001))
    # 3 % apart, and above 1 MiB runs may differ by 5 %.
    assert verdicts(comparison)[-1] == "SAME"


def next_to_neighbor(alone: Log, together: Log) -> Log:
    """Returns the first log with the times of the second as those next to a neighbor."""

    def combine(row_alone: Row, row_together: Row) -> Row:
        (figure,) = row_together.figures.values()
        record = TogetherRecord(
            time_us=figure.time_us,
            ratio_to_alone=None,
            samples_us=[list(samples_us) for samples_us in figure.samples_us],
            active_percent=99,
            neighbor_operations=5,
        )
        figures = {name: replace(figure, together=record) for name, figure in row_alone.figures.items()}
        return replace(row_alone, figures=figures)

    tables = [
        replace(table, rows=tuple(map(combine, table.rows, other.rows)))
        for table, other in zip(alone.tables, together.tables, strict=True)
    ]
    return replace(alone, tables=tuple(tables))


@pytest.mark.parametrize(("run_count", "basis"), [(1, "iterations"), (5, "runs")])
def test_times_next_to_a_neighbor_have_verdicts_of_their_own(run_count: int, basis: str) -> None:
    a, b = (
        next_to_neighbor(runs(seed, run_count, [100] * 4, 0.001), runs(seed + 1, run_count, [together_us] * 4, 0.001))
        for seed, together_us in ((10, 300), (20, 450))
    )
    comparison = compare_logs(a, b)
    assert len(comparison.results) == 8
    for result in comparison.results:
        assert (result.verdict is ChangeVerdict.SLOWER) == result.point.together
        assert result.basis == basis
        assert result.speedup == pytest.approx(1 / 1.5 if result.point.together else 1, rel=0.05)
    assert any(text.startswith("SLOWER at 4 of 4 sizes") and " together: " in text for text in summary(comparison))


def test_a_neighbor_that_was_not_active_enough_has_no_verdict() -> None:
    a = next_to_neighbor(times([10] * 4), times([30] * 4))
    unknown = next_to_neighbor(times([10] * 4), log([row(size, {"out_of_place": Figure()}) for size in SIZES]))
    comparison = compare_logs(a, unknown)
    assert [result.point.together for result in comparison.results] == [False] * 4
    assert [point.together for point in comparison.only_in_a] == [True] * 4


def test_calls_of_communicators_share_a_table_and_those_of_different_tests_are_not_paired() -> None:
    def calls(*test_ranks: int) -> Log:
        rows = []
        for number, ranks in enumerate(test_ranks, start=1):
            call = LifecycleRecord(test="shrink", call="create", function=None, test_ranks=ranks)
            rows.append(
                row(
                    0, {"unstated": Figure(time_us=number)}, collective="shrink/create", dtype=None, redop=None, ranks=2
                )
            )
            rows[-1] = replace(rows[-1], lifecycle=call)
        return log(rows, collective="comm_ops")

    comparison = compare_logs(calls(4, 3, 2), calls(5, 4, 3))
    assert [(result.point.test_ranks, result.a.time_us, result.b.time_us) for result in comparison.results] == [
        (3, 2, 3),
        (4, 1, 2),
    ]
    text = "\n".join(line.plain for line in render(comparison, width=100))
    assert "comm_ops\ncall" in text
    assert "2 of 2 calls, comm_ops: shrink/create 2 of 3 ranks to shrink/create 2 of 4 ranks" in text
    with pytest.raises(UsageError, match="no row in common: number of ranks of the test 3, 4 against 5, 6;"):
        compare_logs(calls(4, 3), calls(5, 6))


def test_a_call_is_named_without_the_type_and_operator_that_all_calls_have() -> None:
    call = PointKey(
        collective="grow/next_all_reduce", dtype="int32", redop="sum", ranks=4, test_ranks=4, size_bytes=4096
    )
    assert call.configuration_text == "grow/next_all_reduce 4 ranks"


def test_an_operation_next_to_a_neighbor_has_no_row_in_common_with_one_alone() -> None:
    alone = PointKey(collective="all_reduce", ranks=2, size_bytes=8)
    together = replace(alone, together=True)
    with pytest.raises(UsageError, match="no row in common: operation alone against next to a neighbor;"):
        require_common({alone: []}, {together: []})


def test_equal_runs_are_not_same_if_further_runs_may_differ() -> None:
    comparison = compare_logs(sampled([10] * 4, 1, spread=0.001), sampled([10] * 4, 2, spread=0.001))
    assert verdicts(comparison) == ["UNCLEAR", "UNCLEAR", "UNCLEAR", "SAME"]
    assert "runs may differ by 20 % by chance" in comparison.results[0].reason


@pytest.mark.parametrize(("settings", "slower"), [({"nGpus": "4"}, 1.3), ({"backend": "host"}, 1.7)])
def test_a_slower_side_is_not_called_the_same(settings: dict[str, str], slower: float) -> None:
    """By chance of the starts A may be as slow as B: the times are those of ten starts, or of ranks on processors."""
    random = np.random.default_rng(5)
    usual = [35.1, 42.9, 33.6, 26.9, 31.7, 35.0, 25.0, 25.8, 24.3, 26.1] if "nGpus" in settings else [44, 75, 96]

    def side(factor: float) -> Log:
        start = random.choice(usual) * factor
        table = sampled([start] * 4, int(random.integers(1 << 30)), spread=0.02).tables[0]
        rows = tuple(each for each in table.rows if each.size_bytes <= 1 << 20)
        return Log(source="x", tables=(msgspec.structs.replace(table, rows=rows, settings=settings),))

    for _ in range(60):
        assert "SAME" not in verdicts(compare_logs(side(1.0), side(slower)))


def test_single_runs_on_processors_must_differ_by_far_more() -> None:
    def on_host(medians: Sequence[float], seed: int) -> Log:
        table = msgspec.structs.replace(sampled(medians, seed).tables[0], settings={"backend": "host"})
        return Log(source="x", tables=(table,))

    comparison = compare_logs(on_host([10] * 4, 1), on_host([20, 20, 30, 30], 2))
    assert verdicts(comparison) == ["UNCLEAR", "UNCLEAR", "SLOWER", "SLOWER"]
    assert any("factor of 2.25" in sentence for sentence in comparison.method)


def test_a_useless_interval_is_not_shown() -> None:
    def jumping(first: float) -> Log:
        samples = tuple([first] * 10 + [1e6] * 10)
        figure = Figure(time_us=5e5, samples_us=(samples,))
        return log([row(size, {"out_of_place": figure}) for size in SIZES])

    comparison = compare_logs(jumping(1.0), jumping(2.0))
    assert {(result.verdict, result.interval) for result in comparison.results} == {(ChangeVerdict.UNCLEAR, None)}
    assert json.loads(msgspec.json.encode(comparison))


def runs(seed: int, count: int, medians: Sequence[float], spread: float) -> Log:
    random = np.random.default_rng(seed)
    tables = []
    for _ in range(count):
        launch = math.exp(spread * random.normal())
        tables.append(sampled([median * launch for median in medians], int(random.integers(1 << 30))).tables[0])
    return Log(source="runs", tables=tuple(tables))


def test_several_runs_are_the_unit_and_what_varies_between_them_counts() -> None:
    quiet = compare_logs(runs(1, 6, [10] * 4, 0.002), runs(2, 6, [10.6] * 4, 0.002))
    assert {result.basis for result in quiet.results} == {"runs"}
    assert set(verdicts(quiet)) == {"SLOWER"}
    noisy = compare_logs(runs(1, 6, [10] * 4, 0.2), runs(2, 6, [10.6] * 4, 0.2))
    assert set(verdicts(noisy)) == {"UNCLEAR"}


def test_runs_without_a_difference_are_hardly_ever_called_changed() -> None:
    alarms = sum(
        bool(compare_logs(runs(2 * i, 5, [10] * 4, 0.05), runs(2 * i + 1, 5, [10] * 4, 0.05)).changed)
        for i in range(100)
    )
    assert alarms <= 4  # at most 1 % are expected; 5 or more of 100 have a probability of 0.3 % then


def cycles(seed: int, factor: float = 1.0) -> Log:
    tables = runs(seed, 4, [10 * factor] * 4, 0.001).tables
    rows = [msgspec.structs.replace(r, cycle=i) for i, table in enumerate(tables) for r in table.rows]
    return log(rows)


def test_cycles_of_one_run_do_not_count_as_runs() -> None:
    """Four cycles say much of their own start, and nothing of how far two starts lie apart: 8 % may be chance."""
    comparison = compare_logs(cycles(1), cycles(2, 1.08))
    assert {result.basis for result in comparison.results} == {"iterations"}
    assert verdicts(comparison)[:3] == ["UNCLEAR"] * 3
    assert any("Cycles of one run do not count as runs" in sentence for sentence in comparison.warnings)
    without_samples = compare_logs(*(_only_times(each) for each in (cycles(1), cycles(2, 1.08))))
    assert {result.basis for result in without_samples.results} == {"means"}
    assert verdicts(without_samples)[:3] == ["UNCLEAR"] * 3


def _only_times(found: Log) -> Log:
    rows = [
        msgspec.structs.replace(r, figures={p: Figure(time_us=f.time_us) for p, f in r.figures.items()})
        for r in found.rows
    ]
    return log(rows)


def test_a_run_of_several_cycles_counts_once() -> None:
    """Two starts of each side are two observations, however many cycles each has."""
    sides = [Log(source="x", tables=tuple(cycles(seed).tables) * 2) for seed in (1, 2)]
    assert {result.basis for result in compare_logs(sides[0], sides[1]).results} == {"iterations"}
    sides = [Log(source="x", tables=tuple(cycles(seed + i).tables[0] for i in range(4))) for seed in (1, 11)]
    assert {result.basis for result in compare_logs(sides[0], sides[1]).results} == {"runs"}


def test_three_runs_of_a_side_are_too_few() -> None:
    """With two states of a start, all of A in one and all of B in the other is 1 in 32."""
    for few, verdict in ((3, "UNCLEAR"), (4, "SLOWER")):
        comparison = compare_logs(runs(1, few, [10] * 4, 0.0005), runs(2, few, [10.6] * 4, 0.0005))
        assert {result.basis for result in comparison.results} == {"runs"}
        assert verdicts(comparison)[:3] == [verdict] * 3
    assert any("taken in turns" in sentence for sentence in comparison.method)


@pytest.mark.parametrize(
    ("settings", "beyond_1_mib", "up_to_8_kib", "text"),
    [
        ({"nGpus": "4"}, "UNCLEAR", "UNCLEAR", "80 % up to 8 MiB and 5 % above"),
        ({"backend": "nccl", "gpus_per_thread": "4"}, "UNCLEAR", "UNCLEAR", "80 % up to 8 MiB and 5 % above"),
        ({"nGpus": "1"}, "SLOWER", "UNCLEAR", "80 % up to 1 MiB and 5 % above"),
        ({"nGpus": "4", "graph": "10"}, "SLOWER", "SLOWER", "20 % up to 8 KiB, 10 % up to 1 MiB and 5 % above"),
        ({}, "SLOWER", "SLOWER", "20 % up to 8 KiB, 10 % up to 1 MiB and 5 % above"),
    ],
)
def test_the_chance_difference_of_single_runs_depends_on_the_launch_mode(
    settings: dict[str, str], beyond_1_mib: str, up_to_8_kib: str, text: str
) -> None:
    sizes = [1 << 12, 1 << 13, 1 << 21, 1 << 22, 1 << 24, 1 << 25]
    sides = [
        log([row(size, value) for size, value in zip(sizes, values, strict=True)], settings=settings)
        for values in ([100.01] * 6, [160.01] * 6)
    ]
    comparison = compare_logs(*sides)
    assert verdicts(comparison) == [up_to_8_kib] * 2 + [beyond_1_mib] * 2 + ["SLOWER"] * 2
    assert text in comparison.method[0]


@pytest.mark.parametrize("machine", ["h200-x4", "h200-x2"])
@pytest.mark.parametrize("what", ["busbw: time", "nccl-tests: time"])
def test_ten_starts_of_the_same_thing_are_no_change(machine: str, what: str) -> None:
    """As they were measured on one machine, one after the other, with -g: up to 1.77 times apart."""
    kept = json.loads((GOLDEN / "ten_starts.json").read_text())[machine]
    values = {each["size_bytes"]: each["values_us"] for each in kept["repeatability"] if each["what"] == what}
    settings = {"nGpus": str(kept["gpus"])}
    logs = [
        log([row(size, own[start]) for size, own in values.items()], settings=settings)
        for start in range(min(map(len, values.values())))
    ]
    assert len(logs) == 10
    assert not any(compare_logs(a, b).changed for a in logs for b in logs)


def test_runs_that_print_the_same_figure_agree_no_further_than_its_last_digit() -> None:
    def printing(value: float) -> Log:
        return Log(source="x", tables=tuple(times([value] * 4).tables) * 5)

    comparison = compare_logs(printing(4.70), printing(4.71))
    assert {(each.basis, each.verdict) for each in comparison.results} == {("runs", ChangeVerdict.SAME)}
    low, high = comparison.results[0].interval or (0.0, 0.0)
    assert (low, high) == pytest.approx((4.695 / 4.715, 4.705 / 4.705), abs=1e-4)
    assert comparison.results[0].compared == "time_us"
    assert set(verdicts(compare_logs(printing(4.70), printing(4.74)))) == {"SLOWER"}


# Device time, and what a program pays


def on_device(launch_us: float, device_us: Sequence[float], seed: int, runs: int = 1) -> Log:
    """As our records of GPUs are: samples by the device's clock, held back, so that launching is only in the time."""
    random = np.random.default_rng(seed)
    tables: list[Table] = []
    for _ in range(runs):
        rows = []
        for size, device in zip(SIZES, device_us, strict=True):
            samples = (device + 2.5) * np.exp(0.003 * random.normal(size=60))
            figure = Figure(
                time_us=max(launch_us, device) * math.exp(0.002 * random.normal()),
                device_time_us=device * math.exp(0.002 * random.normal()),
                samples_us=(tuple(samples * 0.9), tuple(samples)),
            )
            rows.append(row(size, {"out_of_place": figure}))
        tables += log(rows).tables
    return Log(source="gpu", tables=tuple(tables))


@pytest.mark.parametrize("runs", [1, 5])
def test_launch_time_is_in_the_time_and_not_in_the_device_time(runs: int) -> None:
    device_us = [10.0, 12.0, 14.0, 200.0]
    comparison = compare_logs(on_device(15, device_us, 1, runs), on_device(60, device_us, 2, runs))
    found = {(each.compared, each.point.size_bytes): each.verdict.value for each in comparison.results}
    assert [found["time_us", size] for size in SIZES[:3]] == ["SLOWER"] * 3
    assert not {found["device_time_us", size] for size in SIZES} & {"SLOWER", "FASTER"}
    assert found["time_us", SIZES[3]] != "SLOWER"
    assert any("Two times are compared" in sentence for sentence in comparison.method)
    text = "\n".join(line.plain for line in render(comparison, width=140))
    assert "out of place, device time" in text
    assert "SLOWER at 3 of 4 sizes, all_reduce float sum 8 ranks out of place: " in text


def test_a_slower_device_shows_in_the_device_time_though_launching_hides_it() -> None:
    comparison = compare_logs(on_device(100, [10, 12, 14, 20], 1), on_device(100, [20, 24, 28, 40], 2))
    found = {(each.compared, each.verdict.value) for each in comparison.results}
    assert found == {("device_time_us", "SLOWER"), ("time_us", "UNCLEAR")}


@pytest.mark.parametrize(
    ("clock", "compared"), [("gated_device_events", "time_us"), (None, "time_us"), ("device_events", "median_us")]
)
def test_samples_are_compared_if_they_are_known_to_include_launch_time(
    clock: SampleClock | None, compared: TimeQuantity
) -> None:
    figure = Figure(time_us=12.0, device_time_us=10.0, samples_us=((11.0, 12.0),), sample_clock=clock)
    assert program_time(PointFigures([figure])) == compared


def test_a_figure_with_empty_lists_of_samples_has_no_samples() -> None:
    sampled = Figure(time_us=12.0, samples_us=((11.0, 12.0),), sample_clock="host")
    unsampled = Figure(time_us=12.0, samples_us=((),), sample_clock="host")
    assert PointFigures([sampled, sampled]).are_sampled
    assert not PointFigures([sampled, unsampled]).are_sampled


def test_merged_figures_are_those_of_all_points() -> None:
    figures = [
        Figure(time_us=12.0, algbw_gbps=1.5, derived=("algbw_gbps",), algorithm="ring", wrong_elements=2),
        Figure(device_time_us=10.0, samples_us=((11.0, 13.0), (12.0, 9.0)), sample_clock="host", wrong_elements=1),
        Figure(busbw_gbps=3.0),
    ]
    whole, merged = PointFigures(figures), PointFigures.merged([PointFigures([figure]) for figure in figures])
    assert side_figures(merged) == side_figures(whole)
    assert (merged.are_sampled, merged.have_program_samples, len(merged)) == (False, False, 3)
    assert merged.slowest_us.tolist() == [12.0, 13.0]
    equal = PointFigures.merged([PointFigures(figures[:1]), PointFigures(figures[:1])])
    assert (merged.printed_median("time_us"), equal.printed_median("time_us")) == (None, 12.0)
    assert equal.printed_median("algbw_gbps") is None


def test_device_samples_are_not_compared_with_those_of_another_program() -> None:
    device_us = [10.0, 12.0, 14.0, 20.0]
    launched = sampled([60, 60, 60, 60], 1)  # nccl-tests with -I: launching is in its samples
    comparison = compare_logs(on_device(60, device_us, 1), launched)
    assert {each.compared for each in comparison.results} == {"time_us"}
    assert set(verdicts(comparison)) == {"UNCLEAR"}


# Only like with like


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"collective": "all_gather"}, "collective all_reduce against all_gather"),
        ({"dtype": "half"}, "data type float against half"),
        ({"redop": "max"}, "operator sum against max"),
        ({"ranks": 16}, "number of ranks 8 against 16"),
        ({"root": 3}, "root 0 against 3"),
        ({"group": 1}, "group 0 against 1"),
    ],
)
def test_unlike_rows_are_refused_and_what_differs_is_named(change: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match="no row in common") as refusal:
        compare_logs(times([1.5] * 4, root=0), times([1.5] * 4, **({"root": 0} | change)))
    assert named in str(refusal.value)


def test_sizes_that_do_not_overlap_are_named() -> None:
    with pytest.raises(UsageError, match="sizes 4 KiB to 16 MiB against 8 KiB"):
        compare_logs(times([1.5] * 4), times([1.5], [8192]))


def test_no_rows_are_named() -> None:
    with pytest.raises(UsageError, match="B has no rows"):
        compare_logs(times([1.5] * 4), log([]))


def test_rows_of_one_side_only_are_listed() -> None:
    comparison = compare_logs(times([1.5] * 4), times([1.5] * 2, SIZES[:2]))
    assert [point.size_bytes for point in comparison.only_in_a] == SIZES[2:]
    assert len(comparison.results) == 2


def test_a_missing_property_is_taken_from_the_other_side_with_a_note() -> None:
    comparison = compare_logs(times([1.5] * 4, dtype=None, ranks=None), times([1.5] * 4))
    assert {(result.point.dtype, result.point.ranks) for result in comparison.results} == {("float", 8)}
    assert sum("the other side's is assumed" in sentence for sentence in comparison.warnings) == 2


def test_a_missing_property_is_not_guessed_among_several() -> None:
    b = log([row(size, 1.5, dtype=dtype) for size in SIZES for dtype in ("half", "float")])
    with pytest.raises(UsageError, match="A does not state its data type, and B has float, half"):
        compare_logs(times([1.5] * 4, dtype=None), b)


def test_an_unstated_placement_must_be_chosen_if_the_other_side_has_two() -> None:
    published = log([row(size, {"unstated": Figure(time_us=1.5)}) for size in SIZES])
    both = log([row(s, {"out_of_place": Figure(time_us=1.5), "in_place": Figure(time_us=2.5)}) for s in SIZES])
    with pytest.raises(UsageError, match="--placement"):
        compare_logs(published, both)
    comparison = compare_logs(published, both, placement="in_place")
    assert {result.b.time_us for result in comparison.results} == {2.5}


def test_placements_are_never_mixed() -> None:
    both = log([row(s, {"out_of_place": Figure(time_us=1.5), "in_place": Figure(time_us=3.0)}) for s in SIZES])
    comparison = compare_logs(both, both)
    assert len(comparison.results) == 8
    assert {result.speedup for result in comparison.results} == {1.0}


def test_sizes_rounded_to_the_same_value_do_not_count_as_runs() -> None:
    rows = [row(0, 1.5, line=i) for i in range(5)] + [row(1 << 25, 10.5)]
    comparison = compare_logs(log(rows), log(rows))
    assert {result.a.runs for result in comparison.results} == {1}


@given(st.permutations(range(4)))
def test_the_order_of_rows_does_not_matter(order: list[int]) -> None:
    a, b = times([100] * 4), times([100, 100, 50, 50])
    shuffled = log([b.rows[i] for i in order])
    assert compare_logs(a, shuffled).results == compare_logs(a, b).results


def test_exchanging_the_sides_inverts_the_verdicts() -> None:
    a, b = sampled([10, 20, 40, 80], 1), sampled([10, 20, 60, 120], 2)
    there, back = compare_logs(a, b), compare_logs(b, a)
    for one, other in zip(there.results, back.results, strict=True):
        assert (one.speedup or 0) * (other.speedup or 0) == pytest.approx(1)
        swapped = {ChangeVerdict.SLOWER: ChangeVerdict.FASTER, ChangeVerdict.FASTER: ChangeVerdict.SLOWER}
        assert other.verdict is swapped.get(one.verdict, one.verdict)


# Wrong data and other differences


def test_wrong_data_come_first() -> None:
    wrong = WrongElement(rank=1, place="result", index=7, expected="1", got="2")
    figure = Figure(time_us=1.5, check="checked", wrong_elements=3, first_wrong=(wrong,))
    bad = log([row(size, {"out_of_place": figure}, line=40) for size in SIZES])
    comparison = compare_logs(times([1.5] * 4), bad)
    assert comparison.wrong_data == ("B has wrong data in 4 of 4 rows, first at 4 KiB float sum (line 40).",)
    assert render(comparison, width=100)[0].plain.startswith("WRONG DATA: B has wrong data")


def test_wrong_data_in_the_footer_count() -> None:
    bad = log([row(size, 1.5) for size in SIZES], claimed_out_of_bounds=2)
    assert "2 results" in compare_logs(bad, times([1.5] * 4)).wrong_data[0]


def test_settings_that_differ_are_listed_and_those_of_every_run_are_not() -> None:
    def one(library: str, run_id: str) -> Log:
        settings = {"run_id": run_id, "iterations": "20"}
        environment = {"NCCL_ALGO": library}
        rows = [row(size, 1.5) for size in SIZES]
        return log(rows, library=library, settings=settings, environment=environment)

    differences = compare_logs(one("NCCL 2.27", "a"), one("NCCL 2.28", "b")).differences
    assert [each.what for each in differences] == ["library", "environment NCCL_ALGO"]


def test_refused_rows_are_reported() -> None:
    a = times([1.5] * 4)
    cut = msgspec.structs.replace(a, candidate_rows=5, refused=(Refusal(line=9, text="x", reason="cut off"),))
    assert "A: 1 row of 5 could not be read, first in line 9: cut off" in compare_logs(cut, a).warnings


# Variants


def speedup_table() -> Log:
    """As people publish them: two libraries, and a speed-up to two decimals."""
    lines = [
        (1024, 13.12, 7.50, 1.80),
        (2048, 14.39, 7.48, 1.92),
        (4096, 15.28, 7.49, 2.04),
        (1 << 24, 116, 115.7, 1.0),
    ]
    rows = []
    for number, (size, old, new, claim) in enumerate(lines, start=1):
        rows.append(row(size, {"in_place": Figure(time_us=old)}, line=number, variant="NCCL"))
        rows.append(row(size, {"in_place": Figure(time_us=new)}, line=number, variant="MSCCL", claimed_speedup=claim))
    return log(rows, "published.md")


def test_variants_are_compared_and_claimed_speedups_recomputed() -> None:
    comparison = compare_variants(speedup_table())
    assert (comparison.a.label, comparison.b.label) == ("NCCL", "MSCCL")
    assert verdicts(comparison) == ["FASTER", "FASTER", "FASTER", "UNCLEAR"]
    assert [result.claim_agrees for result in comparison.results] == [False, True, True, True]
    assert comparison.results[0].speedup == pytest.approx(13.12 / 7.50)
    said = summary(comparison)[-1]
    assert "1 do not: all_reduce 1 KiB states 1.80x, its figures give 1.75x" in said


def test_exchanged_variants_have_no_claims() -> None:
    comparison = compare_variants(speedup_table(), ("MSCCL", "NCCL"))
    assert {result.claimed_speedup for result in comparison.results} == {None}
    assert verdicts(comparison)[:3] == ["SLOWER"] * 3


def test_claims_are_only_checked_against_the_first_variant() -> None:
    published = speedup_table()
    others = [row(size, {"in_place": Figure(time_us=10.0)}, line=9, variant="other") for size in SIZES]
    three = log([*published.tables[0].rows, *others], "published.md")
    assert {result.claim_agrees for result in compare_variants(three, ("other", "MSCCL")).results} == {None}
    assert True in {result.claim_agrees for result in compare_variants(three, ("NCCL", "MSCCL")).results}


def test_each_table_has_a_baseline_of_its_own() -> None:
    rows = [
        row(1024, {"in_place": Figure(time_us=20.0)}, variant="X"),
        row(1024, {"in_place": Figure(time_us=10.0)}, variant="Y", claimed_speedup=1.8),
    ]
    two_tables = Log(source="x", tables=(*speedup_table().tables, *log(rows).tables))
    assert [result.claim_agrees for result in compare_variants(two_tables, ("X", "Y")).results] == [False]


def test_a_variant_after_the_new_one_is_its_baseline() -> None:
    rows = [
        row(1024, {"in_place": Figure(time_us=10.0)}, variant="new", claimed_speedup=2.0),
        row(1024, {"in_place": Figure(time_us=20.0)}, variant="old"),
    ]
    assert [result.claim_agrees for result in compare_variants(log(rows), ("old", "new")).results] == [True]


def test_a_claim_is_neither_right_nor_wrong_without_printed_figures() -> None:
    samples = (tuple(10.0 + 0.01 * index for index in range(40)),)
    rows = [
        row(1024, {"in_place": Figure(time_us=10.2, samples_us=samples)}, variant="A"),
        row(1024, {"in_place": Figure(time_us=10.2, samples_us=samples)}, variant="B", claimed_speedup=1.0),
    ]
    comparison = compare_variants(log(rows))
    assert [(result.claimed_speedup, result.claim_agrees) for result in comparison.results] == [(1.0, None)]
    assert not any("states" in sentence for sentence in summary(comparison))


def test_two_tables_of_one_log_can_be_compared_by_number() -> None:
    both = Log(source="x", tables=(*times([100.5] * 4).tables, *times([50.5] * 4).tables))
    assert set(verdicts(compare_variants(both, ("#1", "#2")))) == {"FASTER"}


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (("NCCL", "RCCL"), 'no variant "RCCL"; choose among NCCL, MSCCL'),
        (("NCCL", "NCCL"), "named twice"),
    ],
)
def test_unknown_variants_are_refused(names: tuple[str, str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        compare_variants(speedup_table(), names)


def test_a_log_without_variants_needs_a_second_log() -> None:
    with pytest.raises(UsageError, match="no variants to compare; give a second log"):
        compare_variants(times([1.5] * 4))


def test_variants_side_by_side_are_not_mixed_with_another_log() -> None:
    with pytest.raises(UsageError, match="A contains several variants: NCCL, MSCCL"):
        compare_logs(speedup_table(), times([1.5] * 4))


def test_several_variants_are_refused_before_all_rows_are_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairing, "_MAX_BYTES", 3000)  # enough for one size
    with pytest.raises(UsageError, match="A contains several variants: NCCL, MSCCL"):
        compare_logs(speedup_table(), times([1.5] * 4))


# Published tables


def test_the_published_speedups_of_msccl_are_recomputed_and_two_are_contradicted() -> None:
    comparison = compare_variants(read(GOLDEN / "seeds" / "002_d730ed66047f0856.txt"))
    assert (comparison.a.label, comparison.b.label) == ("NCCL", "MSCCL")
    assert len(comparison.results) == 42
    wrong = [result for result in comparison.results if result.claim_agrees is False]
    assert [(r.point.collective, r.point.size_bytes, r.claimed_speedup) for r in wrong] == [
        ("all_gather", 8192, 1.81),  # 9.78 / 5.47 = 1.79
        ("all_reduce", 1024, 1.80),  # 13.12 / 7.50 = 1.75
    ]
    assert sum(result.claim_agrees is True for result in comparison.results) == 40
    # The authors' own conclusion: faster for small and middle sizes, alike for large ones.
    reduce = [result for result in comparison.results if result.point.collective == "all_reduce"]
    assert [r.verdict.value for r in reduce] == ["FASTER"] * 14 + ["UNCLEAR"] * 7


def test_two_kernels_are_alike_but_for_small_hypercube_and_sendrecv() -> None:
    comparison = compare_variants(read(GOLDEN / "seeds" / "001_07c4158c15b1b1b2.txt"))
    assert (comparison.a.label, comparison.b.label) == ("Generic Kernel", "Nvidia Kernel")
    assert len(comparison.results) == 80
    changed = [(r.point.collective, r.point.size_bytes >> 20, r.verdict.value) for r in comparison.changed]
    # The authors saw "not much performance difference"; these four are slower by up to 2.5 times.
    assert changed == [
        ("hypercube", 1, "SLOWER"),
        ("hypercube", 4, "SLOWER"),
        ("sendrecv", 1, "SLOWER"),
        ("sendrecv", 4, "SLOWER"),
    ]
    assert min(r.speedup or 1 for r in comparison.changed) == pytest.approx(0.397, abs=0.001)


# The command


@pytest.fixture
def two(here: Path) -> tuple[str, str]:
    text = (GOLDEN / "nccl_tests_2_19_6_iter.txt").read_text()
    (here / "a.txt").write_text(text)
    (here / "b.txt").write_text(text)
    return "a.txt", "b.txt"


def test_the_command_shows_a_table_that_fits(busbw: Busbw, two: tuple[str, str]) -> None:
    done = busbw("compare", *two, environment={"COLUMNS": "80"})
    assert done.returncode == 0, done.stderr
    assert "verdict" in done.stdout
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_the_command_prints_json(busbw: Busbw, two: tuple[str, str]) -> None:
    found = json.loads(busbw("compare", *two, "--json").stdout)
    assert {result["verdict"] for result in found["results"]} <= {verdict.value for verdict in ChangeVerdict}
    assert found["resolution"] == 0.05


def test_slower_is_an_exit_code_where_it_is_asked_for(busbw: Busbw, here: Path) -> None:
    half = "time algbw busbw #wrong"
    head = f"# size count type redop root {half} {half}\n# (B) (elements) (us) (GB/s) (GB/s) (us) (GB/s) (GB/s)\n"
    line = "  {size} {count} float sum -1 {t:.2f} {bw:.2f} {bus:.2f} 0 {t:.2f} {bw:.2f} {bus:.2f} 0\n"
    for name, scale in (("fast.txt", 1.0), ("slow.txt", 2.0)):
        text = "# nThread 1 nGpus 8 minBytes 33554432 maxBytes 67108864\n#\n# Using devices\n"
        text += "".join(f"#  Rank  {r} Group  0 Pid  1 on  host device  {r} [0x0{r}] NVIDIA X\n" for r in range(8))
        text += head
        for size in (1 << 25, 1 << 26):
            time_us = size / 100e3 * scale
            bw = size / time_us / 1e3
            text += line.format(size=size, count=size // 4, t=time_us, bw=bw, bus=bw * 1.75)
        (here / name).write_text(text)
    assert busbw("compare", "fast.txt", "slow.txt").returncode == 0
    assert busbw("compare", "fast.txt", "slow.txt", "--not-slower").returncode == 5
    assert busbw("compare", "slow.txt", "fast.txt", "--not-slower").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("a.txt", "nowhere.txt"), "nowhere.txt"),
        (("a.txt",), "no variants to compare"),
        (("a.txt", "b.txt", "--variants", "x", "y"), "--variants: takes one log, got two"),
        (("a.txt", "b.txt", "--resolution", "0"), '--resolution "0" is not a fraction; give a value between'),
        (("a.txt", "b.txt", "--resolution", "five"), '--resolution "five" is not a fraction'),
        (("a.txt", "b.txt", "--resolution", "100%"), "is not a fraction"),
    ],
)
def test_a_doubt_is_one_sentence(
    capsys: pytest.CaptureFixture[str], two: tuple[str, str], arguments: tuple[str, ...], sentence: str
) -> None:
    assert main(["compare", *arguments]) == 2
    assert sentence in one_sentence(capsys.readouterr().err)


def test_more_figures_than_fit_into_memory_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], two: tuple[str, str]
) -> None:
    monkeypatch.setattr("busbw.compare.pairing._MAX_BYTES", 10_000)
    assert main(["compare", "a.txt", "b.txt"]) == 2
    assert "a side has more figures and samples than 1 GiB of memory holds; compare fewer of its runs" in one_sentence(
        capsys.readouterr().err
    )


@pytest.mark.parametrize(("one", "other"), [(5e-324, 62.5), (1e308, 1e-320)])
def test_figures_that_have_no_ratio(one: float, other: float) -> None:
    a, b = (
        log([row(8, {"out_of_place": Figure(busbw_gbps=value)})], name) for value, name in [(one, "a"), (other, "b")]
    )
    for pair in ((a, b), (b, a)):
        assert [found.verdict for found in compare_logs(*pair).results] == [ChangeVerdict.UNCLEAR]


def test_a_change_of_the_algorithm_is_named_next_to_the_difference() -> None:
    def one(algorithm: str | None, time_us: float) -> Log:
        figure = Figure(time_us=time_us, algorithm=algorithm, protocol=algorithm and "ll")
        return log([row(size, {"out_of_place": figure}) for size in SIZES])

    changed = compare_logs(one("tree", 10.0), one("ring", 20.0))
    assert all(result.explanation.endswith(" A ran tree/ll, B ring/ll.") for result in changed.results)
    assert "A ran tree/ll, B ring/ll" in "\n".join(line.plain for line in render(changed, width=200))
    for a, b in (("tree", "tree"), ("tree", None), (None, "ring")):
        unchanged = compare_logs(one(a, 10.0), one(b, 20.0))
        assert all(result.explanation == result.reason for result in unchanged.results)


def test_runs_with_unlike_algorithms_have_none() -> None:
    tables = [
        log([row(4096, {"out_of_place": Figure(time_us=10.0, algorithm=name)})]).tables[0] for name in ("ring", "tree")
    ]
    mixed = Log(source="x.txt", tables=tuple(tables))
    assert compare_logs(mixed, mixed).results[0].a.algorithm is None
