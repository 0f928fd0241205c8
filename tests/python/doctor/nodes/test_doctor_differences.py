"""Values that differ between nodes: each is found, the odd node is named, and legitimate differences are none."""

import re
from collections.abc import Sequence
from typing import Any

import pytest
from doctor_machines import TestMachine, expanded

from busbw.doctor.catalog import checks_of
from busbw.doctor.checks.nodes.differences import CHECKS, NodeValues, read_values
from busbw.doctor.cost import Job
from busbw.doctor.examination import examine
from busbw.doctor.result import Result

# Forms of the values: Documentation/ABI of the kernel, NVIDIA/open-gpu-kernel-modules, and the guides of DGX H100.
NICS = "{mlx5_0,mlx5_3,mlx5_4,mlx5_5}"
NIC_DEVICES = "0000:{18,40,4f,5e}:00.0"
GPUS = "0000:{1b,43,52,61}:00.0"
INFORMATION = "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 18\nVideo BIOS: \t 96.00.74.00.01"
FILES = {
    f"proc/driver/nvidia/gpus/{GPUS}/information": INFORMATION,
    "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56",
    "proc/driver/nvidia/params": 'ResmanDebugLevel: 4294967295\nEnablePCIeRelaxedOrderingMode: 0\nRegistryDwords: ""',
    f"sys/bus/pci/devices/{GPUS}/current_link_width": "16",
    f"sys/bus/pci/devices/{NIC_DEVICES}/current_link_width": "16",
    f"sys/bus/pci/devices/{NIC_DEVICES}/current_link_speed": "32.0 GT/s PCIe",
    f"sys/bus/pci/devices/{NIC_DEVICES}/net/ib0/mtu": "4092",
    f"sys/class/infiniband/{NICS}/ports/1/rate": "400 Gb/sec (4X NDR)",
    f"sys/class/infiniband/{NICS}/ports/1/link_layer": "InfiniBand",
    f"sys/class/infiniband/{NICS}/ports/1/state": "4: ACTIVE",
    f"sys/class/infiniband/{NICS}/ports/1/phys_state": "5: LinkUp",
    f"sys/bus/pci/devices/{NIC_DEVICES}/vendor": "0x15b3",
    f"sys/bus/pci/devices/{NIC_DEVICES}/device": "0x1021",
    f"sys/bus/pci/devices/{NIC_DEVICES}/class": "0x020700",
    f"sys/bus/pci/devices/{NIC_DEVICES}/numa_node": "0",
    f"sys/class/infiniband/{NICS}/fw_ver": "28.39.1002",
    f"sys/class/infiniband/{NICS}/board_id": "MT_0000000838",
    "sys/module/mlx5_core/version": "24.04-0.6.6",
    "sys/module/efa/version": "2.13.0g",
    "sys/module/nvidia_peermem/initstate": "live",
    "sys/class/dmi/id/bios_version": "1.01.03",
    "sys/devices/system/cpu/online": "0-223",
    "sys/devices/system/node/online": "0-1",
    "proc/sys/kernel/osrelease": "5.15.0-1046-nvidia",
    "proc/cmdline": "BOOT_IMAGE=/boot/vmlinuz-5.15.0-1046-nvidia root=UUID=0b4d6a5e ro iommu=pt pci=realloc=off",
}
TARGETS = {f"sys/class/infiniband/{NICS}/device": f"sys/devices/pci0000:15/{NIC_DEVICES}"}
LIBRARY = {"name": "libnccl.so.2", "version": "2.21.5"}
FACTS: dict[str, dict[str, Any]] = {
    "environment": {"variables": {"NCCL_IB_HCA": "mlx5", "NCCL_DEBUG": "INFO"}},
    "gpus": {"gpus": [{"nvlinks": {"count": 18}}] * 4},
    "libraries": {"libraries": [LIBRARY, {"name": "libcuda.so.1", "version": None}]},
    "userconfiguration": {"path": "~/.nccl.conf", "lines": None},
}
HEALTHY = TestMachine(dict(expanded(FILES)), dict(expanded(TARGETS)), FACTS, {}).with_output(
    ["nv-fabricmanager", "--version"], "Fabric Manager version is : 550.54.15"
)
CLOCK = ("timedatectl", "show", "--property=NTPSynchronized")
HEALTHY = HEALTHY.with_output(CLOCK, "NTPSynchronized=yes")

GPU = "proc/driver/nvidia/gpus/0000:1b:00.0/information"
CHANGED_FILES = [
    (
        "gpu-model-differs",
        GPU.replace("1b", "{1b,43,52,61}"),
        INFORMATION.replace("H100 80GB HBM3", "H200"),
        "NVIDIA H200",
    ),
    ("vbios-differs", GPU, INFORMATION.replace(".74.", ".99."), "96.00.99.00.01"),
    (
        "nic-set-differs",
        "sys/class/infiniband/mlx5_3/ports/1/rate",
        "200 Gb/sec (2X NDR)",
        "200 Gb/sec (2X NDR) InfiniBand, 3 x 400 Gb",
    ),
    (
        "nic-set-differs",
        "sys/class/infiniband/mlx5_3/ports/1/link_layer",
        "Ethernet",
        "400 Gb/sec (4X NDR) Ethernet, 3 x 400 Gb/sec (4X NDR) InfiniBand",
    ),
    ("nic-pcie-differs", "sys/bus/pci/devices/0000:40:00.0/current_link_width", "8", "32.0 GT/s 8"),
    ("gpu-pcie-differs", "sys/bus/pci/devices/0000:43:00.0/current_link_width", "8", "8"),
    (
        "driver-differs",
        "proc/driver/nvidia/version",
        "NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release",
        "Open 570.124.06",
    ),
    (
        "driver-parameters-differ",
        "proc/driver/nvidia/params",
        'ResmanDebugLevel: 4294967295\nEnablePCIeRelaxedOrderingMode: 1\nRegistryDwords: ""',
        "EnablePCIeRelaxedOrderingMode: 1",
    ),
    ("nccl-conf-differs", "etc/nccl.conf", "# site\nNCCL_ALGO=Ring", "NCCL_ALGO=Ring"),
    ("mlx5-driver-differs", "sys/module/mlx5_core/version", "23.10-0.5.5", "23.10-0.5.5"),
    ("efa-driver-differs", "sys/module/efa/version", "2.1.1g", "2.1.1g"),
    ("nic-firmware-differs", "sys/class/infiniband/mlx5_3/fw_ver", "28.36.1010", "MT_0000000838 28.36.1010"),
    ("kernel-differs", "proc/sys/kernel/osrelease", "5.15.0-1042-nvidia", "5.15.0-1042-nvidia"),
    ("kernel-parameters-differ", "proc/cmdline", "BOOT_IMAGE=/boot/vmlinuz ro pci=realloc=off", "n3 lacks"),
    ("bios-differs", "sys/class/dmi/id/bios_version", "1.00.20", "1.00.20"),
    ("cpus-differ", "sys/devices/system/cpu/online", "0-111", "0-111"),
    ("numa-nodes-differ", "sys/devices/system/node/online", "0-7", "0-7"),
    ("mtu-differs", "sys/bus/pci/devices/0000:40:00.0/net/ib0/mtu", "2044", "2044"),
]
CHANGED = [
    *((check, HEALTHY.with_file(path, content), text) for check, path, content, text in CHANGED_FILES),
    ("gpu-count-differs", HEALTHY.without("proc/driver/nvidia/gpus/0000:1b:00.0"), "3"),
    ("peermem-differs", HEALTHY.without("sys/module/nvidia_peermem"), "not loaded"),
    ("fabric-manager-differs", HEALTHY.with_output(["nv-fabricmanager", "--version"], "version is : 535.1"), "535.1"),
    ("clock-synchronization-differs", HEALTHY.with_output(CLOCK, "NTPSynchronized=no"), "no"),
    ("nvlink-differs", HEALTHY.with_fact("gpus", gpus=[{"nvlinks": {"count": 17}}] * 4), "17"),
    (
        "nccl-differs",
        HEALTHY.with_fact("libraries", libraries=[LIBRARY | {"version": "2.18.3"}]),
        "2.18.3",
    ),
    ("variables-differ", HEALTHY.with_variables(NCCL_ALGO="Ring"), "NCCL_ALGO=Ring"),
]
EQUAL = [
    HEALTHY.with_file("proc/cmdline", "BOOT_IMAGE=/boot/vmlinuz root=UUID=9 ro quiet pci=realloc=off iommu=pt"),
    HEALTHY.with_variables(
        NCCL_IB_HCA="mlx5_0,mlx5_3,mlx5_4,mlx5_5", NCCL_SOCKET_IFNAME="eth0", NCCL_HOSTID="n1", SLURM_NODEID="1"
    ),
    HEALTHY.with_file("sys/bus/pci/devices/0000:1b:00.0/current_link_speed", "2.5 GT/s PCIe"),  # idle
]
"""Machines with differences that no job notices."""


def compare(machines: Sequence[TestMachine]) -> Result:
    nodes = []
    for index, machine in enumerate(machines, 1):
        nodes.append(NodeValues(node=f"n{index}"))
        read_values(machine.machine, nodes[-1])
    return examine(checks_of("nodes"), nodes, Job(), limit_s=60)


def test_equal_nodes_have_no_finding() -> None:
    result = compare([HEALTHY] * 4)
    assert not result.findings
    assert not result.could_not_check
    assert len(result.passed) == len(CHECKS) == len({each[0] for each in CHANGED})


@pytest.mark.parametrize(("check", "machine", "text"), CHANGED, ids=[each[0] for each in CHANGED])
def test_the_odd_node_is_named(check: str, machine: TestMachine, text: str) -> None:
    findings = compare([HEALTHY, HEALTHY, machine, HEALTHY]).findings
    assert [(each.check, each.subject) for each in findings] == [(check, "n3")]
    problem = findings[0].problem
    # The usual value may be a list that contains that of the odd node, or the reverse.
    assert re.match(
        r"3 of 4 nodes have .+; n3 has .|n3 has .+, which 3 of 4 nodes lack$|n3 lacks .+, which 3 of", problem
    )
    assert text in problem
    assert findings[0].evidence[0].source.startswith("n3: ")


def test_another_gpu_model_does_not_break_a_job() -> None:
    machine = HEALTHY.with_file(GPU.replace("1b", "{1b,43,52,61}"), INFORMATION.replace("H100 80GB HBM3", "H200"))
    assert [each.severity for each in compare([HEALTHY, HEALTHY, machine, HEALTHY]).findings] == ["slow"]


@pytest.mark.parametrize("machine", EQUAL)
def test_a_legitimate_difference_is_none(machine: TestMachine) -> None:
    assert not compare([HEALTHY, HEALTHY, machine, HEALTHY]).findings


def driver(version: str) -> TestMachine:
    return HEALTHY.with_file("proc/driver/nvidia/version", f"NVRM version: Kernel Module  {version}  Tue")


@pytest.mark.parametrize(
    ("versions", "problem", "severity"),
    [
        (["1.1"] * 61 + ["1.2"], "61 of 62 nodes have NVIDIA driver 1.1; n62 has 1.2", "risk"),
        (["1.2", "1.1"], "nodes differ in NVIDIA driver: 1.2 on n1; 1.1 on n2", "risk"),
        (["1.1", "1.1", "1.2"], "nodes differ in NVIDIA driver: 1.1 on n1, n2; 1.2 on n3", "risk"),
        (["1.1", "1.2", "1.1", "1.1"], "3 of 4 nodes have NVIDIA driver 1.1; n2 has 1.2", "risk"),
        (["1", "1", "2", "2"], "nodes differ in NVIDIA driver: 1 on n1, n2; 2 on n3, n4", "risk"),
        (["1"] * 32 + ["2"] * 32, "nodes differ in NVIDIA driver: 1 on n1, n2, n3, n4 and 28 more; 2 on n33", "risk"),
    ],
)
def test_only_a_majority_of_three_nodes_accuses_a_node(versions: list[str], problem: str, severity: str) -> None:
    (finding,) = compare([driver(version) for version in versions]).findings
    assert finding.problem.startswith(problem)
    assert finding.severity == severity


def test_nodes_without_a_majority_accuse_none_as_broken() -> None:
    (finding,) = compare([HEALTHY, HEALTHY.without("proc/driver/nvidia/gpus/0000:1b:00.0")]).findings
    assert (finding.check, finding.severity) == ("gpu-count-differs", "risk")


def test_each_odd_node_has_a_finding() -> None:
    findings = compare([driver("1")] * 62 + [driver("2"), driver("3")]).findings
    assert [each.subject for each in findings] == ["n63", "n64"]
    assert all(each.problem.startswith("62 of 64 nodes") for each in findings)


def test_a_value_that_a_node_lacks_is_not_compared() -> None:
    result = compare([HEALTHY, HEALTHY, HEALTHY.unreadable("proc/driver/nvidia/version")])
    assert not result.findings
    (missing,) = result.could_not_check
    assert (missing.check, missing.missing) == (
        "driver-differs",
        "permission to read /proc/driver/nvidia/version on n3",
    )


def test_a_version_that_was_not_read_in_time_is_not_replaced_by_that_of_another_library() -> None:
    libraries = [LIBRARY | {"version": None}, LIBRARY | {"version": "2.18.3"}]
    result = compare([HEALTHY, HEALTHY, HEALTHY, HEALTHY.with_fact("libraries", libraries=libraries)])
    assert not result.findings
    assert [each.check for each in result.could_not_check] == ["nccl-differs"]


def test_virtual_functions_of_a_nic_are_not_compared() -> None:
    function = "sys/bus/pci/devices/0000:18:00.1"
    machine = (
        HEALTHY.with_target("sys/class/infiniband/mlx5_12/device", "sys/devices/pci0000:15/0000:18:00.1")
        .with_target(f"{function}/physfn", "sys/devices/pci0000:15/0000:18:00.0")
        .with_file(f"{function}/{{vendor,device,class,numa_node}}", "{0x15b3,0x101e,0x020700,0}")
        .with_file("sys/class/infiniband/mlx5_12/ports/1/rate", "200 Gb/sec (4X HDR)")
    )
    result = compare([HEALTHY, HEALTHY, HEALTHY, machine])
    assert not result.findings
    assert not result.could_not_check


def test_values_that_no_node_has_are_not_applicable() -> None:
    empty = TestMachine({}, {}, {}, {})
    result = compare([empty, empty])
    assert not result.findings
    assert not result.could_not_check
    assert {"driver-differs", "nic-set-differs", "nvlink-differs"} <= set(result.not_applicable)


@pytest.mark.parametrize("content", ["", "\x1b[31m", "-1", "9" * 400, "[" * 3000, '{"gpus": 3}'])
def test_a_value_of_another_form_is_no_error(content: str) -> None:
    machine = HEALTHY
    for path in HEALTHY.files:
        machine = machine.with_file(path, content)
    for fact in FACTS:
        machine = machine.without(f"facts/{fact}").with_file(f"facts/{fact}.json", content)
    compare([machine, HEALTHY, HEALTHY, HEALTHY])
