"""The system that a run's environment states, and names of machine types."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from busbw import readers
from busbw.cli.options.system_option import find_system
from busbw.errors import UsageError
from busbw.expect.from_log import system_of
from busbw.launchers.machine_types.machine_type import load
from busbw.launchers.machine_types.named_system import named_system
from busbw.logs.log import Table

H200 = Path(__file__).resolve().parents[2] / "golden" / "logs" / "h200_x4_sweep_c1.txt"


@pytest.fixture
def table() -> Table:
    return readers.read(H200).tables[0]


def test_the_environment_has_priority_over_the_devices(table: Table) -> None:
    found = system_of(table)
    assert found is not None
    assert found.name == "h200-sxm"
    stated = system_of(replace(table, environment={"BUSBW_SYSTEM": "h200-p5en"}))
    assert stated is not None
    assert (stated.name, stated.nics and stated.nics.text) == ("h200-p5en", "16 x 200 Gb/s")


def test_an_unknown_name_in_the_environment_is_ignored(table: Table) -> None:
    found = system_of(replace(table, environment={"BUSBW_SYSTEM": "nonsense"}))
    assert found is not None
    assert found.name == "h200-sxm"


@pytest.mark.parametrize("name", ["p5.48xlarge", "P5.48xlarge", "p5", "h100-p5"])
def test_a_machine_type_names_its_system(name: str) -> None:
    assert named_system(name, other_values=()).name == "h100-p5"
    found = find_system(name)
    assert found is not None
    assert found.name == "h100-p5"


def test_an_alias_is_found_as_by_the_launchers() -> None:
    found = find_system("Standard_ND96asr_v4")
    assert found is not None
    assert found.name == load("Standard_ND96asr_v4").system


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(UsageError, match=r'there is no system "p6\.99xlarge"'):
        named_system("p6.99xlarge", other_values=())
