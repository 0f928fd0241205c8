"""Tests of the kernel's data, with trees of files."""

from pathlib import Path

import pytest
import topology_machines as machines
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from busbw.topology.sources import sysfs
from busbw.topology.sources.nics import nics
from busbw.topology.types import Host, Nic


def found(root: Path, *, virtual_too: bool = False) -> dict[str, Nic]:
    return {nic.name or "": nic for nic, _ in nics(root, virtual_too=virtual_too)}


def test_a_host(tmp_path: Path) -> None:
    machines.host(tmp_path, nodes=["0-3", "4-7", ""], sockets=2)
    host = sysfs.read_host(tmp_path)
    assert (host.name, host.processor, host.sockets, host.cpus) == ("node-a", "A Processor @ 2.00GHz", 2, "0-7")
    assert host.memory_bytes == 2 * 2**40
    assert [(node.index, node.cpus, node.memory_bytes) for node in host.numa_nodes or ()] == [
        (0, "0-3", 2**40),
        (1, "4-7", 2**40),
        (2, "", 2**40),  # memory without CPUs: a GPU's, or what hangs at CXL
    ]


def test_nothing_said_is_unknown(tmp_path: Path) -> None:
    assert sysfs.read_host(tmp_path) == Host()
    assert nics(tmp_path, virtual_too=True) == []
    assert sysfs.gpu_bus_ids(tmp_path) == ()
    assert sysfs.pcie(tmp_path, "0000:01:00.0") is None
    assert sysfs.pci_location(tmp_path, tmp_path / "nowhere") is None


def test_nodes_and_devices_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    machines.host(tmp_path, nodes=[str(number) for number in range(12)], sockets=1)
    assert [node.index for node in sysfs.read_host(tmp_path).numa_nodes or ()] == list(range(12))
    for number in (10, 9, 1):
        machines.rdma(tmp_path, f"pci0000:00/0000:00:{number:02x}.0", f"mlx5_{number}", numa=0)
    assert list(found(tmp_path)) == ["mlx5_1", "mlx5_9", "mlx5_10"]


@pytest.mark.parametrize(
    ("layer", "vendor", "driver", "node_type", "kind"),
    [
        ("InfiniBand", "0x15b3", "mlx5_core", "1: CA", "InfiniBand"),
        ("Ethernet", "0x15b3", "mlx5_core", "1: CA", "RoCE"),
        ("Ethernet", "0x14e4", "bnxt_en", "1: CA", "RoCE"),
        ("Unspecified", "0x1d0f", "efa", "7: unspecified", "EFA"),
        ("Unspecified", "0x1d0f", "another", "7: unspecified", "EFA"),
        ("Unspecified", "0x1234", "efa", "7: unspecified", "RDMA"),
        ("Ethernet", "0x1425", "cxgb4", "4: RNIC", "iWARP"),
        ("Unspecified", "0x1234", "novelty", "7: unspecified", "RDMA"),
    ],
)
def test_kinds_of_rdma_devices(tmp_path: Path, layer: str, vendor: str, driver: str, node_type: str, kind: str) -> None:
    values = {"layer": layer, "vendor": vendor, "driver": driver, "node_type": node_type}
    machines.rdma(tmp_path, "pci0000:00/0000:00:05.0", "dev0", numa=0, **values)
    nic = found(tmp_path)["dev0"]
    assert (nic.kind, nic.driver, nic.bus_id) == (kind, driver, "0000:00:05.0")


def test_a_port_says_rate_and_state(tmp_path: Path) -> None:
    machines.rdma(tmp_path, "pci0000:00/0000:00:05.0", "mlx5_0", numa=1, state="1: DOWN", rate="12.5 Gb/sec (1X HDR)")
    nic = found(tmp_path)["mlx5_0"]
    (port,) = nic.ports
    assert (port.number, port.state, port.physical_state) == (1, "DOWN", "LinkUp")
    assert (port.rate_gbit, port.link_layer) == (12.5, "InfiniBand")
    assert (nic.board_id, nic.numa_node, nic.cpu_affinity) == ("MT_0000000838", 1, "4-7")
    assert nic.pcie is not None
    assert (nic.pcie.max_generation, nic.pcie.max_width, nic.pcie.max_gbps) == (5, 16, 63.02)


def test_an_interface_of_an_rdma_device_is_not_a_second_nic(tmp_path: Path) -> None:
    machines.rdma(tmp_path, "pci0000:00/0000:00:05.0", "mlx5_0", numa=0, interface="ib0")
    assert list(found(tmp_path)) == ["mlx5_0"]
    assert found(tmp_path)["mlx5_0"].interfaces == ("ib0",)


@pytest.mark.parametrize(
    ("speed", "gbit"), [("25000", 25), ("2500", 2.5), ("-1", None), ("0", None), ("4294967295", None), ("fast", None)]
)
def test_speeds_of_ethernet(tmp_path: Path, speed: str, gbit: float | None) -> None:
    chain = "pci0000:00/0000:00:05.0"
    machines.pci(tmp_path, chain, numa=0)
    machines.netdev(tmp_path, chain, "eth0", speed=speed)
    assert found(tmp_path)["eth0"].ports[0].rate_gbit == gbit


def test_virtual_interfaces_are_shown_when_asked_for(tmp_path: Path) -> None:
    chain = "pci0000:00/0000:00:05.0"
    machines.pci(tmp_path, chain, numa=0)
    machines.netdev(tmp_path, chain, "eth0", speed="25000")
    machines.virtual_netdev(tmp_path, "docker0")
    machines.virtual_netdev(tmp_path, "lo", kind="772")
    assert list(found(tmp_path)) == ["eth0"]
    assert {name: nic.kind for name, nic in found(tmp_path, virtual_too=True).items()} == {
        "docker0": "virtual",
        "eth0": "Ethernet",
    }
    assert [nic.label for nic, _ in nics(tmp_path, virtual_too=True)] == ["NIC0", "NIC1"]


def test_a_virtual_function_is_named(tmp_path: Path) -> None:
    machines.rdma(tmp_path, "pci0000:00/0000:00:05.0", "mlx5_0", numa=0)
    assert not found(tmp_path)["mlx5_0"].is_virtual_function
    machines.pci(tmp_path, "pci0000:00/0000:00:04.0", numa=0)
    machines.link(tmp_path, "sys/devices/pci0000:00/0000:00:05.0/physfn", "sys/devices/pci0000:00/0000:00:04.0")
    assert found(tmp_path)["mlx5_0"].is_virtual_function


def test_gpus_on_the_bus(tmp_path: Path) -> None:
    machines.gpu(tmp_path, "pci0000:00/0000:00:09.0", numa=0)
    audio = "pci0000:00/0000:00:09.1"
    machines.pci(tmp_path, audio, numa=0, vendor="0x10de")
    machines.write(tmp_path, f"sys/devices/{audio}/class", "0x040300")
    assert sysfs.gpu_bus_ids(tmp_path) == ("0000:00:09.0",)


FILES = [
    "sys/class/infiniband/mlx5_0/ports/1/rate",
    "sys/class/infiniband/mlx5_0/ports/1/state",
    "sys/class/net/eth0/speed",
    "sys/class/net/eth0/type",
    "sys/devices/pci0000:00/0000:00:05.0/numa_node",
    "sys/devices/pci0000:00/0000:00:05.0/max_link_speed",
    "sys/devices/pci0000:00/0000:00:05.0/max_link_width",
    "sys/devices/system/node/node0/cpulist",
    "sys/devices/system/node/node0/meminfo",
    "proc/cpuinfo",
    "proc/meminfo",
]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(st.sampled_from(FILES), st.binary(max_size=40))
def test_no_file_can_break_it(tmp_path_factory: pytest.TempPathFactory, file: str, content: bytes) -> None:
    root = tmp_path_factory.mktemp("root")
    machines.host(root, nodes=["0-3"], sockets=1)
    machines.rdma(root, "pci0000:00/0000:00:05.0", "mlx5_0", numa=0)
    machines.pci(root, "pci0000:00/0000:00:06.0", numa=0)
    machines.netdev(root, "pci0000:00/0000:00:06.0", "eth0", speed="1000")
    (root / file).write_bytes(content)
    sysfs.read_host(root)
    for nic, _ in nics(root, virtual_too=True):
        assert all(port.rate_gbit is None or port.rate_gbit > 0 for port in nic.ports)
