"""Verdicts: each grade, the evidence it names, and what must never be judged."""

from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.expect import Scenario, expect
from busbw.expect.types import ExpectedRange
from busbw.judge import EXIT_OF, JudgedFigure, ReferenceSelection, Verdict, judge, worst
from busbw.judge.series import series_of
from busbw.judge.yardstick import RunFacts, yardstick_from_reference
from busbw.logs.log import Figure, Log, Placement, Rank, Refusal, Row, Table
from busbw.readers import read
from busbw.records import SampleClock, StatsRecord
from busbw.reference import PublishedPoint, Sweep
from busbw.reference import find as find_reference
from busbw.system import Nics, systems
from busbw.system import find as find_system

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
SIZES = tuple(8 << (2 * step) for step in range(15))
GOOD_H200_X4 = {  # A published run on 4 x H200 in a CUDA graph.
    1024: 9.85, 4096: 9.72, 16384: 10.90, 65536: 11.26, 262144: 11.78, 1048576: 19.46, 4194304: 41.51,
    16777216: 98.32, 67108864: 318.96, 268435456: 1174.85, 1073741824: 4567.68,
}  # fmt: skip


def figure(size: int, time_us: float, ranks: int = 4, **more: object) -> Figure:
    """Figure of an all_reduce as a log has it."""
    algbw = size / time_us / 1e3
    busbw = algbw * 2 * (ranks - 1) / ranks
    return Figure(time_us=time_us, algbw_gbps=algbw, busbw_gbps=busbw, **more)  # type: ignore[arg-type]


def log(
    times_us: dict[int, float] | Iterable[tuple[int, dict[Placement, Figure]]],
    *,
    device: str | None = "NVIDIA H200",
    ranks: int = 4,
    collective: str = "all_reduce",
    hosts: int = 1,
    **more: object,
) -> Log:
    figures: Iterable[tuple[int, dict[Placement, Figure]]] = (
        [(size, {"out_of_place": figure(size, time, ranks)}) for size, time in times_us.items()]
        if isinstance(times_us, dict)
        else times_us
    )
    rows = tuple(
        Row(line=number, size_bytes=size, dtype="float", redop="sum", figures=one)
        for number, (size, one) in enumerate(figures, start=1)
    )
    rank_list = tuple(
        Rank(rank=number, host=f"n{number * hosts // ranks}", device_name=device, bus_id=f"0000:{number:02x}:00")
        for number in range(ranks if device else 0)
    )
    table = Table(
        format="a test",
        collective=collective,
        ranks=ranks,
        rank_list=rank_list,
        rows=rows,
        complete=more.pop("complete", True),  # type: ignore[arg-type]
        settings={"nGpus": "1", "graph": "1"},
        **more,  # type: ignore[arg-type]
    )
    return Log(source="a test", tables=(table,))


def only(verdicts: tuple[Verdict, ...]) -> Verdict:
    assert len(verdicts) == 1
    return verdicts[0]


def scaled(by: Callable[[int], float]) -> dict[int, float]:
    return {size: time * by(size) for size, time in GOOD_H200_X4.items()}


def grades(verdict: Verdict) -> dict[str, str]:
    return {band.band: band.grade for band in verdict.bands}


def test_a_healthy_run_is_good() -> None:
    found = only(judge(log(GOOD_H200_X4)))
    assert found.grade == "GOOD"
    assert grades(found) == {"latency": "GOOD", "middle": "GOOD", "plateau": "GOOD"}
    assert "H200" in found.yardstick


@pytest.mark.parametrize(
    ("by", "slow"),
    [
        (lambda size: 1.5 if size > 1 << 25 else 1.0, {"plateau"}),
        (lambda size: 4.0 if size <= 8192 else 1.0, {"latency"}),
        (lambda size: 4.0 if 8192 < size < 1 << 25 else 1.0, {"middle"}),
        (lambda size: 9.0, {"latency", "middle", "plateau"}),
    ],
)
def test_a_slow_band_is_found_and_the_others_are_not(by: Callable[[int], float], slow: set[str]) -> None:
    found = only(judge(log(scaled(by))))
    assert found.grade == "SLOW"
    assert {band for band, grade in grades(found).items() if grade == "SLOW"} == slow


MIDDLE = [size for size in GOOD_H200_X4 if 8192 < size < 1 << 25]


def test_middle_sizes_that_the_sizes_around_them_do_not_explain_are_unsure() -> None:
    """Their range allows twice the typical time, because it does not know this run's start-up time."""
    for slow in (MIDDLE[:4], MIDDLE[1:3]):
        found = only(judge(log(scaled(lambda size, slow=slow: 1.89 if size in slow else 1.0))))  # type: ignore[misc]
        assert grades(found) == {"latency": "GOOD", "middle": "UNSURE", "plateau": "GOOD"}
        assert "although smaller and larger sizes take at most" in found.reasons[0]


@pytest.mark.parametrize("slow", [MIDDLE[2:3], [size for size in GOOD_H200_X4 if size < 1 << 25]])
def test_one_middle_size_or_a_long_start_up_is_no_bump(slow: list[int]) -> None:
    found = only(judge(log(scaled(lambda size: 1.6 if size in slow else 1.0))))
    assert grades(found)["middle"] == "GOOD"


def test_fast_large_sizes_do_not_make_up_for_slow_small_ones() -> None:
    # Its mean busbw is above that of the healthy run.
    found = only(judge(log(scaled(lambda size: 6.0 if size <= 8192 else 0.97))))
    assert found.grade == "SLOW"


def test_one_slow_size_alone_is_named_and_is_no_verdict() -> None:
    found = only(judge(log(scaled(lambda size: 1.5 if size == 268435456 else 1.0))))
    assert found.grade == "GOOD"
    assert "256 MiB" in found.reasons[0]
    assert [(one.kind, one.size_bytes) for one in found.features] == [("dip", 268435456)]


def test_every_other_size_slow_is_not_good() -> None:
    every_other = sorted(size for size in GOOD_H200_X4 if 8192 < size < 1 << 27)[::2]
    found = only(judge(log(scaled(lambda size: 3.0 if size in every_other else 1.0))))
    assert found.grade in ("UNSURE", "SLOW")


@pytest.mark.parametrize(
    ("slow", "grade"),
    [([], "GOOD"), ([20], "GOOD"), ([17, 20], "UNSURE"), ([15, 17, 20, 22], "UNSURE"), ([17, 18], "SLOW")],
)
def test_only_one_size_of_a_band_may_be_out_of_range(slow: list[int], grade: str) -> None:
    limits = {1 << power: 20.0 * 1.5 ** (power - 15) for power in range(15, 27)}
    good = host(limits)
    run = host({size: time * (1.3 if size.bit_length() - 1 in slow else 1) for size, time in limits.items()})
    (band,) = [
        one
        for one in only(judge(run, selection=ReferenceSelection(name="good", log=good))).bands
        if one.band == "middle"
    ]
    assert band.grade == grade
    assert ("128 KiB" in band.reason) == (17 in slow and 18 not in slow)
    assert ("1 MiB" in band.reason) == (20 in slow)


def test_two_placements_that_agree_on_one_very_slow_size_are_no_disturbance() -> None:
    sendrecv = judge(read(GOLDEN / "nccl_tests_2_19_6_ten.txt"))[0]
    assert "sendrecv" in sendrecv.title
    assert sendrecv.grade == "UNSURE"  # 156 GB/s at 64 MiB in both placements, and 300 to 366 above
    assert "only 64 MiB is beyond the range" in sendrecv.reasons[0]


@pytest.mark.parametrize(("factor", "grade"), [(1.2, "GOOD"), (2.2, "UNSURE"), (4.0, "SLOW")])
def test_a_range_that_would_accept_a_fault_does_not_confirm_a_run(factor: float, grade: str) -> None:
    """The range of small messages reaches 2.5 times the typical time."""
    found = only(judge(log(scaled(lambda size: factor if size <= 8192 else 1.0))))
    assert found.grade == grade
    if grade == "UNSURE":
        assert "in a range too wide to reject a fault" in found.reasons[0]
        assert "2.12 times the typical time" in found.reasons[0]  # 2.2 x 9.85 us of 10.2 us


@pytest.mark.parametrize("name", sorted(systems()))
def test_no_band_at_twice_the_typical_time_is_good(name: str) -> None:
    system = find_system(name)
    ranks = 2 * system.ranks_per_node if system.nics else system.ranks_per_node
    scenario = Scenario(collective="all_reduce", ranks=ranks, ranks_per_node=system.ranks_per_node)
    expectation = expect(scenario, system, SIZES)
    if expectation.unknown:
        assert name in ("host", "h200-nvl")
        return
    typical = {one.size_bytes: one.time_us.typical for one in expectation.estimates}
    for factor, expected in ((1.0, {"GOOD"}), (2.02, {"UNSURE", "SLOW"})):
        times = {size: time * factor for size, time in typical.items()}
        found = only(judge(log(times, device=None, ranks=ranks), system=system))
        assert {band.grade for band in found.bands} <= expected


@pytest.mark.parametrize(("busbw_gbps", "grade"), [(23.0, "GOOD"), (20.0, "GOOD"), (12.4, "UNSURE"), (9.0, "SLOW")])
def test_half_of_a_fast_pcie_machine_is_not_good(busbw_gbps: float, grade: str) -> None:
    """Healthy L40S nodes reach 12 to 24 GB/s: half of 24 with 3 % of run-to-run variation is inside the range."""
    factor = 2 * 7 / 8
    times = {1 << power: (1 << power) / busbw_gbps / 1e3 * factor for power in range(28, 33)}
    found = only(judge(log(times, device="NVIDIA L40S", ranks=8)))
    assert grades(found) == {"plateau": grade}
    if grade == "UNSURE":
        assert "1.61 times the typical time, in a range too wide to reject a fault" in found.reasons[0]


@pytest.mark.parametrize("collective", ["broadcast", "alltoall"])
@pytest.mark.parametrize(
    ("time_us", "in_graph", "grade"), [(28.0, False, "UNSURE"), (60.0, False, "SLOW"), (28.0, True, "SLOW")]
)
def test_launches_may_bound_small_sizes(collective: str, time_us: float, in_graph: bool, grade: str) -> None:
    """Published on 4 healthy H200 without graphs: broadcast of 1 KiB 25 us, alltoall 29 to 40 us."""
    launched = log(dict.fromkeys((1024, 2048, 4096, 8192), time_us), collective=collective)
    tables = tuple(
        msgspec.structs.replace(
            table,
            settings={"nGpus": "1", "graph": "1" if in_graph else "0"},
            rows=tuple(
                msgspec.structs.replace(row, figures={"out_of_place": Figure(time_us=time_us)}) for row in table.rows
            ),
        )
        for table in launched.tables
    )
    found = only(judge(msgspec.structs.replace(launched, tables=tables)))
    assert grades(found) == {"latency": grade}
    if grade == "UNSURE":
        assert "remove the launches (-G 50)" in found.reasons[0]


def test_the_distance_from_typical_is_stated_if_the_range_is_wide() -> None:
    """391 GB/s of 16 H100 over 8 NICs: in the range of 377 to 525, but 19 % below 482."""
    wide = judge(read(GOLDEN / "seeds" / "000_4bd6902a841c76ab.txt"))[0]
    assert wide.grade == "GOOD"
    assert wide.reasons == ("every band within its range or better, at worst 19 % below typical (plateau)",)
    assert "at worst 19 % below typical (8 GiB)" in wide.bands[0].reason
    narrow = only(judge(log(GOOD_H200_X4), selection=against(GOOD_H200_X4)))
    assert [band.reason for band in narrow.bands][2] == "every size within the range or better"


def test_figures_that_are_faster_than_the_range_have_no_worst_distance() -> None:
    """Half of the typical time is faster than the ranges, 0.99 of it is inside them: neither is below typical."""
    scenario = Scenario(collective="all_reduce", ranks=4, ranks_per_node=4)
    typical = {
        one.size_bytes: one.time_us.typical for one in expect(scenario, find_system("h200-sxm"), SIZES).estimates
    }
    for factors in ((0.99, 0.99), (0.5, 0.99), (0.99, 0.5)):
        small, large = factors
        times = {size: time * (small if size <= 8192 else large) for size, time in typical.items() if size <= 1 << 21}
        found = only(judge(log(times)))
        assert (found.grade, found.reasons) == ("GOOD", ("every band within its range or better",))
        assert {band.reason for band in found.bands} == {"every size within the range or better"}
    slower = {size: time * (1.05 if size <= 8192 else 0.5) for size, time in typical.items() if size <= 1 << 21}
    found = only(judge(log(slower)))
    assert found.reasons == ("every band within its range or better, at worst 5 % above typical (latency)",)


def test_wrong_data_is_broken_whatever_the_speed() -> None:
    figures: list[tuple[int, dict[Placement, Figure]]] = [
        (size, {"out_of_place": figure(size, time, check="checked", wrong_elements=7 if size == 65536 else 0)})
        for size, time in GOOD_H200_X4.items()
    ]
    found = only(judge(log(figures)))
    assert found.grade == "BROKEN"
    assert "7 wrong" in found.reasons[0]


def test_wrong_data_in_the_footer_are_broken() -> None:
    assert only(judge(log(GOOD_H200_X4, claimed_out_of_bounds=2))).grade == "BROKEN"


def test_a_run_without_its_end_is_not_good() -> None:
    found = only(judge(log(GOOD_H200_X4, complete=False, end_reason="killed")))
    assert found.grade == "UNSURE"
    assert "ended early (killed)" in found.reasons[-1]
    slow = only(judge(log(scaled(lambda size: 9.0), complete=False)))
    assert slow.grade == "SLOW"


def test_one_rank_is_explained() -> None:
    found = only(judge(log({8: 4.0, 1 << 20: 5.0}, ranks=1)))
    assert found.grade == "UNSURE"
    assert "nothing crosses a link" in found.reasons[0]
    assert "MPI=1" in found.advice[0]


@pytest.mark.parametrize(
    "one",
    [
        Figure(time_us=1000.0, algbw_gbps=0.001, busbw_gbps=0.0015),  # milliseconds taken for microseconds
        Figure(time_us=10.0, algbw_gbps=104.8576, busbw_gbps=200.0),  # the factor of another number of ranks
        Figure(time_us=1000.0, algbw_gbps=50.0, busbw_gbps=75.0, derived=("algbw_gbps",)),  # another size
    ],
)
def test_figures_that_contradict_are_not_judged(one: Figure) -> None:
    found = only(judge(log([(1 << 20, {"out_of_place": one})])))
    assert found.grade == "UNSURE"
    assert "contradict" in found.reasons[0]


@pytest.mark.parametrize(
    ("size_bytes", "rounded"),
    [
        (2048, Figure(time_us=18.66, algbw_gbps=0.11, busbw_gbps=0.16)),
        (1024, Figure(time_us=5.0, algbw_gbps=0.22, busbw_gbps=0.33, derived=("algbw_gbps",))),  # 4.65 us, rounded
    ],
)
def test_rounded_figures_do_not_contradict(size_bytes: int, rounded: Figure) -> None:
    found = only(judge(log([(size_bytes, {"out_of_place": rounded})])))
    assert not any("contradict" in reason for reason in found.reasons)


def test_busbw_above_all_limits_is_unsure() -> None:
    found = only(judge(log(scaled(lambda size: 0.4))))
    assert found.grade == "UNSURE"
    assert any("above the limit" in reason for reason in found.reasons)


def test_an_unknown_machine_needs_a_reference() -> None:
    found = only(judge(log(GOOD_H200_X4, device=None)))
    assert found.grade == "UNSURE"
    assert any("--reference FILE" in sentence for sentence in found.advice)
    assert only(judge(log(GOOD_H200_X4, device=None), system=find_system("h200-sxm"))).grade == "GOOD"


def test_rows_that_could_not_be_read_may_be_the_slow_ones() -> None:
    good, slow = log(GOOD_H200_X4), log(scaled(lambda size: 9.0))
    both = Log(
        source="a test",
        tables=(
            msgspec.structs.replace(good.tables[0], first_line=1),
            msgspec.structs.replace(slow.tables[0], first_line=100),
        ),
        refused=(Refusal(line=7, text="8 2 float", reason="a test"),),
    )
    verdicts = judge(both)
    assert [one.grade for one in verdicts] == ["UNSURE", "SLOW"]
    assert "1 row of the log could not be read" in verdicts[0].reasons[0]
    elsewhere = msgspec.structs.replace(both, refused=(Refusal(line=107, text="8 2 float", reason="a test"),))
    assert [one.grade for one in judge(elsewhere)] == ["GOOD", "SLOW"]


def test_no_tables_give_no_verdict() -> None:
    assert judge(Log(source="empty")) == ()


def test_a_table_without_rows_is_unsure_and_broken_where_its_footer_says_so() -> None:
    empty = Table(format="a test", collective="all_reduce", end_reason="out of memory")
    found = only(judge(Log(source="a test", tables=(empty,))))
    assert found.grade == "UNSURE"
    assert "out of memory" in found.reasons[-1]
    wrong = Table(format="a test", collective="all_reduce", claimed_out_of_bounds=3)
    assert only(judge(Log(source="a test", tables=(wrong,)))).grade == "BROKEN"


def test_wrong_rows_of_one_configuration_do_not_break_another() -> None:
    rows = [
        Row(
            line=1,
            size_bytes=1 << 20,
            dtype=dtype,
            figures={"out_of_place": figure(1 << 20, 20.0, wrong_elements=wrong)},
        )
        for dtype, wrong in (("float", 3), ("half", 0))
    ]
    table = log(GOOD_H200_X4, claimed_out_of_bounds=1).tables[0]
    mixed = Log(source="a test", tables=(msgspec.structs.replace(table, rows=tuple(rows)),))
    assert [one.grade for one in judge(mixed)] == ["BROKEN", "GOOD"]


def test_hypercube_counts_its_share_in_algbw() -> None:
    # A published row: 1 MiB in 40.54 us on 4 ranks, algbw = busbw = 19.40 GB/s.
    rows: list[tuple[int, dict[Placement, Figure]]] = [
        (1048576, {"out_of_place": Figure(time_us=40.54, algbw_gbps=19.40, busbw_gbps=19.40)}),
        (4194304, {"out_of_place": Figure(time_us=40.36, algbw_gbps=77.94, busbw_gbps=77.94)}),
    ]
    found = only(judge(log(rows, collective="hypercube")))
    assert not any("contradict" in reason for reason in found.reasons)


def test_hypercube_without_time_has_the_time_of_its_share() -> None:
    rows: list[tuple[int, dict[Placement, Figure]]] = [(1048576, {"out_of_place": Figure(algbw_gbps=19.40)})]
    (series,) = series_of(log(rows, collective="hypercube"))
    assert series.points[0].time_us == pytest.approx(40.54, rel=1e-3)


def test_rows_without_a_size_or_time_are_unsure() -> None:
    found = only(judge(log([(0, {"out_of_place": Figure(time_us=3.0)})])))
    assert found.grade == "UNSURE"
    assert "no row has a time" in found.reasons[0]


# --- noise


def noisy(size: int, time_us: float, interval: tuple[float, float]) -> tuple[int, dict[Placement, Figure]]:
    stats = StatsRecord(
        samples=20, mean_us=time_us, median_us=time_us, p95_us=time_us, p99_us=time_us, min_us=time_us,
        max_us=time_us, stdev_us=0.0, cv_percent=0.0, median_ci95_us=interval,
    )  # fmt: skip
    return size, {"out_of_place": figure(size, time_us, stats=stats)}


def test_an_interval_that_reaches_beyond_the_range_is_unsure() -> None:
    rows = [noisy(size, time * 1.1, (time * 0.9, time * 9)) for size, time in GOOD_H200_X4.items()]
    found = only(judge(log(rows)))
    assert found.grade == "UNSURE"
    assert any("too noisy" in reason and "--target-ci" in reason for reason in found.reasons)


def test_an_interval_wholly_beyond_the_range_is_slow() -> None:
    rows = [noisy(size, time * 9, (time * 8, time * 10)) for size, time in GOOD_H200_X4.items()]
    assert only(judge(log(rows))).grade == "SLOW"


def launched(launch_us: float, clock: SampleClock | None = "gated_device_events") -> Log:
    """A record of our own on GPUs: samples and intervals of what operations take on the device, time with launching."""
    rows = []
    for size, device_us in GOOD_H200_X4.items():
        _, figures = noisy(size, device_us, (0.99 * device_us, 1.01 * device_us))
        stats = figures["out_of_place"].stats
        one = figure(
            size,
            max(launch_us, device_us),
            stats=stats,
            device_time_us=device_us,
            launch_time_us=launch_us,
            sample_clock=clock,
        )
        rows.append((size, {"out_of_place": one}))
    return log(rows)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("launch_us", "grade", "plateau"),
    [
        (5, "GOOD", "GOOD"), (12, "GOOD", "GOOD"), (40, "SLOW", "GOOD"), (200, "SLOW", "GOOD"),
        (1000, "SLOW", "UNSURE"),  # 64 MiB takes 3.1 times its time
    ],
)  # fmt: skip
def test_samples_of_a_gpu_exclude_launch_time(launch_us: float, grade: str, plateau: str) -> None:
    found = only(judge(launched(launch_us)))
    assert found.grade == grade
    assert grades(found)["plateau"] == plateau
    assert only(judge(launched(launch_us), selection=ReferenceSelection(name="good", log=launched(12)))).grade == grade


@pytest.mark.parametrize(
    ("clock", "grade"), [("gated_device_events", "SLOW"), (None, "SLOW"), ("device_events", "GOOD")]
)
def test_samples_count_only_if_they_are_known_to_include_launch_time(clock: SampleClock | None, grade: str) -> None:
    good = ReferenceSelection(name="good", log=launched(12, clock))
    assert only(judge(launched(40, clock), selection=good)).grade == grade


def test_placements_that_disagree_are_unsure() -> None:
    rows: list[tuple[int, dict[Placement, Figure]]] = [
        (size, {"out_of_place": figure(size, time), "in_place": figure(size, time * 3)})
        for size, time in GOOD_H200_X4.items()
    ]
    found = only(judge(log(rows)))
    assert found.grade == "UNSURE"
    assert any("disagree" in reason for reason in found.reasons)


# --- causes


def h100_x8(gbps: float) -> Log:
    """Eight GPUs with a plateau of `gbps`."""
    return log({size: 15 + size * 1.75 / gbps / 1e3 for size in SIZES}, device="NVIDIA H100 80GB HBM3", ranks=8)


@pytest.mark.parametrize(
    ("gbps", "words"),
    [(360, "typical of Ring"), (48, "PCIe 5"), (24, "PCIe 4"), (150, "matches no other route")],
)
def test_a_slow_plateau_is_compared_with_known_figures(gbps: float, words: str) -> None:
    found = only(judge(h100_x8(gbps)))
    assert found.grade == "SLOW"
    assert any(words in cause for cause in found.causes)


def test_causes_are_ordered_by_evidence_and_name_their_confirmation() -> None:
    """MSCCL++ in a graph of one operation: the library comes first, and no advice that the run already follows."""
    all_reduce, _, all_gather, *_ = judge(read(GOLDEN / "logs" / "h200_x4_mscclpp_G1.txt"))
    for verdict in (all_reduce, all_gather):
        assert verdict.grade == "SLOW"
        assert verdict.causes[0].startswith("the run used a library with version code 900")
        assert all(". To confirm: " in cause for cause in verdict.causes)
    _, start_up, plateau = all_gather.causes
    assert "typical is 8.422 us" in start_up  # 4.2 times the typical time, the plateau only 1.2 times
    assert "-G 50" in start_up
    assert "GDRDMA" not in start_up  # one node
    assert "matches no other route" in plateau


def test_a_stated_setting_comes_before_a_matching_figure() -> None:
    run = h100_x8(48)
    table = msgspec.structs.replace(run.tables[0], environment={"NCCL_P2P_DISABLE": "1", "NCCL_IB_DISABLE": "0"})
    found = only(judge(msgspec.structs.replace(run, tables=(table,))))
    stated, matching = found.causes
    assert "NCCL_P2P_DISABLE=1" in stated
    assert "PCIe 5" in matching


def test_missing_nics_are_recognized() -> None:
    half = {size: 25 + size * 1.875 / 42 / 1e3 for size in SIZES}
    slow = log(half, device="NVIDIA A100-SXM4-40GB", ranks=16, hosts=2)
    found = only(judge(slow, system=find_system("a100-p4d")))
    assert found.grade == "SLOW"
    assert any("2 of the 4 NICs" in cause for cause in found.causes)


# --- NICs that nobody has stated


def over_nodes(gbps: float, *, ranks: int = 16, device: str = "NVIDIA H100 80GB HBM3", **more: object) -> Log:
    times = {size: 40 + size * 2 * (ranks - 1) / ranks / gbps / 1e3 for size in SIZES}
    return log(times, device=device, ranks=ranks, hosts=ranks // 8, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("gbps", "device"),
    [(328, "NVIDIA H100 80GB HBM3"), (78.3, "NVIDIA A100-SXM4-40GB")],  # A3 Mega and p4de, both healthy
)
def test_nothing_is_slow_over_assumed_nics(gbps: float, device: str) -> None:
    found = only(judge(over_nodes(gbps, device=device)))
    assert found.grade == "UNSURE"
    assert "SLOW" not in grades(found).values()
    assert "per node (assumed)" in found.yardstick
    assert "the NICs of a node are not stated" in found.reasons[0]
    assert "--nics 8x400" in found.advice[0]
    assert found.causes == ()
    assert any("NICs not stated by the run" in sentence for sentence in found.beside)


def test_a_run_can_be_slow_over_stated_nics() -> None:
    run = over_nodes(150)
    assert only(judge(run)).grade == "UNSURE"
    assert only(judge(run, system=find_system("h100-sxm"))).grade == "SLOW"
    assert only(judge(run, nics=Nics(count=8, gbit=400, source="a test"))).grade == "SLOW"
    titled = only(judge(over_nodes(150, title="2x 8 H100 8x400Gbps")))
    assert titled.grade == "SLOW"
    assert "over 8 x 400 Gb/s per node" in titled.yardstick
    assert "assumed" not in titled.yardstick
    healthy = only(judge(run, nics=Nics(count=8, gbit=100, source="a test")))
    assert healthy.grade == "GOOD"


def test_a_run_can_be_good_over_assumed_nics() -> None:
    found = only(judge(over_nodes(470)))
    assert found.grade == "GOOD"
    assert "(assumed)" in found.yardstick


def test_auto_does_not_decide_over_assumed_nics() -> None:
    auto = ReferenceSelection(name="auto", nearest=True)
    found = only(judge(over_nodes(328), selection=auto))
    assert found.grade == "UNSURE"
    assert "the NICs of a node are not stated" in found.reasons[0]
    assert only(judge(over_nodes(328), selection=auto, system=find_system("h100-p5"))).grade == "SLOW"


def test_unequal_nodes_need_a_reference() -> None:
    table = over_nodes(87).tables[0]
    ranks = tuple(msgspec.structs.replace(rank, host="n0" if rank.rank < 8 else "n1") for rank in table.rank_list[:9])
    rows = log({size: 40 + size * 16 / 9 / 87 / 1e3 for size in SIZES}, ranks=9).tables[0].rows
    run = Log(source="a test", tables=(msgspec.structs.replace(table, ranks=9, rank_list=ranks, rows=rows),))
    found = only(judge(run, system=find_system("h100-sxm")))
    assert found.grade == "UNSURE"
    assert "unequal" in found.reasons[0]
    assert "--reference FILE" in found.advice[0]
    assert only(judge(run, selection=ReferenceSelection(name="itself", log=run))).grade == "GOOD"


# --- groups (NCCL_TESTS_SPLIT)


def rails(gbps: dict[int, float]) -> Log:
    """All 16 GPUs of two nodes in pairs across them, one a rail, with the plateau of each group."""
    table = log({}, device="NVIDIA H100 80GB HBM3", ranks=16, hosts=2).tables[0]
    rows = tuple(
        Row(
            line=1, size_bytes=size, dtype="float", redop="sum", ranks=2, group=group,
            figures={"out_of_place": figure(size, 30 + size / one / 1e3, 2)},
        )
        for size in SIZES
        for group, one in gbps.items()
    )  # fmt: skip
    ranks = tuple(msgspec.structs.replace(rank, group=rank.rank % 8) for rank in table.rank_list)
    return Log(source="a test", tables=(msgspec.structs.replace(table, rows=rows, rank_list=ranks),))


def test_pairs_across_nodes_are_compared_with_their_nics() -> None:
    found = judge(rails({group: 23 if group == 3 else 46 for group in range(8)}), system=find_system("h100-sxm"))
    assert [one.grade for one in found] == ["GOOD"] * 3 + ["SLOW"] + ["GOOD"] * 4
    assert not any("NVLink" in cause for one in found for cause in one.causes)


def test_rows_below_a_list_of_all_groups_are_of_one() -> None:
    """As nccl-tests prints them: the rows are those of group 0, and 16 ranks are listed."""
    table = rails({0: 46}).tables[0]
    rows = tuple(msgspec.structs.replace(row, ranks=16) for row in table.rows)
    run = Log(source="a test", tables=(msgspec.structs.replace(table, rows=rows),))
    found = only(judge(run, system=find_system("h100-sxm")))
    assert found.grade == "GOOD"
    assert "2 ranks" in found.title


def test_a_group_is_compared_with_the_same_group() -> None:
    good = ReferenceSelection(name="good", log=rails({group: 23 if group == 3 else 46 for group in range(8)}))
    assert [one.grade for one in judge(good.log or rails({}), selection=good)] == ["GOOD"] * 8
    found = judge(rails(dict.fromkeys(range(8), 23)), selection=good)
    assert [one.grade for one in found] == ["SLOW"] * 3 + ["GOOD"] + ["SLOW"] * 4


def test_the_hosts_of_a_group_are_compared() -> None:
    run, pair = rails({0: 46}), log(GOOD_H200_X4, device="NVIDIA H100 80GB HBM3", ranks=2)
    found = only(judge(run, selection=ReferenceSelection(name="a node", log=pair)))
    assert "hosts 2 against 1" in found.reasons[0]
    assert only(judge(run, selection=ReferenceSelection(name="itself", log=run))).grade == "GOOD"


# --- references


def against(times_us: dict[int, float], **more: object) -> ReferenceSelection:
    return ReferenceSelection(name="good.txt", log=log(times_us, **more))  # type: ignore[arg-type]


def host(times_us: dict[int, float]) -> Log:
    return log(times_us, device="AMD EPYC")


HOST = {size: 5 + size / 2.0 / 1e3 for size in SIZES}


def test_a_run_is_as_good_as_itself() -> None:
    found = only(judge(host(HOST), selection=ReferenceSelection(name="itself", log=host(HOST))))
    assert found.grade == "GOOD"
    assert [band.worst.ratio for band in found.bands] == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(("times", "grade"), [(1.02, "GOOD"), (0.5, "GOOD"), (1.3, "SLOW"), (3.0, "SLOW")])
def test_a_host_run_against_a_good_one(times: float, grade: str) -> None:
    run = host({size: time * times for size, time in HOST.items()})
    assert only(judge(run, selection=ReferenceSelection(name="good", log=host(HOST)))).grade == grade


def test_a_host_run_alone_is_unsure() -> None:
    ranks = tuple(Rank(rank=number, bus_id="cpu", device_name="AMD EPYC") for number in range(4))
    run = host(HOST)
    alone = Log(
        source="a test",
        tables=(Table(format="records", ranks=4, collective="all_reduce", rank_list=ranks, rows=run.rows),),
    )
    found = only(judge(alone))
    assert found.grade == "UNSURE"
    assert "not known" in found.reasons[0]


def test_a_noisy_reference_has_wider_ranges() -> None:
    quiet = ReferenceSelection(name="quiet", log=host(HOST))
    spread: list[tuple[int, dict[Placement, Figure]]] = [
        (size, {"out_of_place": figure(size, time), "in_place": figure(size, time * 1.4)})
        for size, time in HOST.items()
    ]
    run = host({size: time * 1.25 for size, time in HOST.items()})
    assert only(judge(run, selection=quiet)).grade == "SLOW"
    assert (
        only(judge(run, selection=ReferenceSelection(name="noisy", log=log(spread, device="AMD EPYC")))).grade == "GOOD"
    )


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"ranks": 8}, "ranks 4 against 8"),
        ({"collective": "all_gather"}, "collective all_reduce against all_gather"),
        ({"device": "NVIDIA H100"}, "GPU"),
        ({"hosts": 2}, "hosts 1 against 2"),
    ],
)
def test_unlike_runs_are_not_compared(more: dict[str, object], words: str) -> None:
    found = only(judge(log(GOOD_H200_X4), selection=against(GOOD_H200_X4, **more)))
    assert found.grade == "UNSURE"
    assert "not comparable" in found.reasons[0]
    assert words in found.reasons[0]


def test_sizes_that_do_not_overlap_are_unsure() -> None:
    small = {size: time for size, time in GOOD_H200_X4.items() if size < 1 << 20}
    large = {size: time for size, time in GOOD_H200_X4.items() if size > 1 << 20}
    found = only(judge(log(small), selection=against(large)))
    assert found.grade == "UNSURE"
    assert "the reference covers no size" in found.reasons[0]


def test_sizes_between_those_of_the_reference_are_judged() -> None:
    between = {2 * size: 2 * size / (size / time) for size, time in GOOD_H200_X4.items() if 1 << 23 < size < 1 << 30}
    found = only(judge(log(between), selection=against(GOOD_H200_X4)))
    assert found.grade == "GOOD"


def test_a_published_reference_by_name() -> None:
    reference = find_reference("h200-x4")
    good = only(judge(log(GOOD_H200_X4), selection=ReferenceSelection(name="h200-x4", reference=reference)))
    assert good.grade == "GOOD"
    assert "h200-x4" in good.yardstick
    slow = only(judge(log(scaled(lambda size: 1.4)), selection=ReferenceSelection(name="h200-x4", reference=reference)))
    assert slow.grade == "SLOW"


def test_auto_states_the_similarity() -> None:
    found = only(judge(log(GOOD_H200_X4), selection=ReferenceSelection(name="auto", nearest=True)))
    assert found.grade == "GOOD"
    assert any("nearest published: h200-x4" in sentence for sentence in found.beside)


@pytest.mark.parametrize(
    ("ranks", "device", "words"),
    [
        (3, "NVIDIA H200", "ranks 3 against"),
        (4, None, "does not state its GPU"),
        (4, "NVIDIA Z9", "GPU NVIDIA Z9 against"),
        (8, "NVIDIA H100 PCIe", "not comparable"),
    ],
)
def test_auto_does_not_compare_different_configurations(ranks: int, device: str | None, words: str) -> None:
    run = log({size: time * 0.5 for size, time in GOOD_H200_X4.items()}, ranks=ranks, device=device)
    found = only(judge(run, selection=ReferenceSelection(name="auto", nearest=True)))
    assert found.grade == "UNSURE"
    assert words in found.reasons[0]


def test_a_floor_decides_nothing() -> None:
    run = log({1 << 30: 4000.0}, device="NVIDIA H100", ranks=8)
    found = only(
        judge(run, selection=ReferenceSelection(name="h100-x8-floor", reference=find_reference("h100-x8-floor")))
    )
    assert found.grade == "UNSURE"


def test_a_bandwidth_of_one_rank_gives_no_time() -> None:
    points = [PublishedPoint(size_bytes=1024, busbw_gbps=5.0)]
    sweep = Sweep(collective="all_reduce", points=points)
    reference = msgspec.structs.replace(find_reference("h100-x8-floor"), ranks=1, sweeps=[sweep])
    facts = RunFacts.of(next(series_of(log(GOOD_H200_X4))))
    yardstick = yardstick_from_reference("one rank", reference, sweep, facts)
    assert yardstick.range_us(1024, "out_of_place") is None


def test_a_stated_system_does_not_judge_another_device() -> None:
    ranks = tuple(Rank(rank=number, bus_id="cpu", device_name="AMD EPYC") for number in range(4))
    table = msgspec.structs.replace(log(GOOD_H200_X4).tables[0], rank_list=ranks)
    found = only(judge(Log(source="a test", tables=(table,)), system=find_system("h100-sxm")))
    assert (found.grade, found.reason_kind) == ("UNSURE", "other_system")
    assert "AMD EPYC" in found.reasons[0]
    assert "H100" in found.reasons[0]
    assert found.bands == ()
    other_gpu = only(judge(log(GOOD_H200_X4), system=find_system("h100-sxm")))
    assert other_gpu.reason_kind == "other_system"


# --- several


def test_each_configuration_has_its_verdict() -> None:
    good, slow = log(GOOD_H200_X4), log(scaled(lambda size: 9.0))
    both = Log(source="a test", tables=(*good.tables, *slow.tables))
    assert [one.grade for one in judge(both)] == ["GOOD", "SLOW"]


def test_the_worst_grade_counts() -> None:
    assert worst(["GOOD", "UNSURE"]) == "UNSURE"
    assert worst(["UNSURE", "SLOW"]) == "SLOW"
    assert worst(["SLOW", "BROKEN", "GOOD"]) == "BROKEN"
    assert worst([]) == "UNSURE"
    assert {grade: int(code) for grade, code in EXIT_OF.items()} == {"GOOD": 0, "SLOW": 5, "BROKEN": 1, "UNSURE": 3}


@given(
    st.lists(
        st.tuples(st.integers(0, 1 << 40), st.floats(1e-3, 1e9), st.sampled_from(["out_of_place", "in_place"])),
        max_size=12,
    ),
    st.integers(1, 100),
    st.sampled_from(["all_reduce", "alltoall", "hypercube", "unheard_of"]),
)
def test_any_log_can_be_judged(figures: list[tuple[int, float, Placement]], ranks: int, collective: str) -> None:
    rows = [(size, {placement: Figure(time_us=time)}) for size, time, placement in figures]
    run = log(rows, ranks=ranks, collective=collective)
    for verdict in (*judge(run), *judge(run, selection=ReferenceSelection(name="itself", log=run))):
        assert verdict.grade in EXIT_OF
        assert verdict.reasons


def both_placements(slow_in_place: bool, factor: float = 1.5) -> Log:
    """One size is slow out of place, and perhaps in place too."""
    rows: list[tuple[int, dict[Placement, Figure]]] = []
    for size, time in GOOD_H200_X4.items():
        slow = factor if size == 268435456 else 1.0
        other = slow if slow_in_place else 1.0
        rows.append((size, {"out_of_place": figure(size, time * slow), "in_place": figure(size, time * other)}))
    return log(rows)


def test_a_dip_in_both_placements_is_a_property() -> None:
    found = only(judge(both_placements(slow_in_place=True)))
    assert [one.size_bytes for one in found.features] == [268435456]
    assert "in both placements" in found.features[0].evidence


def test_a_dip_in_one_placement_is_a_disturbance() -> None:
    found = only(judge(both_placements(slow_in_place=False)))
    assert [one.size_bytes for one in found.features] == [268435456]
    assert "in one placement only" in found.features[0].likely


@pytest.mark.parametrize(("factor", "grade"), [(1.5, "GOOD"), (2.1, "UNSURE")])
def test_one_placement_at_twice_the_typical_time_is_not_good(factor: float, grade: str) -> None:
    found = only(judge(both_placements(slow_in_place=False, factor=factor)))
    assert found.grade == grade
    assert "only one placement of 256 MiB is beyond the range" in found.reasons[0]
    assert ("too slow for a disturbance" in found.reasons[0]) == (grade == "UNSURE")


@pytest.mark.parametrize(
    ("unknown", "words"),
    [
        ({"ranks": None}, "its number of ranks"),
        ({"collective": None}, "its collective"),
        ({"rank_list": ()}, "the system is not known"),
    ],
)
def test_missing_facts_of_a_log_are_named(unknown: dict[str, object], words: str) -> None:
    table = msgspec.structs.replace(log(GOOD_H200_X4).tables[0], **unknown)
    found = only(judge(Log(source="a test", tables=(table,))))
    assert found.grade == "UNSURE"
    assert words in found.reasons[0]
    itself = only(
        judge(log(GOOD_H200_X4), selection=ReferenceSelection(name="other", log=Log(source="x", tables=(table,))))
    )
    assert itself.grade == ("GOOD" if "rank_list" in unknown else "UNSURE")


def with_stats(times_us: dict[int, float], *, mean: float = 1.0, p95: float = 1.0) -> Log:
    """A record of the host backend: medians as given, means and 95th percentiles so many times them."""
    rows: list[tuple[int, dict[Placement, Figure]]] = []
    for size, median in times_us.items():
        stats = StatsRecord(
            samples=50, mean_us=median * mean, median_us=median, p95_us=median * p95, p99_us=median * p95,
            min_us=median, max_us=median * p95, stdev_us=0.0, cv_percent=0.0, median_ci95_us=(median, median),
        )  # fmt: skip
        rows.append((size, {"out_of_place": figure(size, median * mean, stats=stats)}))
    return log(rows, device="AMD EPYC")


def test_late_iterations_do_not_make_a_record_slow() -> None:
    good, run = with_stats(HOST), with_stats(HOST, mean=1.6)
    found = only(judge(run, selection=ReferenceSelection(name="good", log=good)))
    assert found.grade == "GOOD"
    assert {band.worst.ratio for band in found.bands} == {1.0}
    assert found.yardstick == "good, by medians of the iterations"  # the table shows means


def test_slow_medians_do() -> None:
    slow = {size: time * 1.6 for size, time in HOST.items()}
    found = only(judge(with_stats(slow), selection=ReferenceSelection(name="good", log=with_stats(HOST))))
    assert found.grade == "SLOW"


def test_iterations_that_vary_more_than_the_excess_time_are_unsure() -> None:
    slow = {size: time * 1.6 for size, time in HOST.items()}
    found = only(judge(with_stats(slow, p95=2.0), selection=ReferenceSelection(name="good", log=with_stats(HOST))))
    assert found.grade == "UNSURE"


def test_times_that_drop_with_size_are_noise() -> None:
    # Every second size takes four times as long, up to the sizes at which bandwidth matters.
    wild = {size: time * (4 if number % 2 else 1.3) for number, (size, time) in enumerate(HOST.items())}
    found = only(judge(host(wild), selection=ReferenceSelection(name="good", log=host(HOST))))
    assert {band.band: band.grade for band in found.bands}["latency"] == "UNSURE"
    assert any("times drop repeatedly" in reason for reason in found.reasons)


def test_a_table_against_a_record_is_compared_by_means() -> None:
    found = only(judge(host(HOST), selection=ReferenceSelection(name="record", log=with_stats(HOST, mean=1.0))))
    assert found.grade == "GOOD"


def in_the_middle(change: Callable[[float], float]) -> Verdict:
    return only(
        judge(log({size: change(time) if 8192 < size < 1 << 25 else time for size, time in GOOD_H200_X4.items()}))
    )


def test_constant_extra_time_is_distinguished_from_low_bandwidth() -> None:
    start = in_the_middle(lambda time: time + 200)
    assert any("at every slow size: start-up time" in cause for cause in start.causes)
    share = in_the_middle(lambda time: time * 5)
    assert any("low bandwidth" in cause for cause in share.causes)


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ({size: time for size, time in GOOD_H200_X4.items() if size < 1 << 25}, "measure larger sizes (-e 8G)"),
        (GOOD_H200_X4, "a poor choice of algorithm or protocol. To confirm: read the algorithm and protocol"),
        (scaled(lambda size: 3.0 if size > 1 << 25 else 1.0), "low bandwidth, as larger sizes are SLOW too"),
        (scaled(lambda size: 3.0 if size == 1 << 28 else 1.0), "low bandwidth. To confirm: decide about the plateau"),
    ],
)
def test_only_a_log_without_larger_sizes_is_told_to_measure_them(times: dict[int, float], expected: str) -> None:
    slow = {size: time * 5 if 8192 < size < 1 << 25 else time for size, time in times.items()}
    (cause,) = (cause for cause in only(judge(log(slow))).causes if "at every slow size" in cause)
    assert expected in cause
    assert ("measure larger sizes" in cause) == (max(times) < 1 << 25)


def test_a_late_plateau_is_distinguished_from_a_low_one() -> None:
    late = only(judge(log(scaled(lambda size: 1.5 if size in (67108864, 268435456) else 1.0))))
    assert late.grade == "SLOW"
    assert any("do not reach it" in cause for cause in late.causes)


@pytest.mark.parametrize("slow", ["out_of_place", "in_place"])
def test_one_placement_that_is_slow_at_all_large_sizes_is_unsure(slow: Placement) -> None:
    rows: list[tuple[int, dict[Placement, Figure]]] = [
        (
            size,
            {
                placement: figure(size, time * (1.29 if placement == slow and size > 1 << 25 else 1))
                for placement in ("out_of_place", "in_place")
            },
        )
        for size, time in GOOD_H200_X4.items()
    ]
    found = only(judge(log(rows)))
    assert grades(found) == {"latency": "GOOD", "middle": "GOOD", "plateau": "UNSURE"}
    assert "one is slower than the range" in found.reasons[0]


def test_a_dip_that_both_placements_show_is_slow_and_not_noise() -> None:
    sizes = sorted(GOOD_H200_X4)
    middle = [size for size in sizes if 8192 < size < 1 << 25]
    dip = middle[1:4]
    rows: list[tuple[int, dict[Placement, Figure]]] = [
        (size, {"out_of_place": figure(size, time), "in_place": figure(size, time)})
        for size, time in ((size, time * (8 if size in dip else 1)) for size, time in GOOD_H200_X4.items())
    ]
    assert grades(only(judge(log(rows))))["middle"] == "SLOW"


def test_a_minority_of_slow_passes_is_not_good() -> None:
    passes = [
        (size, {"out_of_place": figure(size, time * (2 if number == 2 and size > 1 << 25 else 1))})
        for number in range(4)
        for size, time in GOOD_H200_X4.items()
    ]
    found = only(judge(log(passes)))  # type: ignore[arg-type]
    assert found.grade == "UNSURE"
    assert "single passes are beyond the range" in found.reasons[0]


def test_rows_of_several_runs_in_one_table_are_not_judged() -> None:
    found = only(judge(log(GOOD_H200_X4, rank_zero_processes=3)))
    assert found.grade == "UNSURE"
    assert found.reason_kind == "mixed_runs"


def with_bus_ids(run: Log, *bus_ids: str) -> Log:
    (table,) = run.tables
    ranks = [
        msgspec.structs.replace(rank, bus_id=bus_id) for rank, bus_id in zip(table.rank_list, bus_ids, strict=True)
    ]
    return msgspec.structs.replace(run, tables=(msgspec.structs.replace(table, rank_list=tuple(ranks)),))


def test_ranks_that_share_a_gpu_are_not_judged() -> None:
    """They were called SLOW, because ranks with a GPU each are 100 times as fast."""
    run = log(scaled(lambda size: 100.0))
    assert only(judge(run)).grade == "SLOW"
    verdict = only(judge(with_bus_ids(run, "0000:0f:00", "0000:0f:00", "0000:10:00", "0000:11:00")))
    assert (verdict.grade, verdict.reason_kind) == ("UNSURE", "no_expectation")
    assert "several ranks share one GPU" in verdict.reasons[0]


def test_an_incomplete_bus_id_does_not_identify_a_gpu() -> None:
    """Older programs print the bus alone, which is 0 for every GPU of a virtual machine."""
    assert only(judge(with_bus_ids(log(GOOD_H200_X4), "0x00", "0x00", "0x00", "0x00"))).grade == "GOOD"


@pytest.mark.parametrize(
    ("time_us", "as_bandwidth", "as_time"),
    [(100, "0 %", "0 %"), (133, "-25 %", "+33 %"), (50, "+100 %", "-50 %"), (30_000, "1/300", "+29900 %")],
)
def test_the_distance_from_the_typical_figure(time_us: float, as_bandwidth: str, as_time: str) -> None:
    """A column has signed figures. A bandwidth far below the typical one has a fraction, because it would be -100 %."""
    figure = JudgedFigure(
        size_bytes=8,
        placement="in_place",
        time_us=time_us,
        busbw_gbps=1.0,
        range_us=ExpectedRange(low=50, typical=100, high=200),
        outcome="inside",
    )
    assert figure.signed_distance_text(as_time=False) == as_bandwidth
    assert figure.signed_distance_text(as_time=True) == as_time


@pytest.mark.parametrize(
    ("heading", "reason", "remedy"),
    [
        ("8 x H100", "the log does not state its collective", "write the command of the run above its table"),
        ("all_reduce on H100", "the log does not state its number of ranks", "write the number and type of its GPUs"),
    ],
)
def test_the_remedy_for_a_missing_fact_supplies_it(tmp_path: Path, heading: str, reason: str, remedy: str) -> None:
    table = "| size | time (us) | algbw (GB/s) |\n|---|---|---|\n| 1048576 | 100 | 10.49 |\n| 2097152 | 110 | 19.07 |\n"
    (tmp_path / "log.md").write_text(f"# {heading}\n\n{table}")
    verdict = only(judge(read(tmp_path / "log.md")))
    assert verdict.reasons == (reason,)
    assert verdict.advice[0].startswith(remedy)
    (tmp_path / "log.md").write_text(f"all_reduce_perf -b 1M\n# 8x H100, all_reduce\n\n{table}")
    verdict = only(judge(read(tmp_path / "log.md")))
    assert reason not in verdict.reasons
