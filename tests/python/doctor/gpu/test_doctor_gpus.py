"""Checks of GPUs, NVLink and its fabric: one fault in a healthy machine, and known false alarms."""

from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from doctor_machines import TestMachine, assert_only, load

from busbw.doctor.checks.gpu import values
from busbw.doctor.facts.gpus import Gpu

DGX = "dgx-h100"
SERVICE = ("systemctl", "show", "nvidia-fabricmanager", "--property=LoadState,ActiveState")
PCI = "sys/bus/pci/devices"


def with_gpus(machine: TestMachine, *indexes: int, **fields: Any) -> TestMachine:
    """Returns the machine with other values of these GPUs; of all without indexes. A table of values is merged."""

    def changed(gpu: dict[str, Any]) -> dict[str, Any]:
        if indexes and gpu["index"] not in indexes:
            return gpu
        merged = {name: gpu[name] | value for name, value in fields.items() if isinstance(value, dict) and name in gpu}
        return gpu | fields | merged

    return machine.with_fact("gpus", gpus=[changed(gpu) for gpu in machine.facts["gpus"]["gpus"]])


def with_kernel_log(machine: TestMachine, *lines: str) -> TestMachine:
    """Returns the machine with this log, 350,000 s after its start."""
    return machine.with_file("proc/uptime", "350000.47 3507234.91").with_output(["dmesg"], "\n".join(lines))


@pytest.mark.parametrize(
    ("check", "severity", "fields"),
    [
        ("gpu-clock-cap", "slow", {"max_sm_clock_mhz": 1830}),
        ("gpu-clock-cap", "slow", {"power_limit_w": 500.0}),
        ("gpu-clock-cap", "risk", {"applications_clock_mhz": 1200}),
        ("gpu-compute-mode", "broken", {"compute_mode": 2}),
        ("gpu-compute-mode", "risk", {"compute_mode": 3}),
        ("gpu-ecc-uncorrected", "risk", {"ecc_uncorrected": 2}),
        ("gpu-memory-in-use", "risk", {"memory_used_bytes": 40 << 30, "processes": 1}),
        ("gpu-mig", "slow", {"mig": True}),
        ("gpu-recovery-action", "broken", {"recovery_action": 1}),
        ("gpu-recovery-action", "risk", {"recovery_action": 4}),
        ("gpu-row-remap", "broken", {"remap_failure": True}),
        ("gpu-row-remap", "risk", {"remap_pending": True}),
        ("gpu-throttle-now", "slow", {"event_reasons": 0x48}),
        ("gpu-throttle-now", "slow", {"event_reasons": 0x80}),
        ("fabric-state", "broken", {"fabric": {"state": 1}}),
        ("fabric-state", "broken", {"fabric": {"state": 2}}),
        ("fabric-state", "broken", {"fabric": {"status": 999}}),
        ("fabric-health-mask", "slow", {"fabric": {"health_mask": 0xA9}}),
        ("fabric-health-mask", "broken", {"fabric": {"health_mask": 0x9A}}),
        ("fabric-health-mask", "broken", {"fabric": {"health_mask": 0x5AA}}),
        ("nvlink-inactive", "slow", {"nvlinks": {"inactive": [4]}}),
        (
            "nvlink-inactive",
            "broken",
            {"nvlinks": {"inactive": list(range(18)), "speeds_mbps": []}},
        ),
        ("nvlink-speed", "slow", {"nvlinks": {"speeds_mbps": [13281, 26562]}}),
        ("nvlink-bw-mode", "slow", {"nvlink_best_mode": False}),
        ("nvlink-error-counters", "slow", {"nvlinks": {"recoveries": 1}}),
    ],
)
def test_a_fault_of_one_gpu_is_one_finding(check: str, severity: str, fields: dict[str, Any]) -> None:
    assert_only(with_gpus(load(DGX), 3, **fields), check, subject="GPU3", severity=severity)


def test_the_worst_bad_item_of_the_health_mask_is_a_finding() -> None:
    machine = with_gpus(load(DGX), 3, fabric={"health_mask": 0x595})
    (finding,) = machine.examine("fabric-health-mask").findings
    assert finding.problem == "GPU3 has an unhealthy NVLink route (mask 0x595)"


def test_each_field_in_the_table_of_values_exists() -> None:
    table = msgspec.toml.decode(Path(values.__file__).with_suffix(".toml").read_bytes())
    paths = {path for entry in table.values() for path in (*(row[0] for row in entry["bad"]), *entry.get("shown", ()))}
    assert "fabric.health_mask" in paths
    for path in paths:
        owner: Any = Gpu
        for name in path.split("."):
            assert name in get_type_hints(owner), path
            hint = get_type_hints(owner)[name]
            owner = next((each for each in get_args(hint) if each is not type(None)), hint)


def test_an_inactive_link_costs_its_share() -> None:
    (finding,) = with_gpus(load(DGX), 3, nvlinks={"inactive": [4, 5]}).examine("nvlink-inactive").findings
    assert finding.problem == "GPU3 has 16 of 18 NVLinks active"
    assert finding.cost.busbw_now_gbps < finding.cost.busbw_fixed_gbps  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        (DGX, {"event_reasons": 0x4}),  # the power cap of a GPU under load
        (DGX, {"event_reasons": 0x2}),
        (DGX, {"power_limit_w": 500.0}),  # all GPUs have the limit of the site
        (DGX, {"memory_used_bytes": 1 << 30}),  # MPS, DCGM
        (DGX, {"fabric": {"health_mask": 0x1AA}}),
        (DGX, {"applications_clock_mhz": None}),
        ("gb200-tray", {"nvlinks": {"speeds_mbps": [50000]}}),
        ("workstation", {"mig": None, "lost": False}),
    ],
)
def test_a_value_of_all_gpus_is_no_fault(name: str, fields: dict[str, Any]) -> None:
    assert not with_gpus(load(name), **fields).examine().findings


def test_gpus_that_the_job_does_not_use_are_not_judged() -> None:
    machine = with_gpus(load(DGX), 3, mig=True)
    assert not machine.with_variables(CUDA_VISIBLE_DEVICES="0,1").examine("gpu-mig").findings
    assert machine.with_variables(CUDA_VISIBLE_DEVICES="2,3").examine("gpu-mig").findings
    assert machine.with_variables(CUDA_VISIBLE_DEVICES="GPU-5a2f").examine("gpu-mig").findings


def test_the_fix_names_the_gpu() -> None:
    (finding,) = with_gpus(load(DGX), 3, recovery_action=1).examine("gpu-recovery-action").findings
    assert finding.fix == "end its processes, then sudo nvidia-smi --gpu-reset -i 3"


@pytest.mark.parametrize("clock", [2010, None])
def test_a_higher_or_unknown_clock_is_no_cap(clock: int | None) -> None:
    fields = {"max_sm_clock_mhz": 2010, "applications_clock_mhz": clock}
    assert not with_gpus(load(DGX), 3, **fields).examine().findings
    assert not with_gpus(load(DGX), applications_clock_mhz=1200).examine().findings


def test_mig_on_all_gpus_is_a_choice_of_the_site() -> None:
    findings = with_gpus(load(DGX), mig=True).examine().findings
    assert {(each.check, each.severity) for each in findings} == {("gpu-mig", "risk")}
    assert not with_gpus(load(DGX), mig=True).with_variables(CUDA_VISIBLE_DEVICES="0").examine().findings


def test_links_between_pcie_cards_are_no_fault() -> None:
    """NVLink bridges join two of four cards."""
    bridged = {"count": 12, "speeds_mbps": [25000]}
    machine = with_gpus(load(DGX).without("proc/driver/nvidia-nvswitch"), fabric=None)
    machine = with_gpus(machine, 0, 1, nvlinks=bridged)
    machine = with_gpus(machine, 2, 3, nvlinks={"count": 12, "inactive": list(range(12)), "speeds_mbps": []})
    assert "nvlink-inactive" in machine.examine("nvlink-inactive").not_applicable


def test_the_driver_lost_a_gpu() -> None:
    lost = "0000:61:00.0"
    gpus = [gpu for gpu in load(DGX).facts["gpus"]["gpus"] if gpu["bus_id"] != lost]
    machine = load(DGX).with_fact("gpus", gpus=gpus)
    assert_only(machine, "gpu-count", subject=lost, severity="broken")
    assert_only(machine.without(f"proc/driver/nvidia/gpus/{lost}"), "gpu-count", subject=lost, severity="broken")
    excluded = machine.with_file(f"proc/driver/nvidia/gpus/{lost}/information", "Model: \t\t H100\nGPU Excluded:\t Yes")
    assert not excluded.examine("gpu-count").findings


@pytest.mark.parametrize(
    "variables", [{"SLURM_JOB_ID": "7", "SLURM_GPUS_ON_NODE": "2"}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}]
)
def test_a_job_with_some_of_the_gpus_is_no_fault(variables: dict[str, str]) -> None:
    machine = load(DGX).with_fact("gpus", gpus=load(DGX).facts["gpus"]["gpus"][:2])
    assert machine.examine("gpu-count").findings
    assert not machine.with_variables(**variables).examine("gpu-count").findings
    assert not machine.with_fact("gpus", hidden=6).examine("gpu-count").findings
    adopted = machine.with_fact("devicenodes", usable=["nvidia0"], denied=["nvidia1"])
    assert not adopted.examine("gpu-count").findings


def test_a_gpu_of_another_model_or_driver_is_a_choice() -> None:
    other = f"{PCI}/0000:02:00.0"
    machine = load(DGX).with_file(f"{other}/vendor", "0x10de").with_file(f"{other}/class", "0x030000")
    assert not machine.with_file(f"{other}/device", "0x1cb1").examine("gpu-count").findings
    same = machine.with_file(f"{other}/device", "0x2330")
    assert same.examine("gpu-count").findings
    assert not same.with_target(f"{other}/driver", "sys/bus/pci/drivers/vfio-pci").examine("gpu-count").findings


def test_a_gpu_fell_off_the_bus() -> None:
    folder = f"{PCI}/0000:61:00.0"
    machine = load(DGX).with_file(f"{folder}/current_link_width", "63")
    result = machine.examine("gpu-off-bus")
    assert [finding.subject for finding in result.findings] == ["0000:61:00.0"]
    assert [finding.subject for finding in with_gpus(machine, 3, lost=True).examine("gpu-off-bus").findings] == [
        "0000:61:00.0"
    ]
    assert_only(with_gpus(load(DGX), 3, lost=True), "gpu-off-bus", severity="broken")
    assert not machine.with_file(f"{folder}/power/runtime_status", "suspended").examine("gpu-off-bus").findings


def test_persistence_mode() -> None:
    clocks = "sys/devices/system/clocksource/clocksource0/available_clocksource"
    machine = with_gpus(load(DGX), 3, persistence=False).with_file(clocks, "tsc hpet acpi_pm")
    assert_only(machine, "gpu-persistence", subject="GPU3", severity="risk")
    assert not machine.with_file(clocks, "kvm-clock tsc acpi_pm").examine("gpu-persistence").findings


XID = "NVRM: Xid (PCI:0000:52:00): "


@pytest.mark.parametrize(
    ("text", "is_fault"),
    [
        ("79, pid=2112, name=python3, GPU has fallen off the bus.", True),
        ("119, pid=7132, name=python3, Timeout after 45s of waiting for RPC response from GPU2 GSP!", True),
        ("74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 3(0x10000, 0x0, 0x0)", True),
        ("149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 09 (0x025525c6 0x00000000 0x00000000)", True),
        ("31, pid=48211, name=python3, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS", False),
        ("43, pid=48211, name=python3, Ch 00000010", False),
        ("145, RLW_CTRL Nonfatal XC0 i0 Link 09 (0x025525c6 0x00000000 0x00000000)", False),
        ("154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", False),
    ],
)
def test_xids(text: str, is_fault: bool) -> None:
    machine = with_kernel_log(load(DGX), f"[349000.000123] {XID}{text}")
    if is_fault:
        assert_only(machine, "gpu-xid", subject="0000:52:00.0", severity="risk")
    else:
        assert not machine.examine().findings


def test_an_xid_of_a_partitioned_gpu() -> None:
    line = f"[349000.000123] {XID.replace(')', ' GPU-I:05)')}95, pid=2112, Uncontained memory error"
    assert_only(with_kernel_log(load(DGX), line), "gpu-xid", subject="0000:52:00.0")


def test_a_single_gpu_may_have_no_links() -> None:
    machine = load(DGX)
    only = machine.with_fact(
        "gpus", gpus=[machine.facts["gpus"]["gpus"][0] | {"nvlinks": {"count": 18, "inactive": list(range(18))}}]
    )
    assert "nvlink-inactive" in only.examine("nvlink-inactive").not_applicable


@pytest.mark.parametrize(
    "later",
    [
        "[349900.000000] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.95.05",
        "[349900.000000] nvidia-nvswitch0: Probing device 0000:07:00.0, Vendor Id = 0x10de",
        f"[349900.000000] {XID}154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)",
    ],
)
def test_xids_before_a_reset_are_old(later: str) -> None:
    assert not with_kernel_log(load(DGX), f"[349000.000123] {XID}79, GPU lost", later).examine().findings


def test_old_xids_are_ignored() -> None:
    assert not with_kernel_log(load(DGX), f"[ 1204.118220] {XID}79, GPU has fallen off the bus.").examine().findings


def test_a_kernel_log_without_times_cannot_be_judged() -> None:
    result = with_kernel_log(load(DGX), f"{XID}79, GPU has fallen off the bus.").examine("gpu-xid")
    assert [each.missing for each in result.could_not_check] == ["lines with times in the kernel log"]


def test_a_fatal_error_of_a_switch() -> None:
    line = "[349000.1] nvidia-nvswitch0: SXid (PCI:0000:07:00.0): 24007, {}, Link 30 sourcetrack timeout error"
    assert_only(with_kernel_log(load(DGX), line.format("Fatal")), "nvswitch-sxid", subject="nvidia-nvswitch0")
    assert not with_kernel_log(load(DGX), line.format("Non-fatal")).examine().findings


@pytest.mark.parametrize("state", [1, 2])
def test_a_fabric_is_in_progress_after_boot(state: int) -> None:
    machine = with_gpus(load(DGX), fabric={"state": state}).with_file("proc/uptime", "45.10 300.00")
    machine = machine.with_output(SERVICE, "LoadState=loaded\nActiveState=inactive")
    result = machine.examine("fabric-manager-service", "fabric-state", "nvlink-inactive")
    assert not result.findings
    assert [each.check for each in result.could_not_check] == ["fabric-manager-service", "fabric-state"]


@pytest.mark.parametrize(
    ("state", "fabric", "severity"),
    [("failed", 3, "risk"), ("inactive", 0, "broken"), ("active", 3, None), ("activating", 3, None)],
)
def test_the_fabric_manager(state: str, fabric: int, severity: str | None) -> None:
    machine = with_gpus(load(DGX), fabric={"state": fabric})
    machine = machine.with_output(SERVICE, f"LoadState=loaded\nActiveState={state}")
    if severity:
        assert_only(machine, "fabric-manager-service", severity=severity)
    else:
        assert not machine.examine().findings


def test_a_fabric_manager_in_a_container_is_no_fault() -> None:
    machine = load(DGX).with_output(SERVICE, "LoadState=not-found\nActiveState=inactive")
    assert not machine.examine().findings


def test_an_nvlink_domain_without_imex_channels() -> None:
    machine = load("gb200-tray").without("dev/nvidia-caps-imex-channels")
    assert_only(machine, "imex-channel", severity="risk")
    assert not machine.with_variables(SLURM_NNODES="1").examine().findings
    assert not machine.with_variables(BUSBW_SIZE="4", BUSBW_LOCAL_SIZE="4").examine().findings
    assert machine.with_variables(BUSBW_SIZE="2").examine("imex-channel").findings


def test_nvlink_ends_at_a_board_with_a_cluster_of_its_own() -> None:
    board = with_gpus(load(DGX), fabric={"state": 3, "joins_nodes": True})
    assert "imex-channel" in board.examine().not_applicable


def test_a_desktop_is_no_job() -> None:
    desktop = with_gpus(load("workstation"), 0, memory_used_bytes=3 << 30)
    assert not desktop.examine().findings
    assert_only(with_gpus(desktop, 0, processes=1), "gpu-memory-in-use", subject="GPU0", severity="risk")


def test_a_value_that_failed_is_unknown() -> None:
    machine = with_gpus(load(DGX), 2, mig=None, failures={"mig": "Unknown Error"})
    result = with_gpus(machine, 3, mig=True).examine("gpu-mig")
    assert [finding.subject for finding in result.findings] == ["GPU3"]
    assert [each.missing for each in result.could_not_check] == ["GPU2 mig: Unknown Error"]


def test_an_unknown_speed_of_links_is_no_good_speed() -> None:
    result = with_gpus(load(DGX), 2, nvlinks={"speeds_mbps": []}).examine("nvlink-speed")
    assert [each.missing for each in result.could_not_check] == ["the speed of the NVLinks of GPU2"]


@pytest.mark.parametrize("name", ["mi300x", "laptop"])
def test_a_machine_without_nvidia_gpus_has_nothing_to_check(name: str) -> None:
    result = load(name).examine()
    assert {"gpu-count", "gpu-mig", "gpu-xid", "fabric-state"} <= set(result.not_applicable)


def test_gpus_without_nvml_cannot_be_checked() -> None:
    result = load(DGX).without("facts/gpus").examine("gpu-mig", "gpu-count", "nvlink-speed")
    missing = {each.check: each.missing for each in result.could_not_check}
    assert missing == dict.fromkeys(("gpu-mig", "gpu-count", "nvlink-speed"), "the record of NVML does not exist")


def test_a_failure_is_not_hidden_by_gpus_without_links() -> None:
    machine = with_gpus(load(DGX), nvlinks={"inactive": list(range(18)), "speeds_mbps": []}, fabric=None)
    assert "nvlink-speed" in machine.examine("nvlink-speed").not_applicable
    machine = with_gpus(machine, 2, nvlinks=None, failures={"nvlinks": "Unknown Error"})
    result = machine.examine("nvlink-speed")
    assert [each.missing for each in result.could_not_check] == ["GPU2 nvlinks: Unknown Error"]


def test_the_most_specific_reason_of_a_throttled_gpu_is_named() -> None:
    (finding,) = with_gpus(load(DGX), 3, event_reasons=0x48).examine("gpu-throttle-now").findings
    assert finding.problem == "GPU3 is throttled: overheating"
    assert [each.source for each in finding.evidence] == ["NVML, GPU3, event_reasons", "NVML, GPU3, sm_clock_mhz"]


def test_the_fix_restores_the_power_limit_of_the_other_gpus() -> None:
    (finding,) = with_gpus(load(DGX), 3, power_limit_w=500.0).examine("gpu-clock-cap").findings
    assert finding.fix == "sudo nvidia-smi -i 3 -pl 700"
