"""Checks of load, limits, shared memory and NUMA balancing."""

import pytest
from doctor_machines import assert_only, load

BALANCING = "proc/sys/kernel/numa_balancing"


@pytest.mark.parametrize(
    ("path", "value", "check"),
    [(BALANCING, "1", "numa-balancing"), ("proc/loadavg", "260.12 250.00 240.00 300/2213 9436", "other-load")],
)
def test_a_bad_value_is_a_risk(path: str, value: str, check: str) -> None:
    assert_only(load("dgx-h100").with_file(path, value), check, severity="risk")


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("laptop", BALANCING, "1"),
        ("workstation", BALANCING, "1"),  # it has one NUMA node
        ("dgx-h100", "proc/loadavg", "200.00 200.00 200.00 200/2213 9436"),  # its own job
    ],
)
def test_a_value_that_does_no_harm_is_no_finding(name: str, path: str, value: str) -> None:
    assert not load(name).with_file(path, value).examine().findings


def test_a_missing_file_is_not_passed() -> None:
    assert load("dgx-h100").without(BALANCING).examine("numa-balancing").could_not_check


def test_a_low_hard_limit_of_open_files_is_a_risk() -> None:
    assert_only(load("dgx-h100").with_fact("limits", max_open_files=4096), "nofile", severity="risk")
    # Users and NCCL can raise the soft limit.
    assert load("dgx-h100").with_fact("limits", open_files=1024).examine("nofile").passed
    assert load("dgx-h100").with_fact("limits", max_open_files=None).examine("nofile").passed


def test_the_shared_memory_of_a_default_container_is_too_small() -> None:
    machine = load("container").with_fact("filesystems", shm_total_bytes=64 << 20, shm_free_bytes=64 << 20)
    assert_only(machine, "shm-size", severity="broken")


def test_full_shared_memory_is_a_risk() -> None:
    assert_only(load("dgx-h100").with_fact("filesystems", shm_free_bytes=1 << 20), "shm-size", severity="risk")
    assert load("dgx-h100").with_fact("filesystems", shm_free_bytes=1 << 30).examine("shm-size").passed


def test_unreadable_shared_memory_is_not_judged() -> None:
    assert load("dgx-h100").without("facts/filesystems").examine("shm-size").could_not_check
