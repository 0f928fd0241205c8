"""All checks on healthy machines, and with values that cannot be read."""

import pytest
from doctor_machines import NAMES, Changed, keys_read, load

from busbw.doctor.catalog import MACHINE_AREAS, all_checks, checks_of
from busbw.doctor.cost import Job
from busbw.doctor.examination import examine
from busbw.doctor.model import Machine

CHECK_NAMES = [check.name for check in checks_of(*MACHINE_AREAS)]


@pytest.mark.parametrize("name", NAMES)
def test_a_healthy_machine_has_no_finding(name: str) -> None:
    result = load(name).examine()
    assert not result.findings
    assert not result.could_not_check
    assert result.not_applicable_reasons.keys() == {*result.not_applicable}
    assert all(result.not_applicable_reasons.values())


def test_the_names_of_checks_are_unique() -> None:
    names = [check.name for check in all_checks()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("check", CHECK_NAMES)
def test_a_check_decides_on_one_of_the_machines(check: str) -> None:
    assert any(check in load(name).examine(check).passed for name in NAMES)


@pytest.mark.parametrize("check", CHECK_NAMES)
def test_a_value_that_cannot_be_read_is_no_finding(check: str) -> None:
    for name in NAMES:
        machine = load(name)
        keys = keys_read(machine, check)
        for key in keys[:1] + keys[-1:]:
            result = machine.unreadable(key).examine(check)
            assert not result.findings, (key, result.findings)
        if keys:
            missing = machine.unreadable(*keys).examine(check).could_not_check
            assert missing, f"{check} decides on {name} although it can read nothing"
            assert "permission" in missing[0].missing


@pytest.mark.parametrize("check", CHECK_NAMES)
def test_a_value_of_another_form_is_no_error(check: str) -> None:
    (examined,) = [each for each in all_checks() if each.name == check]
    for name in NAMES:
        tree = load(name).tree
        # One file of each name, because equal parts are read in the same way.
        for key in {key.rpartition("/")[2]: key for key in keys_read(load(name), check)}.values():
            for content in (b"", b"\x1b[31m\xff", b"-1", b"9" * 400):
                examine([examined], Machine(Changed(tree, key, content)), Job())  # must not raise
