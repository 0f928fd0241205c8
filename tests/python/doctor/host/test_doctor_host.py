"""Checks of CPUs, control groups, kernel modules and /sys."""

import pytest
from doctor_machines import assert_only, load

POLICIES = "sys/devices/system/cpu/cpufreq/policy{0..3}"
GROUP = "sys/fs/cgroup/user.slice"
STATUS = "Name:\tbusbw\nCapEff:\t{}\nCpus_allowed_list:\t{}\n"


def test_without_peer_memory_and_dma_buf_gpudirect_is_off() -> None:
    machine = load("dgx-a100").without("sys/module/nvidia_peermem").without("sys/kernel/mm/memory_peers")
    assert_only(machine, "gdr-module", severity="slow")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("sys/kernel/mm/memory_peers/nv_mem/version", "1.3"),
        ("sys/kernel/mm/memory_peers/nv_mem_nc/version", "1.3"),
        ("sys/module/nvidia_peermem/version", "535.129.03"),
        ("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.124.06"),
    ],
)
def test_each_way_of_gpudirect_suffices(path: str, value: str) -> None:
    machine = load("dgx-a100").without("sys/module/nvidia_peermem").without("sys/kernel/mm/memory_peers")
    assert machine.with_file(path, value).examine("gdr-module").passed


def test_dma_buf_needs_a_kernel_that_has_it() -> None:
    machine = load("hgx-h100-roce").without("sys/module/nvidia_peermem")
    assert machine.examine("gdr-module").passed
    assert machine.with_file("proc/sys/kernel/osrelease", "5.4.0-150-generic").examine("gdr-module").findings


@pytest.mark.parametrize("name", ["p5-efa", "mi300x", "workstation", "laptop"])
def test_gpudirect_modules_are_not_needed_everywhere(name: str) -> None:
    assert load(name).examine("gdr-module").not_applicable


def test_a_process_far_from_all_gpus_is_slow() -> None:
    machine = load("container").with_file("proc/self/status", STATUS.format("0000000000000000", "56-111"))
    assert_only(machine, "numa-binding", severity="slow")


@pytest.mark.parametrize("cpus", ["0-3", "60-63"])
def test_a_process_near_one_of_the_gpus_is_no_finding(cpus: str) -> None:
    machine = load("dgx-h100").with_file("proc/self/status", STATUS.format("0000000000000000", cpus))
    assert machine.examine("numa-binding").passed


def test_gpus_without_a_numa_node_are_not_judged() -> None:
    assert load("workstation").examine("numa-binding").not_applicable


def test_the_slowest_governor_is_slow() -> None:
    machine = load("dgx-a100").with_file(f"{POLICIES}/scaling_governor", "powersave")
    assert_only(machine, "cpu-governor", severity="slow")
    machine = load("dgx-h100").with_file(f"{POLICIES}/energy_performance_preference", "power")
    assert_only(machine, "cpu-governor", severity="slow")


def test_cpus_with_different_governors_are_a_risk() -> None:
    path = POLICIES.replace("{0..3}", "2")
    assert_only(load("dgx-a100").with_file(f"{path}/scaling_governor", "schedutil"), "cpu-governor", severity="risk")


@pytest.mark.parametrize("preference", ["performance", "balance_performance"])
def test_powersave_is_no_limit_if_the_hardware_selects_the_frequency(preference: str) -> None:
    machine = load("dgx-h100").with_file(f"{POLICIES}/scaling_governor", "powersave")
    assert machine.with_file(f"{POLICIES}/energy_performance_preference", preference).examine("cpu-governor").passed


def test_a_virtual_machine_has_no_governor() -> None:
    assert load("nd-h100-v5").examine("cpu-governor").not_applicable


def test_a_cpu_that_is_offline_has_no_governor() -> None:
    machine = load("dgx-a100").with_file("sys/devices/system/cpu/online", "0-1,3-127")
    path = POLICIES.replace("{0..3}", "2")
    machine = machine.unreadable(f"{path}/scaling_driver", f"{path}/scaling_governor")
    assert machine.examine("cpu-governor").passed


def test_a_cpu_without_a_governor_does_not_differ() -> None:
    path = POLICIES.replace("{0..3}", "2")
    assert load("dgx-a100").with_file(f"{path}/scaling_governor", "").examine("cpu-governor").passed


def test_the_load_of_unknown_cpus_is_not_judged() -> None:
    machine = load("dgx-h100").with_file("sys/devices/system/cpu/online", "NaN")
    assert machine.examine("other-load").could_not_check


def test_a_governor_that_is_busy_is_not_judged() -> None:
    path = POLICIES.replace("{0..3}", "2")
    assert load("dgx-a100").unreadable(f"{path}/scaling_governor").examine("cpu-governor").could_not_check


@pytest.mark.parametrize(
    ("name", "path", "value", "check"),
    [
        ("dgx-h100", f"{GROUP}/cpu.max", "800000 100000", "cpu-cores-available"),
        ("container", "sys/fs/cgroup/cpu.max", "200000 100000", "cpu-cores-available"),
        ("dgx-a100", "sys/fs/cgroup/cpu/slurm/uid_1000/cpu.cfs_quota_us", "400000", "cpu-cores-available"),
        ("dgx-h100", f"{GROUP}/memory.max", str(8 << 30), "cgroup-memory-limit"),
        ("dgx-a100", "sys/fs/cgroup/memory/slurm/uid_1000/memory.limit_in_bytes", str(1 << 30), "cgroup-memory-limit"),
    ],
)
def test_a_limit_of_a_control_group_that_is_too_low_is_a_risk(name: str, path: str, value: str, check: str) -> None:
    assert_only(load(name).with_file(path, value), check, severity="risk")


def test_a_quota_below_one_cpu_is_slow() -> None:
    machine = load("container").with_file("sys/fs/cgroup/cpu.max", "50000 100000")
    assert_only(machine, "cpu-cores-available", severity="slow")
    assert "may use 0.5 CPUs for 2 GPUs;" in machine.examine("cpu-cores-available").findings[0].problem


def test_a_limit_is_judged_by_the_gpus_that_the_job_uses() -> None:
    machine = load("dgx-h100").with_file(f"{GROUP}/memory.max", str(8 << 30)).with_variables(CUDA_VISIBLE_DEVICES="3")
    assert machine.examine("cgroup-memory-limit").passed


def test_selected_gpus_do_not_count_on_a_machine_without_gpus() -> None:
    machine = load("laptop").without("sys/bus/pci").with_file("sys/bus/pci/devices/0000:00:00.0/vendor", "0x8086")
    machine = machine.with_file("sys/bus/pci/devices/0000:00:00.0/class", "0x060000")
    machine = machine.with_file(f"{GROUP}/{{cpu,memory}}.max", "1000000").with_variables(CUDA_VISIBLE_DEVICES="0,1")
    result = machine.examine("cpu-cores-available", "cgroup-memory-limit")
    assert not result.findings
    assert result.not_applicable == ("cgroup-memory-limit",)


def test_limits_are_judged_by_the_selected_gpus_if_pci_devices_are_unknown() -> None:
    machine = load("dgx-h100").with_file(f"{GROUP}/cpu.max", "50000 100000")
    machine = machine.with_file(f"{GROUP}/memory.max", "100000000").without("sys/bus/pci")
    checks = ("cpu-cores-available", "cgroup-memory-limit")
    assert {missing.check for missing in machine.examine(*checks).could_not_check} == set(checks)
    result = machine.with_variables(CUDA_VISIBLE_DEVICES="0,1").examine(*checks)
    assert not result.could_not_check
    assert {(finding.check, finding.severity) for finding in result.findings} == {
        ("cpu-cores-available", "slow"),
        ("cgroup-memory-limit", "risk"),
    }
    assert all("for 2 GPUs;" in finding.problem for finding in result.findings)


def test_limits_for_each_gpu_do_not_concern_a_machine_without_gpus() -> None:
    machine = (
        load("laptop").with_file(f"{GROUP}/cpu.max", "100000 100000").with_file(f"{GROUP}/memory.max", "100000000")
    )
    result = machine.examine("cpu-cores-available", "cgroup-memory-limit")
    assert (result.passed, result.not_applicable) == (("cpu-cores-available",), ("cgroup-memory-limit",))
    stat = "nr_periods 90\nnr_throttled {}\n"
    machine = machine.with_file(f"{GROUP}/cpu.stat", stat.format(70))
    machine = machine.with_file(f"later/{GROUP}/cpu.stat", stat.format(75))
    assert "5 periods" in machine.examine("cpu-cores-available").findings[0].problem


def test_a_quota_that_stops_threads_is_slow() -> None:
    stat = "usage_usec 8312345\nnr_periods 90\nnr_throttled {}\nthrottled_usec 100\n"
    machine = load("container").with_file("sys/fs/cgroup/cpu.max", "9000000 100000")
    machine = machine.with_file("sys/fs/cgroup/cpu.stat", stat.format(70))
    assert machine.examine("cpu-cores-available").passed  # a quota that is not used up, and a total since the start
    machine = machine.with_file("later/sys/fs/cgroup/cpu.stat", stat.format(75))
    assert_only(machine, "cpu-cores-available", severity="slow")


def test_growing_cpu_time_is_no_quota() -> None:
    machine = load("dgx-h100").with_file("later/sys/fs/cgroup/cpu.stat", "usage_usec 999999999\nuser_usec 5\n")
    assert machine.examine("cpu-cores-available").passed


@pytest.mark.parametrize(
    ("name", "module", "severity"),
    [("mi300x", "amdgpu", "broken"), ("p5-efa", "efa", "slow"), ("gb200-tray", "mlx5_ib", "slow")],
)
def test_a_missing_module_is_named(name: str, module: str, severity: str) -> None:
    finding = load(name).without(f"sys/module/{module}").examine("kernel-modules").findings[0]
    assert (finding.subject, finding.severity) == (module, severity)


@pytest.mark.parametrize("driver", ["vfio-pci", "pci-stub"])
def test_a_gpu_of_a_virtual_machine_needs_no_driver_on_the_host(driver: str) -> None:
    machine = load("dgx-h100").without("sys/module/nvidia")
    assert machine.examine("kernel-modules").findings
    for bus in ("1b", "43", "52", "61", "9d", "c3", "d1", "df"):
        machine = machine.with_target(f"sys/bus/pci/devices/0000:{bus}:00.0/driver", f"sys/bus/pci/drivers/{driver}")
    assert machine.examine("kernel-modules").passed


def test_a_sys_without_the_gpus_is_slow() -> None:
    bus_id = "sys/bus/pci/devices/0000:1b:00.0"
    machine = load("dgx-h100").without(bus_id)
    assert machine.examine("sysfs-mounted").findings[0].severity == "slow"
    assert load("laptop").examine("sysfs-mounted").not_applicable


def test_a_sys_that_is_not_mounted_is_a_finding_and_nothing_else_is() -> None:
    result = load("dgx-h100").without("sys").examine("sysfs-mounted", "pcie-width", "kernel-modules", "iommu-mode")
    assert [finding.check for finding in result.findings] == ["sysfs-mounted"]
