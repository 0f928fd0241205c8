"""The definitions of collectives.toml. tests/integration/test_collectives.py compares them with the engine."""

import re

import pytest
from conftest import ROOT

from busbw.collectives import Collective, bandwidth_ratio, bus_factor, collectives


def test_an_unknown_collective_has_no_factor() -> None:
    assert bus_factor("unheard_of", 4) is None
    assert bandwidth_ratio("unheard_of", 4) is None


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


@pytest.mark.parametrize("collective", collectives().values(), ids=lambda collective: collective.name)
def test_the_documentation_derives_the_factor(collective: Collective) -> None:
    factor = "1" if collective.has_constant_ratio else collective.bus_factor.replace("2(", "2 (")
    row = rf"\| {collective.name} \| [^|]+ \| {re.escape(factor)} \|"
    assert re.search(row, (ROOT / "docs" / "explanation" / "measuring.md").read_text())


def test_the_engine_does_not_check_in_place_what_is_undefined_there() -> None:
    engine = ROOT / "engine" / "collectives"
    for name, collective in collectives().items():
        is_undefined = "in_place_defined() const override { return false; }" in (engine / f"{name}.cpp").read_text()
        assert collective.checked_in_place != is_undefined, name
