"""An expectation beside references: what is shown, what is not, and which GPU is which."""

from pathlib import Path

import pytest

from busbw import readers, reference, system
from busbw.expect import Expectation, Scenario, expect
from busbw.judge import ReferenceComparison, ReferenceSelection, compare_with_reference

LOGS = Path(__file__).resolve().parents[2] / "golden" / "logs"
AUTO = ReferenceSelection(name="auto", nearest=True)


def expectation(
    where: str = "h200-sxm", ranks: int = 4, sizes: tuple[int, ...] = (1 << 10, 1 << 20, 1 << 30), **more: object
) -> Expectation:
    place = system.find(where)
    job = Scenario(
        collective=str(more.get("collective", "all_reduce")),
        ranks=ranks,
        ranks_per_node=min(ranks, place.ranks_per_node),
    )
    return expect(job, place, sizes)


def named(name: str) -> ReferenceSelection:
    return ReferenceSelection(name=name, reference=reference.find(name))


def busbw(found: ReferenceComparison) -> dict[int, float]:
    return {figure.size_bytes: figure.busbw_gbps for figure in found.figures}


def test_published_figures_stand_as_they_were_published() -> None:
    published = {
        point.size_bytes: point.busbw_gbps
        for sweep in reference.find("h200-x4").sweeps
        if (sweep.collective, sweep.placement) == ("all_reduce", "out_of_place")
        for point in sweep.points
        if point.size_bytes
    }
    found = compare_with_reference(expectation(), named("h200-x4"))
    assert found.is_comparable
    assert 1 << 30 in busbw(found)
    for figure in found.figures:
        assert figure.busbw_gbps == pytest.approx(published[figure.size_bytes], rel=0.001, abs=0.006)
        assert not figure.is_interpolated
        expected = expectation().at(figure.size_bytes)
        assert expected is not None
        assert figure.ratio_to_expected * expected.busbw_gbps.typical == pytest.approx(figure.busbw_gbps)


def test_a_size_between_two_of_the_reference_is_marked() -> None:
    found = compare_with_reference(expectation(sizes=(3 << 28,)), named("h200-x4"))
    assert [figure.is_interpolated for figure in found.figures] == [True]


def test_a_log_of_the_same_machine() -> None:
    log = readers.read(LOGS / "h200_x4_sweep_c1.txt")
    (row,) = [row for row in log.rows if row.size_bytes == 1 << 30]
    found = compare_with_reference(expectation(), ReferenceSelection(name="a log", log=log))
    assert found.is_comparable
    assert busbw(found)[1 << 30] == pytest.approx(row.figures["out_of_place"].busbw_gbps, rel=0.001)


def test_auto_takes_only_what_is_comparable() -> None:
    assert compare_with_reference(expectation(), AUTO).is_comparable
    found = compare_with_reference(expectation(ranks=3), AUTO)
    assert not found.is_comparable
    assert "ranks 3 against" in found.how_near
    assert found.figures == ()


def test_a_named_reference_is_shown_with_its_differences() -> None:
    found = compare_with_reference(expectation(ranks=8), named("h200-x4"))
    assert not found.is_comparable
    assert "ranks 8 against 4" in found.how_near
    assert found.figures


def test_another_collective_has_no_figures() -> None:
    found = compare_with_reference(expectation(collective="alltoall"), named("h200-x4"))
    assert (found.figures, found.is_comparable) == ((), False)
    assert "no figures of alltoall" in found.how_near


def test_nics_that_differ_are_not_comparable() -> None:
    found = compare_with_reference(expectation("h100-sxm", 16, collective="alltoall"), named("h100-x16-k8s-4nics"))
    assert "NICs 8 x 400 Gb/s against 4 x 400 Gb/s" in found.how_near


def test_sizes_beyond_the_reference_are_reported() -> None:
    found = compare_with_reference(expectation(sizes=(1 << 40,)), named("h200-x4"))
    assert found.figures == ()
    assert "it has only other sizes" in found.how_near


@pytest.mark.parametrize(
    ("where", "ranks", "name"),
    [
        ("mi300x", 8, "mi300x-x8"),  # logs and publications call it by two names
        ("v100-pcie", 2, "v100-pcie-x2-nc12s-v3"),
        ("a100-p4d", 16, "a100-x16-p4de"),
        ("h100-p5", 16, "h100-x16-p5"),
        ("gb200-nvl72", 72, "gb200-x72"),
    ],
)
def test_the_same_gpu_by_another_name(where: str, ranks: int, name: str) -> None:
    assert "GPU" not in compare_with_reference(expectation(where, ranks), named(name)).how_near


@pytest.mark.parametrize(
    ("where", "name"),
    [("h100-pcie", "h100-x8-coreweave"), ("h100-nvl-pair", "h100-x8-coreweave"), ("a100-sxm", "a100-pcie-x4-floor")],
)
def test_a_common_prefix_does_not_make_the_same_gpu(where: str, name: str) -> None:
    assert "GPU" in compare_with_reference(expectation(where, 8), named(name)).how_near
