"""Checks of PCIe links, ports and the IOMMU."""

import pytest
from doctor_machines import TestMachine, assert_only, expanded, load
from msgspec import UNSET

from busbw.doctor.model.tree import command_key

DEVICES = "sys/bus/pci/devices"
NIC, NIC_PORT, GPU = "0000:18:00.0", "0000:17:00.0", "0000:1b:00.0"
"""mlx5_0 of the DGX H100, the switch port above it, and GPU0."""
LSPCI = ("lspci", "-D", "-vvv", "-d", "*:*:0604")


@pytest.mark.parametrize(
    ("path", "value", "check", "subject"),
    [
        (f"{NIC}/current_link_width", "8", "pcie-width", "mlx5_0"),
        (f"{GPU}/current_link_width", "8", "pcie-width", "GPU0"),
        ("0000:9d:00.0/current_link_width", "8", "pcie-width", "GPU4"),
        ("0000:16:00.0/current_link_width", "8", "pcie-width", "the bridge 0000:16:00.0 above mlx5_0"),
        (f"{NIC}/current_link_speed", "16.0 GT/s PCIe", "pcie-speed", "mlx5_0"),
        (f"{NIC}/current_link_speed", "8 GT/s", "pcie-speed", "mlx5_0"),  # form of older kernels
        ("0000:16:00.0/current_link_speed", "16.0 GT/s PCIe", "pcie-speed", "the bridge 0000:16:00.0 above mlx5_0"),
    ],
)
def test_a_link_below_its_ability_is_slow(path: str, value: str, check: str, subject: str) -> None:
    assert_only(load("dgx-h100").with_file(f"{DEVICES}/{path}", value), check, subject=subject, severity="slow")


def test_the_cost_of_a_narrow_link_is_that_of_its_rate() -> None:
    machine = load("dgx-h100").with_file(f"{DEVICES}/{NIC}/current_link_width", "8")
    machine = machine.with_file("sys/class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)")
    cost = machine.examine("pcie-width").findings[0].cost
    assert 0.53 < cost.busbw_now_gbps / cost.busbw_fixed_gbps < 0.58  # type: ignore[union-attr]


def test_a_narrow_link_of_unknown_speed_has_no_cost() -> None:
    machine = load("dgx-h100").with_file(f"{DEVICES}/{NIC}/current_link_width", "8")
    machine = machine.with_file(f"{DEVICES}/{NIC}/current_link_speed", "Unknown")
    (finding,) = machine.examine("pcie-width").findings
    assert finding.cost is UNSET


@pytest.mark.parametrize(
    "values",
    [
        {f"{GPU}/current_link_speed": "2.5 GT/s PCIe"},  # idle
        {f"{NIC}/current_link_width": "8", f"{NIC_PORT}/max_link_width": "8"},  # the slot has 8 lanes
        {f"{NIC}/current_link_speed": "16.0 GT/s PCIe", f"{NIC_PORT}/max_link_speed": "16.0 GT/s PCIe"},
        {f"{NIC}/current_link_width": "0", f"{NIC}/current_link_speed": "Unknown"},
        {f"{NIC}/current_link_speed": "0.0 GT/s PCIe"},
        {f"{NIC}/current_link_width": "255"},
        {f"{NIC}/current_link_width": "63"},
    ],
)
def test_a_link_at_the_ability_of_its_slot_or_without_a_state_is_no_finding(values: dict[str, str]) -> None:
    machine = load("dgx-h100")
    for path, value in values.items():
        machine = machine.with_file(f"{DEVICES}/{path}", value)
    assert not machine.examine("pcie-width", "pcie-speed").findings


def test_equal_gpus_in_narrow_slots_are_no_finding() -> None:
    machine = load("workstation").with_file(f"{DEVICES}/{{0000:01:00.0,0000:41:00.0}}/current_link_width", "8")
    assert not machine.examine("pcie-width").findings


def test_links_that_a_virtual_machine_shows_are_judged_against_equal_devices_only() -> None:
    machine = load("dgx-h100").with_file(f"{DEVICES}/{NIC}/current_link_speed", "16.0 GT/s PCIe")
    all_nics = "0000:{18,40,4f,5e,9a,c0,ce,dc}:00.0"
    clocks = "sys/devices/system/clocksource/clocksource0/available_clocksource"
    virtual = machine.with_file(clocks, "kvm-clock tsc acpi_pm")
    assert virtual.examine("pcie-speed").findings
    equal = virtual.with_file(f"{DEVICES}/{all_nics}/current_link_speed", "16.0 GT/s PCIe")
    assert not equal.examine("pcie-speed").findings


def acs_output(control: str) -> str:
    return (
        f"{NIC_PORT} PCI bridge: Broadcom / LSI PEX890xx PCIe Gen 5 Switch (rev b0)\n"
        "\tCapabilities: [170 v1] Access Control Services\n"
        "\t\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl+ DirectTrans+\n"
        f"\t\tACSCtl:\t{control}\n"
    )


def test_acs_that_redirects_is_slow() -> None:
    control = "SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-"
    machine = load("dgx-h100").with_output(LSPCI, acs_output(control))
    assert_only(machine, "pcie-acs", severity="slow")
    assert control in machine.examine("pcie-acs").findings[0].evidence[0].value


@pytest.mark.parametrize(
    "control",
    [
        "SrcValid+ TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-",
        "SrcValid- TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-",
    ],
)
def test_acs_that_does_not_redirect_is_no_finding(control: str) -> None:
    assert load("dgx-h100").with_output(LSPCI, acs_output(control)).examine("pcie-acs").passed


DENIED = f"{NIC_PORT} PCI bridge: Broadcom / LSI PEX890xx\n\tCapabilities: <access denied>\n"


@pytest.mark.parametrize(
    "machine",
    [load("dgx-h100").with_output(LSPCI, DENIED), load("dgx-h100").without(command_key(LSPCI))],
)
def test_acs_without_root_is_decided_by_shared_iommu_groups_only(machine: TestMachine) -> None:
    # Separate groups show ACS at boot; a script may have switched it off later.
    assert "root" in machine.examine("pcie-acs").could_not_check[0].missing
    ports = "0000:{17:00,17:02,39:00,39:02,4a:00,4a:02,5b:00,5b:02,99:00,99:02,b9:00,b9:02,c9:00,c9:02,d9:00,d9:02}.0"
    devices = "0000:{18,1b,40,43,4f,52,5e,61,9a,9d,c0,c3,ce,d1,dc,df}:00.0"
    for path, _ in expanded({f"{DEVICES}/{ports}/iommu_group": "", f"{DEVICES}/{devices}/iommu_group": ""}):
        machine = machine.with_target(path, "sys/kernel/iommu_groups/1")
    assert machine.examine("pcie-acs").passed


@pytest.mark.parametrize("name", ["nd-h100-v5", "p5-efa", "gb200-tray", "laptop", "workstation"])
def test_acs_is_not_judged_where_it_is_needed_or_without_rdma(name: str) -> None:
    assert load(name).examine("pcie-acs").not_applicable


def test_an_iommu_that_translates_is_slow() -> None:
    machine = load("hgx-h100-roce").with_file("sys/kernel/iommu_groups/40/type", "DMA-FQ")
    assert_only(machine, "iommu-mode", severity="slow")


def test_the_iommu_does_no_harm_to_a_single_gpu() -> None:
    gpus = load("workstation")
    for bus_id in ("0000:01:00.0", "0000:41:00.0"):
        gpus = gpus.with_target(f"{DEVICES}/{bus_id}/iommu_group", "sys/kernel/iommu_groups/3")
    gpus = gpus.with_file("sys/kernel/iommu_groups/3/type", "DMA-FQ")
    assert gpus.examine("iommu-mode").findings
    one = gpus.without(f"{DEVICES}/0000:41:00.0").without("proc/driver/nvidia/gpus/0000:41:00.0")
    assert one.examine("iommu-mode").not_applicable


def test_a_group_that_cannot_be_read_is_not_judged() -> None:
    machine = load("hgx-h100-roce").without("sys/kernel/iommu_groups/40/type")
    assert machine.examine("iommu-mode").could_not_check


@pytest.mark.parametrize("name", ["gb200-tray", "nd-h100-v5"])
def test_an_iommu_of_grace_or_in_a_virtual_machine_is_not_judged(name: str) -> None:
    gpu = "0008:01:00.0" if name == "gb200-tray" else "0001:00:00.0"
    machine = load(name).with_target(f"{DEVICES}/{gpu}/iommu_group", "sys/kernel/iommu_groups/3")
    assert machine.with_file("sys/kernel/iommu_groups/3/type", "DMA-FQ").examine("iommu-mode").not_applicable
