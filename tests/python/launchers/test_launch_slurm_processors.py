"""Tests of the processor count of Slurm's nodes."""

import pytest

from busbw.launchers.slurm.processors import min_processors

PARTITIONS = "n1 batch*\nn2 batch*\nn3 debug\n"


@pytest.mark.parametrize(
    ("properties", "options", "expected"),
    [
        (("CPUEfctv=48 CPUTot=64", "CPUTot=96", "CPUTot=8"), (), 48),
        (("CPUTot=64", "CPUTot=96", "CPUTot=8"), ("--partition=debug",), 8),
        (("CPUTot=64", "CPUTot=96", "CPUTot=8"), ("--partition=other",), None),
        (("CPUTot=64", "State=DOWN", "CPUTot=8"), (), None),
        (("CPUTot=64", "CPUTot=96", "State=DOWN"), (), 64),
    ],
)
def test_min_processors(properties: tuple[str, ...], options: tuple[str, ...], expected: int | None) -> None:
    nodes = "".join(f"NodeName=n{number} {text}\n" for number, text in enumerate(properties, start=1))
    assert min_processors(nodes, PARTITIONS, options) == expected
