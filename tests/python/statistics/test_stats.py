"""Intervals and verdicts against other ways of getting them: enumeration, scipy's tests, and simulated machines."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from busbw.statistics import stats

LINE = [(0, 1), (1, 2), (2, 3), (4, 5), (5, 6), (6, 7), (0, 4), (1, 5), (2, 6), (3, 7)]
"""Four sizes in two placements."""


def noisy_blocks(random: np.random.Generator, blocks: int, rows: int = 8) -> stats.Matrix:
    """Log times of blocks on a bad machine: it drifts, remembers, has two modes, and is hit by bursts."""
    memory = np.zeros(blocks)
    for i in range(1, blocks):
        memory[i] = 0.9 * memory[i - 1] + random.normal(0, 0.02)
    drift = random.normal(0, 0.2) * np.linspace(0, 1, blocks)
    slow_mode = np.zeros(blocks)
    state = random.random() < 0.5
    for i in range(blocks):
        state = state if random.random() < 0.8 else not state
        slow_mode[i] = 0.3 * state
    bursts = random.standard_t(1.5, size=(blocks, 1)) * 0.01
    own = random.normal(0, 0.01, size=(blocks, rows))
    return (memory + drift + slow_mode)[:, None] + bursts + own


def quadruples_of(log_times: stats.Matrix, random: np.random.Generator, b_slower: float = 0.0) -> stats.Matrix:
    """Logarithm of B's time over A's, per quadruple ABBA or BAAB."""
    found = []
    for four in log_times.reshape(-1, 4, log_times.shape[1]):
        a_first = random.random() < 0.5
        four = four.copy()
        four[[1, 2] if a_first else [0, 3]] += np.log1p(b_slower)
        difference = stats.quadruple_difference(*np.exp(four))
        found.append(difference if a_first else -difference)
    return np.array(found)


def test_a_steady_drift_cancels_in_a_quadruple() -> None:
    times = [np.array([100.0 * 1.07**i, 3.0 * 1.07**i]) for i in range(4)]
    assert stats.quadruple_difference(*times) == pytest.approx([0, 0], abs=1e-12)


def test_a_side_that_is_twice_as_slow_is_log_two_apart() -> None:
    a, b = np.array([10.0]), np.array([20.0])
    assert stats.quadruple_difference(a, b, b, a) == pytest.approx([np.log(2)])


def test_false_alarms_stay_below_the_level_on_a_bad_machine() -> None:
    random = np.random.default_rng(5)
    runs, alpha = 250, 0.01
    alarms = sum(
        any(
            stats.judge_quadruples(quadruples_of(noisy_blocks(random, 96), random), LINE, alpha=alpha, seed=run).changed
        )
        for run in range(runs)
    )
    # More than this many has a probability below 0.1 % if the rate is the level itself.
    assert alarms <= scipy_stats.binom.ppf(0.999, runs, alpha)


def test_five_percent_are_found_on_a_bad_machine() -> None:
    random = np.random.default_rng(6)
    found = 0
    for run in range(40):
        differences = quadruples_of(noisy_blocks(random, 384), random, b_slower=0.05)
        judged = stats.judge_quadruples(differences, LINE, alpha=0.001, seed=run)
        found += judged.changed[1] and judged.intervals[1] is not None and judged.intervals[1].low > 0
    assert found >= 38


def rule(signs: tuple[int, ...], matrix: stats.Matrix, pairs: list[tuple[int, int]], lead: int) -> bool:
    """True if relabeled quadruples report a change with a required `lead`; by plain counting."""
    leads = [sum(sign * int(np.sign(value)) for sign, value in zip(signs, column, strict=True)) for column in matrix.T]
    return any((leads[i] >= lead and leads[j] >= lead) or (leads[i] <= -lead and leads[j] <= -lead) for i, j in pairs)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.0, 0.8), st.sampled_from([0.002, 0.01, 0.05, 0.2]))
def test_the_rule_is_the_one_that_enumeration_gives(seed: int, shift: float, alpha: float) -> None:
    matrix = np.random.default_rng(seed).normal(shift, 1, size=(9, 3))
    pairs = [(0, 1), (1, 2)]
    labellings = list(product((1, -1), repeat=9))
    level_95 = 7  # at least 8 of 9 ahead: 1 - 2 * 10 / 512 is the first level above 95 %
    lead = next(
        n for n in range(1, 11) if sum(rule(signs, matrix, pairs, n) for signs in labellings) / len(labellings) <= alpha
    )
    lead = max(lead, level_95)
    ahead = [(int((column > 0).sum()), int((column < 0).sum())) for column in matrix.T]
    beyond = [1 if up - down >= lead else -1 if down - up >= lead else 0 for up, down in ahead]
    expected = tuple(
        any(beyond[i] and beyond[i] == beyond[j] for pair in pairs if i in pair for j in pair if j != i)
        for i in range(3)
    )
    assert stats.judge_quadruples(matrix, pairs, alpha=alpha).changed == expected


def test_intervals_are_those_of_the_sign_test() -> None:
    random = np.random.default_rng(1)
    differences = random.normal(0.2, 1, size=(24, 1))
    judged = stats.judge_quadruples(differences, [], alpha=0.01)
    interval = judged.intervals[0]
    assert interval is not None
    below = int((differences < interval.low).sum())
    assert int((differences > interval.high).sum()) == below
    # Between the k-th from below and from above; binomtest knows the same probability from the other end.
    outside = scipy_stats.binomtest(below, 24, 0.5).pvalue
    assert judged.level == pytest.approx(1 - outside)
    assert judged.level >= 0.99
    assert interval.estimate == np.median(differences)


def test_a_row_without_neighbor_decides_alone() -> None:
    random = np.random.default_rng(2)
    alone = np.abs(random.normal(1, 0.1, size=(24, 1)))
    assert stats.judge_quadruples(alone, [], alpha=0.01).changed == (True,)
    with_quiet_neighbour = np.hstack([alone, random.normal(0, 1, size=(24, 1))])
    assert stats.judge_quadruples(with_quiet_neighbour, [(0, 1)], alpha=0.01).changed == (False, False)


@pytest.mark.parametrize("quadruples", [0, 1, 5])
def test_too_few_quadruples_have_no_result(quadruples: int) -> None:
    judged = stats.judge_quadruples(np.ones((quadruples, 2)), [(0, 1)], alpha=0.01)
    assert judged.intervals == (None, None)
    assert judged.changed == (False, False)


def test_times_that_are_all_equal_are_no_change() -> None:
    assert not any(stats.judge_quadruples(np.zeros((48, 2)), [(0, 1)], alpha=0.01).changed)


def test_no_rows_are_no_judgement() -> None:
    assert stats.judge_quadruples(np.zeros((12, 0)), [], alpha=0.01).changed == ()


def test_the_slowest_rank_ends_an_iteration() -> None:
    assert stats.slowest_rank_us([[1.0, 5.0, 2.0], [3.0, 4.0, 2.5]]) == (3.0, 5.0, 2.5)


def test_runs_are_compared_as_welch_does() -> None:
    a, b = [1.0, 1.3, 0.9, 1.1], [0.7, 0.75, 0.66]
    summaries = [stats.run_summary([math.exp(each) for each in side]) for side in (a, b)]
    interval = stats.mean_difference(*summaries, alpha=0.02)
    expected = scipy_stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.98)
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high))


def test_rounding_widens_an_interval_by_what_it_leaves_open() -> None:
    """Runs that print the same figure have no variance, and may differ by its last digit."""
    a, b = (stats.run_summary([value] * 4, stats.half_digit(4.71)) for value in (4.70, 4.71))
    interval = stats.mean_difference(a, b, alpha=0.01)
    assert not interval.excludes_zero
    assert interval.high - interval.low == pytest.approx(2 * (0.005 / 4.70 + 0.005 / 4.71), rel=0.01)
    coarse = stats.mean_difference(stats.run_summary([1.0] * 4, 1.0), b, alpha=0.01)
    assert (coarse.low, coarse.high) == (-math.inf, math.inf)


def autocorrelated(random: np.random.Generator, size: int, correlation: float) -> stats.Vector:
    values = np.empty(size)
    values[0] = random.normal()
    for i in range(1, size):
        values[i] = correlation * values[i - 1] + np.sqrt(1 - correlation**2) * random.normal()
    return 100 * np.exp(0.05 * values)


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_correlated_iterations_have_wider_intervals(correlation: float) -> None:
    random = np.random.default_rng(7)
    alarms = 0
    for _ in range(400):
        a, b = (stats.stretch_summary(list(autocorrelated(random, 400, correlation))) for _ in range(2))
        assert a is not None
        assert b is not None
        alarms += stats.mean_difference(a, b, alpha=0.01).excludes_zero
    assert alarms <= 12  # 1 % would be 4; treating 400 iterations as independent gives over 200 at 0.9


def test_the_median_of_a_run_is_what_its_summary_is_of() -> None:
    times = [10.0, 11.0, 9.0, 10.5, 12.0] * 8
    summary = stats.stretch_summary(times)
    assert summary is not None
    assert np.exp(summary.mean) == pytest.approx(np.median(times))


@pytest.mark.parametrize("times", [[], [1.0] * 19, [float("nan")] * 100, [0.0] * 100])
def test_few_or_unusable_iterations_have_no_summary(times: list[float]) -> None:
    assert stats.stretch_summary(times) is None


def test_a_constant_time_has_an_interval_of_no_width() -> None:
    a, b = stats.stretch_summary([4.0] * 40), stats.stretch_summary([2.0] * 40)
    assert a is not None
    assert b is not None
    interval = stats.mean_difference(a, b, alpha=0.01)
    assert interval.low == interval.high == pytest.approx(np.log(2))


@given(st.floats(0.001, 1e6), st.integers(0, 4))
def test_what_was_printed_lies_within_the_bounds_of_its_digits(value: float, decimals: int) -> None:
    low, high = stats.rounding_bounds(float(f"{value:.{decimals}f}"))
    assert low <= value * (1 + 1e-12)
    assert value * (1 - 1e-12) <= high


@pytest.mark.parametrize(
    ("value", "half"), [(245.6, 0.05), (20.0, 0.5), (13.12, 0.005), (1e-07, 5e-08), (1.5e22, 5e20)]
)
def test_bounds_are_half_of_the_last_digit(value: float, half: float) -> None:
    low, high = stats.rounding_bounds(value)
    assert high - low == pytest.approx(2 * half)
