"""Reference figures: every file follows the schema and its own arithmetic."""

from collections.abc import Callable

import pytest

from busbw.cli.main import main
from busbw.reference import references

FACTORS: dict[str, Callable[[int], float]] = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "alltoall": lambda n: (n - 1) / n,
    "broadcast": lambda n: 1,
    "sendrecv": lambda n: 1,
}


@pytest.mark.parametrize("name", references())
def test_busbw_follows_from_size_and_time(name: str) -> None:
    reference = references()[name]
    for sweep in reference.sweeps:
        for point in sweep.points:
            expected = point.size_bytes / point.time_us / 1e3 * FACTORS[sweep.collective](reference.ranks)
            assert point.busbw_gbps == pytest.approx(expected, rel=0.002, abs=0.006), (sweep.command, point)


def test_the_command_lists_and_shows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["refs"]) == 0
    listed = capsys.readouterr().out
    for name in references():
        assert f"{name}: " in listed
        assert main(["refs", name]) == 0
        assert references()[name].source in capsys.readouterr().out


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["refs", "nowhere"]) == 2
    assert 'no reference "nowhere"; allowed are' in capsys.readouterr().err
