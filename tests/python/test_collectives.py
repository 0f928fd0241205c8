"""The definitions of collectives.toml. tests/integration/test_collectives.py compares them with the engine."""

import pytest

from busbw.collectives import bandwidth_ratio, bus_factor, collectives


def test_an_unknown_collective_has_no_factor() -> None:
    assert bus_factor("all_reduce_scatter", 4) is None
    assert bandwidth_ratio("all_reduce_scatter", 4) is None


@pytest.mark.parametrize(("name", "factor"), [("all_reduce", 1.75), ("all_gather", 0.875), ("broadcast", 1.0)])
def test_the_factor_on_eight_ranks(name: str, factor: float) -> None:
    assert bus_factor(name, 8) == bandwidth_ratio(name, 8) == factor


@pytest.mark.parametrize("ranks", [1, 2, 8])
def test_hypercube_counts_sent_bytes_in_algbw(ranks: int) -> None:
    assert bus_factor("hypercube", ranks) == (ranks - 1) / ranks
    assert bandwidth_ratio("hypercube", ranks) == 1


def test_one_rank_moves_nothing() -> None:
    moving = {name for name in collectives() if bus_factor(name, 1)}
    assert moving == {"broadcast", "reduce", "sendrecv"}  # nccl-tests' factor of these is 1 for any number of ranks
