"""Slow parts of one node, in which every flow of a GPU crosses its NVLinks."""

import pytest
from find_clusters import find_parts, simulate

from busbw.cli.main import main


@pytest.mark.parametrize(("shape", "fault", "gpu"), [("1x4", "gpu:0/0:2", 0), ("1x8", "gpu:0/3:1.5", 3)])
def test_a_slow_gpu_is_named_with_its_nvlinks(shape: str, fault: str, gpu: int) -> None:
    [finding], undecided = find_parts(simulate(shape, fault))
    assert not undecided
    assert (finding.kind, finding.node, finding.gpu) == ("gpu", "n0", gpu)
    assert [(part.kind, part.node, part.gpus) for part in finding.same_as] == [("nvlink", "n0", (gpu,))]
    assert finding.confidence > 0.99  # both names are one finding, so none is a rival of the other


def test_the_command_exits_with_5_and_names_both(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["find", "--simulate", "1x4", "--fault", "gpu:0/0:2"]) == 5
    out = capsys.readouterr().out
    assert "SLOW: GPU 0 of n0 takes " in out
    assert "No flow tells it apart from NVLinks of GPU 0 of n0." in out


def test_flows_to_another_node_tell_a_gpu_from_its_nvlinks() -> None:
    for fault, kind in (("gpu:0/0:2", "gpu"), ("nvlink:0/0:2", "nvlink")):
        [finding], undecided = find_parts(simulate("4x4", fault))
        assert not undecided
        assert (finding.kind, finding.same_as) == (kind, ())


@pytest.mark.parametrize(
    ("fault", "predicate"), [("nvlink:1/0:2", " take "), ("gpu:1/0:2", " takes "), ("uplink:1:2", " take ")]
)
def test_the_verb_agrees_with_the_number_of_the_part(fault: str, predicate: str) -> None:
    [finding], _ = find_parts(simulate("16x4", fault, nodes_per_leaf=4))
    assert finding.says.startswith(f"{finding.text}{predicate}")
