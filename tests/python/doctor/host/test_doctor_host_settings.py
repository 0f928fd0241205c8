"""Checks of settings.toml."""

import pytest
from doctor_machines import assert_only, load

SYSCTL = "proc/sys"
CLOCK = "sys/devices/system/clocksource/clocksource0/current_clocksource"


@pytest.mark.parametrize(
    ("name", "path", "value", "check", "severity"),
    [
        ("dgx-h100", f"{SYSCTL}/kernel/numa_balancing", "1", "numa-balancing", "risk"),
        ("dgx-h100", CLOCK, "hpet", "clocksource", "risk"),
        ("dgx-h100", f"{SYSCTL}/net/ipv4/ip_local_port_range", "32768\t33767", "ip-port-range", "risk"),
        ("workstation", f"{SYSCTL}/net/ipv4/tcp_wmem", "4096\t16384\t212992", "socket-buffers", "risk"),
        (
            "dgx-h100",
            "proc/pressure/memory",
            "some avg10=23.10 avg60=5.00 avg300=1.00 total=99\nfull avg10=9.00 avg60=1.00 avg300=0.00 total=9\n",
            "memory-pressure",
            "slow",
        ),
        ("dgx-h100", "proc/loadavg", "260.12 250.00 240.00 300/2213 9436", "other-load", "risk"),
        ("dgx-h100", "later/sys/devices/system/edac/mc/mc2/ce_count", "3", "host-memory-errors", "risk"),
    ],
)
def test_a_bad_value_is_a_finding(name: str, path: str, value: str, check: str, severity: str) -> None:
    assert_only(load(name).with_file(path, value), check, severity=severity)


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("dgx-h100", f"{SYSCTL}/net/ipv4/tcp_wmem", "4096\t16384\t212992"),  # it has RDMA
        ("laptop", f"{SYSCTL}/kernel/numa_balancing", "1"),
        ("workstation", f"{SYSCTL}/kernel/numa_balancing", "1"),  # it has one NUMA node
        ("p5-efa", CLOCK, "kvm-clock"),
        ("gb200-tray", CLOCK, "arch_sys_counter"),
        ("dgx-h100", "sys/devices/system/edac/mc/mc2/ce_count", "3000"),  # a total since boot
        ("dgx-h100", "proc/loadavg", "200.00 200.00 200.00 200/2213 9436"),  # its own job
    ],
)
def test_a_value_that_does_no_harm_is_no_finding(name: str, path: str, value: str) -> None:
    assert not load(name).with_file(path, value).examine().findings


@pytest.mark.parametrize(
    ("path", "check"),
    [("proc/pressure", "memory-pressure"), ("sys/devices/system/edac", "host-memory-errors")],
)
def test_a_kernel_without_a_value_is_not_judged(path: str, check: str) -> None:
    assert load("dgx-h100").without(path).examine(check).not_applicable


def test_a_missing_file_is_not_passed() -> None:
    assert load("dgx-h100").without(CLOCK).examine("clocksource").could_not_check


def test_a_low_hard_limit_of_open_files_is_a_risk() -> None:
    assert_only(load("dgx-h100").with_fact("limits", max_open_files=4096), "nofile", severity="risk")
    # Users and NCCL can raise the soft limit.
    assert load("dgx-h100").with_fact("limits", open_files=1024).examine("nofile").passed
    assert load("dgx-h100").with_fact("limits", max_open_files=None).examine("nofile").passed


def test_the_shared_memory_of_a_default_container_is_too_small() -> None:
    machine = load("container").with_fact("filesystems", shm_total_bytes=64 << 20, shm_free_bytes=64 << 20)
    assert_only(machine, "shm-size", severity="broken")


def test_full_shared_memory_is_a_risk() -> None:
    assert_only(load("dgx-h100").with_fact("filesystems", shm_free_bytes=1 << 30), "dev-shm-stale", severity="risk")


def test_unreadable_shared_memory_is_not_judged() -> None:
    result = load("dgx-h100").without("facts/filesystems").examine("shm-size", "dev-shm-stale")
    assert len(result.could_not_check) == 2
