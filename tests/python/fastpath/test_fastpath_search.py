"""Tests of the search: the configs that a tuning tries and takes, for given times."""

import pytest
from conftest import ROOT

from busbw.fastpath.search import (
    COARSE_GRID,
    MAX_NEIGHBORS,
    SIZES,
    SIZES_IN_WINDOWS,
    Decision,
    MethodConfig,
    TimePair,
    Times,
    decide_size,
    find_best_config,
    first_configs,
    fits_side_by_side,
    neighbors,
    next_round,
    pair_times,
    ranges,
    summary,
)
from busbw.fastpath.table import MAX_BLOCKS, MAX_THREADS, METHODS, METHODS_IN_WINDOWS, parse, table_text

SMALL = MethodConfig(8, 256, "exchange")
LARGE = MethodConfig(32, 512, "exchange")


def both(time_us: float, in_place_us: float | None = None) -> Times:
    return {1024: {"out_of_place": time_us, "in_place": time_us if in_place_us is None else in_place_us}}


@pytest.mark.parametrize("collective", METHODS)
def test_every_method_is_tried_with_the_coarse_grid(collective: str) -> None:
    configs = first_configs(collective)
    assert {config.method for config in configs} == set(METHODS[collective])
    assert len(configs) == len(set(configs)) == len(COARSE_GRID) * len(METHODS[collective])
    for config in configs:
        parse(table_text(ranges(collective, 4, {SIZES[-1]: config}, {})), "t")


@pytest.mark.parametrize("collective", METHODS_IN_WINDOWS)
def test_in_windows_direct_is_tried_too(collective: str) -> None:
    configs = first_configs(collective, in_windows=True)
    assert {config.method for config in configs} == {*METHODS[collective], "direct"}
    assert len(configs) == len(set(configs)) == len(COARSE_GRID) * len(METHODS_IN_WINDOWS[collective])
    for config in configs:
        parse(table_text(ranges(collective, 4, {SIZES_IN_WINDOWS[-1]: config}, {}, in_windows=True)), "t")


def test_the_smaller_of_two_equally_fast_configs_is_chosen() -> None:
    assert find_best_config({SMALL: both(10.05), LARGE: both(10.0)}, 1024) == SMALL
    assert find_best_config({SMALL: both(10.2), LARGE: both(10.0)}, 1024) == LARGE
    assert find_best_config({SMALL: both(10.0)}, 2048) is None
    assert find_best_config({}, 1024) is None


def test_neighbors_are_untried_and_within_the_limits() -> None:
    assert neighbors(LARGE, [LARGE], 4) == [
        MethodConfig(64, 512, "exchange"),
        MethodConfig(16, 512, "exchange"),
        MethodConfig(32, 256, "exchange"),
    ]
    assert neighbors(LARGE, [LARGE, MethodConfig(64, 512, "exchange")], 4)[0] == MethodConfig(16, 512, "exchange")
    assert MethodConfig(32, 512, "exchange") in neighbors(
        MethodConfig(32, 256, "exchange"), [MethodConfig(16, 256, "exchange")], 4
    )
    for blocks, threads in ((1, 32), (MAX_BLOCKS, MAX_THREADS), (1, MAX_THREADS), (MAX_BLOCKS, 32)):
        for near in neighbors(MethodConfig(blocks, threads, "two_shot"), [], 4):
            assert near.blocks >= 1
            assert fits_side_by_side(near, 4)
            assert near.threads % 32 == 0
            assert 32 <= near.threads <= MAX_THREADS
            assert near.method == "two_shot"


def test_kernels_of_three_communicators_fit() -> None:
    """For any combination: no block takes more than half of a multiprocessor's 65536 registers."""
    kernel = (ROOT / "fastpath" / "device" / "kernel.cuh").read_text()
    assert "(kMax <= 4 && kMethod == Method::exchange) ? 2 : 1" in " ".join(kernel.split())
    allowed = 0
    for method in METHODS_IN_WINDOWS["all_reduce"]:
        for ranks in range(2, 9):
            registers = 64 if method == "exchange" and ranks <= 4 else 128
            for config in (MethodConfig(2**b, 2**t, method) for b in range(9) for t in range(5, 10)):
                if fits_side_by_side(config, ranks):
                    assert config.threads * registers <= 65536 // 2
                    assert 2 * config.blocks + 1 <= 2 * 132
                    allowed += 1
    assert allowed > 600
    for config in first_configs("all_reduce", in_windows=True):
        assert fits_side_by_side(config, 8)


def test_a_round_has_one_config_for_each_size_and_rounds_differ() -> None:
    measured: dict[MethodConfig, Times] = {SMALL: both(5.0), LARGE: both(9.0)}
    tried = [next_round(measured, [1024, 2048], number, 4) for number in range(MAX_NEIGHBORS + 1)]
    assert all(set(each) <= {1024} for each in tried)  # 2048 was not measured
    configs = [each[1024] for each in tried if each]
    assert len(set(configs)) == len(configs) == MAX_NEIGHBORS
    assert not {SMALL, LARGE} & set(configs)
    assert tried[MAX_NEIGHBORS] == {}


LAUNCHED = pair_times(1024, both(5.0), [both(12.0)])


def test_a_config_is_taken_only_if_it_is_as_fast_in_both_placements() -> None:
    nccl = [both(10.0), both(10.2)]

    def found(size: int, tried: MethodConfig | None, fast: Times) -> Decision:
        return decide_size(size, tried, pair_times(size, fast, nccl), LAUNCHED)

    taken = found(1024, SMALL, both(4.0))
    assert taken.config == SMALL
    assert taken.in_graphs == pytest.approx(TimePair(fast_us=4.0, nccl_us=10.1, max_ratio=4 / 10.1))
    assert taken.note == "4.00 us, NCCL 10.10 us; launched one by one 5.00 us, NCCL 12.00 us"
    assert found(1024, SMALL, both(10.1)).config == SMALL
    assert found(1024, SMALL, both(4.0, 10.15)).config is None
    assert found(1024, SMALL, both(10.15)).config is None
    assert found(2048, SMALL, both(4.0)).config is None
    of_a_neighbor = found(1024, None, both(4.0))
    assert (of_a_neighbor.config, of_a_neighbor.note) == (None, "")


def test_a_config_that_is_slower_launched_one_by_one_is_not_taken() -> None:
    in_graphs = pair_times(1024, both(4.0), [both(10.0)])
    assert decide_size(1024, SMALL, in_graphs, pair_times(1024, both(10.2), [both(10.0)])).config == SMALL
    slower = decide_size(1024, SMALL, in_graphs, pair_times(1024, both(5.0, 10.3), [both(10.0)]))
    assert slower.config is None
    assert slower.note.startswith("4.00 us, NCCL 10.00 us; launched one by one ")
    assert decide_size(1024, SMALL, in_graphs, pair_times(1024, {}, [both(10.0)])).config is None


def test_a_placement_that_nccl_has_no_time_for_does_not_count() -> None:
    in_graphs = pair_times(1024, both(4.0, 99.0), [{1024: {"out_of_place": 10.0}}])
    assert decide_size(1024, SMALL, in_graphs, LAUNCHED).config == SMALL


def test_lines_go_from_size_to_size_and_end_with_the_last_that_is_fast() -> None:
    chosen = {1024: SMALL, 2048: SMALL, 4096: None, 8192: LARGE, 16384: None, 32768: None}
    found = ranges("all_reduce", 4, chosen, {2048: "why", 16384: "not"})
    assert [each.text for each in found] == [
        "all_reduce ranks=4 up_to=2K exchange blocks=8 threads=256  # why",
        "all_reduce ranks=4 up_to=4K nccl",
        "all_reduce ranks=4 up_to=8K exchange blocks=32 threads=512",
    ]


def test_windows_delegated_at_every_size_have_one_nccl_line() -> None:
    found = ranges("all_reduce", 4, {1024: None, 2048: None}, {2048: "why"}, in_windows=True)
    assert [each.text for each in found] == ["all_reduce ranks=4 windows up_to=2K nccl  # why"]
    found = ranges("all_reduce", 4, {1024: SMALL, 2048: None}, {}, in_windows=True)
    assert [each.text for each in found] == ["all_reduce ranks=4 windows up_to=1K exchange blocks=8 threads=256"]


def test_the_summary_says_where_and_by_how_much() -> None:
    fast = [
        decide_size(1024, SMALL, pair_times(1024, both(5.0), [both(10.0)]), LAUNCHED),
        decide_size(2048, None, None, None),
    ]
    assert (
        summary("all_reduce, 4 ranks", fast)
        == "all_reduce, 4 ranks: fast path at 1 of 2 sizes, up to 1 KiB (2.00x to 2.00x NCCL's speed)"
    )
    assert summary("broadcast, 2 ranks", fast[1:]) == "broadcast, 2 ranks: NCCL at every size"


def test_the_summary_does_not_call_an_equal_time_faster() -> None:
    equal = decide_size(1024, SMALL, pair_times(1024, both(5.0), [both(5.0)]), LAUNCHED)
    assert equal.config == SMALL
    assert "faster" not in summary("all_reduce, 4 ranks", [equal])
