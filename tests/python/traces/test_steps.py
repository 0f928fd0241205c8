"""Steps of generated sequences: periods within periods, interruptions, varying counts, and no period."""

from typing import Any

import numpy as np
import pytest
from synthetic_traces import Call, make_trace

from busbw.traces import format as layout
from busbw.traces.format import Function, Kind
from busbw.traces.steps import count_repetitions, find_steps

LAYERS = [1, 2, 3] * 32 + [9]
"""Layers of three operations, and the one of the optimizer."""


def make_operations(counts: Any, communicators: Any = 0) -> Any:
    operations = np.zeros(len(counts), layout.OPERATION)
    operations["kind"] = Kind.OPERATION
    operations["count"], operations["communicator"] = counts, communicators
    return operations


def starts_of(counts: Any) -> list[int] | None:
    steps = find_steps(make_operations(counts))
    return steps.starts.tolist() if steps else None


@pytest.mark.parametrize("steps", [2, 3, 10, 100])
@pytest.mark.parametrize(
    "step",
    [[1, 2, 3], LAYERS, LAYERS * 4 + [50], LAYERS * 2 + [50] * 20, [1, 1, 2, 1, 1, 2, 1]],
    ids=["simple", "layers", "micro-batches", "optimizer phase", "no unique operation"],
)
def test_the_longest_period_is_found(step: list[int], steps: int) -> None:
    found = find_steps(make_operations(step * steps))
    assert found is not None
    assert found.period == len(step)
    assert found.starts.tolist() == list(range(0, len(step) * steps, len(step)))
    assert np.array_equal(found.ends - found.starts, [len(step)] * steps)
    assert found.coverage == 1


def test_a_startup_phase_is_not_a_step() -> None:
    startup = [7, 7, 8, 4, 5, 6]
    assert starts_of(startup + LAYERS * 5) == [6 + 97 * step for step in range(5)]


@pytest.mark.parametrize("evaluation", [[20, 21] * 30, [30], [1, 2, 3] * 10])
def test_an_evaluation_interrupts_the_steps(evaluation: list[int]) -> None:
    part = LAYERS * 50 + evaluation
    found = find_steps(make_operations(part * 3))
    assert found is not None
    assert found.period == 97
    expected = [97 * step + len(part) * repetition for repetition in range(3) for step in range(50)]
    assert found.starts.tolist() == expected
    assert found.coverage == pytest.approx(3 * 50 * 97 / (3 * len(part)))


def test_a_recording_that_begins_and_ends_within_a_step() -> None:
    found = find_steps(make_operations(LAYERS[40:] + LAYERS * 5 + LAYERS[:50]))
    assert found is not None
    assert found.period == 97
    assert len(found.starts) == 6
    assert (np.diff(found.starts) == 97).all()


def test_counts_that_vary_in_each_step_are_ignored() -> None:
    random = np.random.default_rng(0)
    found = find_steps(make_operations(random.integers(1, 10**6, 97 * 50), LAYERS * 50))
    assert found is not None
    assert (found.period, len(found.starts), found.coverage) == (97, 50, 1)


def test_a_varying_number_of_transfers_is_one_exchange() -> None:
    random = np.random.default_rng(1)
    parts: list[Any] = []
    starts: list[int] = []
    for _ in range(40):
        starts.append(sum(len(part) for part in parts))
        for _ in range(3):
            transfers = make_operations(random.integers(1, 10**6, random.integers(2, 16)), 1)
            transfers["function"] = random.choice([Function.SEND, Function.RECV], len(transfers))
            parts += [make_operations([5, 6]), transfers]
        parts.append(make_operations([9], 2))
    found = find_steps(np.concatenate(parts))
    assert found is not None
    assert found.starts.tolist() == starts
    assert found.ends.tolist() == [*starts[1:], sum(len(part) for part in parts)]
    assert found.coverage == 1


def test_steps_of_equal_counts_are_preferred_to_shorter_ones_without_counts() -> None:
    found = find_steps(make_operations([1, 2, 3, 4] * 10, [0, 1, 0, 1] * 10))
    assert found is not None
    assert found.period == 4


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("share", [0.5, 0.1, 0.03])
def test_random_operations_have_no_steps(seed: int, share: float) -> None:
    random = np.random.default_rng(seed)
    functions = (random.random(5000) < share).astype(int)
    operations = make_operations(functions + 1)
    operations["function"] = functions
    assert find_steps(operations) is None


@pytest.mark.parametrize("counts", [[], [1], [1, 2], [1, 2, 3, 4, 5, 6, 7]])
def test_sequences_without_repetition_have_no_steps(counts: list[int]) -> None:
    assert find_steps(make_operations(counts)) is None


def test_varying_counts_of_one_function_are_no_steps() -> None:
    assert find_steps(make_operations(np.random.default_rng(2).permutation(1000))) is None


def test_each_call_of_a_loop_is_a_step() -> None:
    found = find_steps(make_operations([4] * 100))
    assert found is not None
    assert (found.period, len(found.starts)) == (1, 100)


def test_steps_of_a_simulated_job() -> None:
    calls = [Call(), Call(function=Function.SEND, shift=1), Call(count=3)]
    trace = make_trace(ranks=4, calls=calls, steps=12, startup=[Call(count=8)])
    for rank in trace.ranks:
        found = find_steps(rank.operations)
        assert found is not None
        assert found.starts.tolist() == list(range(1, 49, 4))


def test_the_sizes_of_a_benchmark_are_no_steps() -> None:
    assert find_steps(make_operations([size for size in range(1, 20) for _ in range(100)])) is None


@pytest.mark.parametrize(
    ("step", "repetitions"),
    [
        ([5000, 6000, 7000] * 10 + [1], 10),
        ([5000, 6000] + [1] + [7000, 5000, 6000] * 3 + [7000], 4),
        ([5000, 6000, 7000] * 10 + [90_000], 1),  # gradients after micro-batches
        ([5000, 6000, 7000, 1], 1),
        ([5000] * 3 + [6000] * 3 + [1], 1),
    ],
)
def test_steps_that_can_be_several_steps_are_known(step: list[int], repetitions: int) -> None:
    operations = make_operations(step * 10)
    steps = find_steps(operations)
    assert steps is not None
    assert steps.period == len(step)
    assert count_repetitions(operations, steps) == repetitions
