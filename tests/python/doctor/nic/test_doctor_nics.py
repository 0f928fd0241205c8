"""Checks of NICs: one change of a healthy machine yields one finding, and known false alarms yield none."""

import pytest
from doctor_machines import TestMachine, assert_only, load

from busbw.doctor.checks.nic.presence import EFA_COUNTS_WITHOUT_MACHINE_TYPE
from busbw.launchers.machine_types.machine_type import built_in_types

DGX, ROCE, EFA = load("dgx-h100"), load("hgx-h100-roce"), load("p5-efa")
INFINIBAND = "sys/class/infiniband"
ALL = "mlx5_{0,3,4,5,6,9,10,11}"


def port_of(device: str) -> str:
    """Folder of the first port of a NIC."""
    return f"{INFINIBAND}/{device}/ports/1"


def inactive(machine: TestMachine, device: str, state: str, physical_state: str) -> TestMachine:
    """The machine with a port in another state."""
    changed = machine.with_file(f"{port_of(device)}/state", state)
    return changed.with_file(f"{port_of(device)}/phys_state", physical_state)


def with_storage_nic(machine: TestMachine, **values: str) -> TestMachine:
    """The machine with a ninth NIC of the same model, below the host bridge of the first one."""
    folder = "sys/devices/pci0000:15/0000:15:05.0/0000:20:00.0"
    changed = machine.with_target(f"{INFINIBAND}/mlx5_20/device", folder)
    for name in ("vendor", "device", "class", "numa_node"):
        changed = changed.with_file(
            f"sys/bus/pci/devices/0000:20:00.0/{name}", machine.files[f"sys/bus/pci/devices/0000:18:00.0/{name}"]
        )
    first = f"{INFINIBAND}/mlx5_0/"
    for path, content in machine.files.items():
        if path.startswith(first):
            name = path.removeprefix(first)
            changed = changed.with_file(f"{INFINIBAND}/mlx5_20/{name}", values.get(name.rpartition("/")[2], content))
    return changed.with_file("dev/infiniband/uverbs8", "")


def test_a_port_without_a_signal() -> None:
    machine = inactive(DGX, "mlx5_3", "1: DOWN", "2: Polling")
    assert_only(machine, "nic-state", subject="mlx5_3", severity="slow")
    assert machine.examine("nic-state").findings[0].problem == (
        "mlx5_3 is DOWN (Polling); 7 of 8 equal NICs are ACTIVE"
    )


def test_a_node_without_any_link() -> None:
    machine = inactive(DGX, ALL, "1: DOWN", "2: Polling")
    assert_only(machine, "nic-state", severity="risk")
    assert_only(machine.with_variables(SLURM_NNODES="2"), "nic-state", severity="slow")
    assert machine.examine("nic-state").findings[0].problem == "none of 8 compute NICs is ACTIVE"
    assert {"nic-rate", "nic-fw-driver-mixed"} <= set(machine.examine().not_applicable)
    half = inactive(DGX, "mlx5_{0,3,4,5}", "1: DOWN", "2: Polling")
    assert not half.examine().findings


def test_virtual_functions() -> None:
    virtual = "sys/bus/pci/devices/{0000:18:00.0,0000:40:00.0,0000:4f:00.0,0000:5e:00.0}/physfn/vendor"
    machine = inactive(DGX.with_file(virtual, "0x15b3"), "mlx5_3", "1: DOWN", "2: Polling")
    assert not machine.examine("nic-state").findings
    for device in ("mlx5_6", "mlx5_9", "mlx5_10", "mlx5_11"):
        machine = machine.without(f"{INFINIBAND}/{device}")
    assert [finding.subject for finding in machine.examine("nic-state").findings] == ["mlx5_3"]


def test_a_port_that_is_switched_off() -> None:
    assert_only(inactive(ROCE, "mlx5_7", "1: DOWN", "3: Disabled"), "nic-state", subject="mlx5_7", severity="slow")


@pytest.mark.parametrize("state", ["2: INIT", "3: ARMED"])
def test_a_port_without_a_subnet_manager(state: str) -> None:
    machine = inactive(DGX, "mlx5_3", state, "5: LinkUp")
    assert_only(machine, "ib-subnet-manager", subject="mlx5_3", severity="broken")


def test_a_fabric_without_a_subnet_manager() -> None:
    result = inactive(DGX, ALL, "2: INIT", "5: LinkUp").examine("ib-subnet-manager")
    assert len(result.findings) == 8


def test_a_subnet_manager_needs_time_after_boot() -> None:
    result = inactive(DGX, ALL, "2: INIT", "5: LinkUp").with_file("proc/uptime", "40.12 9.00").examine()
    assert not result.findings
    assert [each.check for each in result.could_not_check] == ["ib-subnet-manager"]


def test_an_active_port_without_a_subnet_manager() -> None:
    machine = DGX.with_file(f"{port_of('mlx5_4')}/sm_lid", "0x0")
    assert_only(machine, "ib-subnet-manager", subject="mlx5_4")


def test_storage_ports_of_the_same_model_are_not_judged() -> None:
    for values in (
        {"state": "1: DOWN", "phys_state": "2: Polling", "rate": "10 Gb/sec (4X SDR)"},
        {"rate": "200 Gb/sec (4X HDR)"},
        {"link_layer": "Ethernet"},
    ):
        machine = with_storage_nic(DGX, **values)
        assert "mlx5_20/ports/1/state" in "".join(machine.files)
        assert not machine.examine().findings


def test_ports_that_nccl_does_not_use_are_not_judged() -> None:
    machine = inactive(DGX, "mlx5_3", "1: DOWN", "2: Polling")
    for selection in ("^mlx5_3", "=mlx5_0,mlx5_4,mlx5_5,mlx5_6", "mlx5_0:1,mlx5_4:1"):
        assert not machine.with_variables(NCCL_IB_HCA=selection).examine("nic-state").findings
    for selection in ("mlx5", "^=mlx5", "mlx5_3:1,mlx5_4,mlx5_5,mlx5_6", ""):
        assert machine.with_variables(NCCL_IB_HCA=selection).examine("nic-state").findings


def test_a_port_at_half_rate() -> None:
    machine = DGX.with_file(f"{port_of('mlx5_9')}/rate", "200 Gb/sec (2X NDR)")
    assert_only(machine, "nic-rate", subject="mlx5_9", severity="slow")
    finding = machine.examine("nic-rate").findings[0]
    assert finding.problem == "mlx5_9 has 200 Gb/s; most of 8 equal NICs have 400 Gb/s"
    assert finding.evidence[0].source == "/sys/class/infiniband/mlx5_9/ports/1/rate"
    assert "mlxlink -d mlx5_9 -m" in finding.fix


def test_a_port_with_a_lower_rate_and_other_firmware() -> None:
    machine = DGX.with_file(f"{port_of('mlx5_9')}/rate", "200 Gb/sec (2X NDR)")
    machine = machine.with_file(f"{INFINIBAND}/mlx5_9/fw_ver", "28.36.1010")
    costs = {finding.check: finding.cost for finding in machine.examine().findings}
    assert costs["nic-rate"]
    assert not costs["nic-fw-driver-mixed"]


def test_ports_with_two_lanes_by_design() -> None:
    assert not DGX.with_file(f"{port_of(ALL)}/rate", "200 Gb/sec (2X NDR)").examine().findings


def test_a_nic_with_other_firmware() -> None:
    machine = DGX.with_file(f"{INFINIBAND}/mlx5_6/fw_ver", "28.36.1010")
    assert_only(machine, "nic-fw-driver-mixed", subject="mlx5_6", severity="risk")


def test_a_nic_without_an_rdma_device() -> None:
    machine = DGX.without(f"{INFINIBAND}/mlx5_11").without("sys/class/net/ibp220s0")
    assert {finding.check for finding in machine.examine().findings} == {"nic-count", "nic-numa-gpu-map"}
    lost = machine.examine("nic-count").findings[0]
    assert lost.subject == "0000:dc:00.0"
    for path in ("infiniband", "physfn"):
        assert not machine.with_file(f"sys/bus/pci/devices/0000:dc:00.0/{path}/x", "").examine("nic-count").findings
    passed_on = machine.with_target("sys/bus/pci/devices/0000:dc:00.0/driver", "sys/bus/pci/drivers/vfio-pci")
    assert not passed_on.examine("nic-count").findings


def test_a_gpu_without_a_near_nic() -> None:
    place = "sys/devices/pci0000:e0/0000:e0:01.0/0000:e1:00.0/0000:dc:00.0"
    machine = DGX.with_target("sys/bus/pci/devices/0000:dc:00.0", place)
    assert_only(machine, "nic-numa-gpu-map", subject="GPU7", severity="slow")


@pytest.mark.parametrize(
    ("value", "count"), [("mlx5_9", 1), ("=mlx5_0,mlx5_3", 2), ("=mlx5_0,mlx5_3,mlx5_4,mlx5_5", 4)]
)
def test_nccl_ib_hca_with_the_nics_of_few_gpus(value: str, count: int) -> None:
    machine = DGX.with_variables(NCCL_IB_HCA=value)
    assert_only(machine, "nic-numa-gpu-map", subject="NCCL_IB_HCA", severity="slow")
    finding = machine.examine().findings[0]
    assert f"NCCL_IB_HCA={value} permits a NIC below the PCIe switch of {count} of 8 GPUs" == finding.problem
    assert finding.fix == "unset NCCL_IB_HCA"


def test_nccl_ib_hca_with_all_nics() -> None:
    assert not DGX.with_variables(NCCL_IB_HCA="mlx5").examine().findings
    assert not load("nd-h100-v5").with_variables(NCCL_IB_HCA="mlx5_ib0").examine("nic-numa-gpu-map").findings


def test_machines_without_switches_have_no_near_nics() -> None:
    for name in ("nd-h100-v5", "gb200-tray"):
        assert "nic-numa-gpu-map" in load(name).examine().not_applicable


def test_a_slot_that_is_slower_than_the_port() -> None:
    slow = "sys/bus/pci/devices/{0000:dc:00.0,0000:d9:00.0}"
    machine = DGX.with_file(f"{slow}/max_link_width", "8")
    machine = machine.with_file("sys/bus/pci/devices/0000:dc:00.0/current_link_width", "8")
    assert_only(machine, "port-speed-vs-slot", subject="mlx5_11", severity="slow")
    assert "400 Gb/s in a PCIe slot of 252 Gb/s" in machine.examine("port-speed-vs-slot").findings[0].problem


def test_a_card_in_two_slots_carries_its_rate() -> None:
    halves = "{0000:dc:00.0,0000:d9:00.0,0000:ce:00.0,0000:c9:00.0}"
    narrow = DGX.with_file(f"sys/bus/pci/devices/{halves}/{{max,current}}_link_width", "8")
    assert len(narrow.examine("port-speed-vs-slot").findings) == 2
    shared = narrow.with_file(f"{INFINIBAND}/mlx5_{{10,11}}/sys_image_guid", "58a2:e103:0002:7f3c")
    assert not shared.examine("port-speed-vs-slot").findings


def test_nics_with_a_switch_of_their_own_do_not_depend_on_the_slot() -> None:
    machine = DGX.with_file(f"{port_of(ALL)}/rate", "800 Gb/sec (4X XDR)")
    assert not machine.examine("port-speed-vs-slot").findings


def test_a_link_below_its_capability_is_no_finding_about_the_slot() -> None:
    machine = DGX.with_file("sys/bus/pci/devices/0000:dc:00.0/current_link_width", "8")
    assert not machine.examine("port-speed-vs-slot").findings


def test_bridges_of_virtual_machines_do_not_limit_a_nic() -> None:
    machine = DGX.with_file("sys/bus/pci/devices/0000:d9:00.0/max_link_width", "1")
    assert not machine.examine("port-speed-vs-slot").findings


def test_a_container_without_device_files() -> None:
    machine = DGX.without("dev/infiniband").with_file("dev/nvidia{0..7}", "")
    assert_only(machine, "ib-verbs-char-devices", severity="slow")
    one_gpu = DGX.without("dev/infiniband").with_file("dev/nvidia0", "").with_file("dev/nvidiactl", "")
    for share in (one_gpu.with_file(".dockerenv", ""), one_gpu.with_variables(SLURM_JOB_ID="7")):
        assert share.examine("ib-verbs-char-devices").not_applicable
    assert_only(one_gpu, "ib-verbs-char-devices", severity="slow")


def test_a_roce_nic_without_an_address() -> None:
    machine = ROCE.with_file(f"{port_of('mlx5_5')}/gids/{{2,3}}", "0000:0000:0000:0000:0000:0000:0000:0000")
    assert_only(machine, "roce-gid", subject="mlx5_5", severity="broken")


def test_other_protocols_are_not_judged() -> None:
    machine = ROCE.with_file(f"{INFINIBAND}/mlx5_{{0..7}}/node_type", "4: RNIC")
    assert "roce-gid" in machine.examine().not_applicable


def test_a_network_of_link_local_addresses() -> None:
    machine = ROCE.with_file(f"{port_of('mlx5_{0..7}')}/gids/{{2,3}}", "0000:0000:0000:0000:0000:0000:0000:0000")
    assert {finding.severity for finding in machine.examine("roce-gid").findings} == {"risk"}
    # One NIC may have an address for another purpose, such as the Internet.
    first = {f"{port_of('mlx5_0')}/gids/{index}": ROCE.files[f"{port_of('mlx5_0')}/gids/{index}"] for index in (2, 3)}
    for path, address in first.items():
        machine = machine.with_file(path, address)
    findings = machine.examine("roce-gid").findings
    assert [finding.severity for finding in findings] == ["risk"] * 7


def test_the_gid_index() -> None:
    assert not ROCE.with_variables(NCCL_IB_GID_INDEX="3").examine().findings
    assert not ROCE.with_variables(NCCL_IB_GID_INDEX="-1").examine("roce-gid").findings
    # The index 1 has a link-local address, which works without routers (NVIDIA/nccl#769).
    for index, severity in (("1", "risk"), ("2", "broken"), ("4", "broken"), ("99", "broken")):
        findings = ROCE.with_variables(NCCL_IB_GID_INDEX=index).examine("roce-gid").findings
        assert [finding.severity for finding in findings] == [severity] * 8


def test_an_interface_with_another_mtu() -> None:
    assert_only(ROCE.with_file("sys/class/net/ens12np0/mtu", "1500"), "nic-mtu", subject="mlx5_2", severity="slow")


@pytest.mark.parametrize(("mtu", "count"), [("1500", 1), ("4200", 0), ("4220", 0)])
def test_the_mtu_of_all_interfaces(mtu: str, count: int) -> None:
    machine = ROCE.with_file("sys/class/net/ens{10..17}np0/mtu", mtu)
    assert [finding.check for finding in machine.examine().findings] == ["nic-mtu"] * count
    # EFA has its own packets, and other drivers may have.
    assert not load("mi300x").with_file("sys/class/net/rdma{0..7}/mtu", mtu).examine("nic-mtu").findings


def test_all_too_small_mtus_are_named() -> None:
    machine = ROCE.with_file("sys/class/net/ens{10..13}np0/mtu", "1500")
    machine = machine.with_file("sys/class/net/ens{14..17}np0/mtu", "2000")
    (finding,) = machine.examine("nic-mtu").findings
    assert "8 RoCE NICs have MTU 1500 or 2000; RDMA packets with 4096 bytes of data need 4200" in finding.problem


def test_a_nic_without_lossless_priority() -> None:
    output = "pfc-cap 8 macsec-bypass off delay 0\nprio-pfc 0:off 1:off 2:off 3:off 4:off 5:off 6:off 7:off"
    machine = ROCE.with_output(["dcb", "pfc", "show", "dev", "ens13np0"], output)
    assert_only(machine, "roce-qos", subject="mlx5_3", severity="slow")


def test_a_nic_that_ignores_marked_packets() -> None:
    folder = "sys/class/net/ens13np0/ecn"
    machine = ROCE.with_file(f"{folder}/roce_rp/enable/3", "0")
    assert_only(machine, "roce-ecn", subject="mlx5_3", severity="risk")
    assert "sent: 0 1 2 4 5 6 7, received: 0 1 2 3" in machine.examine("roce-ecn").findings[0].problem
    # The driver of the kernel does not state it.
    assert "roce-ecn" in load("mi300x").examine().not_applicable


def test_a_nic_without_a_route() -> None:
    command = ("ip", "-o", "route", "show", "dev", "ens13np0")
    assert_only(ROCE.with_output(command, ""), "roce-route", subject="mlx5_3", severity="risk")
    # Routes of the sender's address are in other tables.
    machine = ROCE
    for number in range(10, 18):
        machine = machine.with_output((*command[:-1], f"ens{number}np0"), "")
    assert not machine.examine("roce-route").findings


def bonded(mode: str, *states: str) -> TestMachine:
    """A machine in which the first NIC has a bond of two interfaces, of which the second has no RDMA device."""
    machine = ROCE.with_file("sys/class/net/bond0/bonding/slaves", "ens10np0 ens10np1")
    machine = machine.with_file("sys/class/net/bond0/bonding/mode", mode)
    for name, state in zip(("ens10np0", "ens10np1"), states, strict=True):
        machine = machine.with_file(f"sys/class/net/{name}/bonding_slave/mii_status", state)
    return machine


def test_a_bond_without_one_of_its_links() -> None:
    machine = bonded("802.3ad 4", "up", "down")
    assert_only(machine, "nic-bond", subject="ens10np1", severity="slow")
    assert machine.examine("nic-bond").findings[0].problem == "ens10np1 has no link; bond0 has 1 of 2 links"
    assert_only(bonded("active-backup 1", "up", "down"), "nic-bond", severity="risk")


def test_a_bond_with_all_links_or_of_other_nics() -> None:
    assert not bonded("802.3ad 4", "up", "up").examine().findings
    assert not bonded("802.3ad 4", "down", "down").examine("nic-bond").findings
    other = bonded("802.3ad 4", "up", "down").with_file("sys/class/net/bond0/bonding/slaves", "eno1 eno2")
    assert not other.examine().findings


def test_interfaces_of_another_network_namespace_cannot_be_checked() -> None:
    result = ROCE.without("sys/class/net").examine("nic-mtu", "roce-qos")
    assert [each.missing for each in result.could_not_check] == [
        "mlx5_0 has no network interface here; use the network namespace of the host"
    ] * 2


def test_missing_efa_devices() -> None:
    machine = EFA
    for device in ("rdmap198s0", "rdmap199s0", "rdmap200s0", "rdmap201s0"):
        machine = machine.without(f"{INFINIBAND}/{device}")
    findings = machine.examine("efa-present", "nic-count").findings
    assert [finding.problem for finding in findings] == ["28 EFA devices work; p5.48xlarge has 32"]
    without = EFA.without(INFINIBAND)
    assert_only(without, "efa-present", severity="slow")


@pytest.mark.parametrize(
    ("instance", "count"),
    [*EFA_COUNTS_WITHOUT_MACHINE_TYPE.items(), ("p4d.24xlarge", 4), ("p5en.48xlarge", 16), ("p6-b200.48xlarge", 8)],
)
def test_the_efa_devices_of_an_instance_type(instance: str, count: int) -> None:
    machine = EFA.without(INFINIBAND).with_file("sys/class/dmi/id/product_name", instance)
    assert machine.examine("efa-present").findings[0].problem == f"0 EFA devices work; {instance} has {count}"


def test_each_efa_count_has_one_source() -> None:
    assert EFA_COUNTS_WITHOUT_MACHINE_TYPE.keys().isdisjoint(built_in_types())


@pytest.mark.parametrize("instance", ["hgx-h100", "p5", "", "c5.large"])
def test_no_efa_device_is_expected_of_other_machines(instance: str) -> None:
    machine = EFA.without(INFINIBAND).with_file("sys/class/dmi/id/product_name", instance)
    assert machine.examine("efa-present").not_applicable


def test_the_interface_for_sockets() -> None:
    machine = DGX.with_file("sys/class/net/eno3/operstate", "up").with_file("sys/class/net/eno4/operstate", "down")
    for selection in ("eno", "=eno3", "^docker,lo", "eno9,eno3", ""):
        assert not machine.with_variables(NCCL_SOCKET_IFNAME=selection).examine().findings
    for selection in ("eth0", "=eno", "eno4", "=eno4,eth0"):
        assert_only(machine.with_variables(NCCL_SOCKET_IFNAME=selection), "socket-interface", severity="broken")
