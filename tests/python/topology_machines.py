"""Fake machines for tests of the topology: a tree of the kernel's files, and a driver that answers like NVML.

Each function of MACHINES makes a machine below a folder and returns its driver. A chain is the path of a device in the
PCIe tree: pci0000:15/0000:15:01.0/0000:16:00.0 is a host bridge, a bridge and the device.
"""

# ruff: noqa: N802 (the names of the fake driver's functions are NVML's)

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml

from busbw.topology import DevicePath, Topology
from busbw.topology.sources import nvml
from busbw.topology.sources.discovery import combine

# Constants of nvml.h, repeated here so that they do not depend on the tested code.
NOT_SUPPORTED, INVALID_ARGUMENT, LIBRARY_NOT_FOUND, LOST = 3, 2, 12, 15
TO_GPU, TO_SWITCH = 0, 2


def discover(driver: FakeNvml | None, root: Path, *, virtual_too: bool = False) -> Topology:
    """Returns the topology of a fake machine."""
    return combine(nvml.snapshot(driver), root, virtual_too=virtual_too)


def path_of(topology: Topology, one: str, other: str) -> DevicePath | None:
    """The path of two devices in any order; None if unknown."""
    return next((path for path in topology.paths if {path.of, path.to} == {one, other}), None)


def connection_of(topology: Topology, one: str, other: str) -> str | None:
    path = path_of(topology, one, other)
    return path.connection if path else None


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def link(root: Path, name: str, target: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(root / target)


def host(root: Path, *, nodes: Sequence[str], sockets: int) -> None:
    """Writes CPUs and NUMA nodes. `nodes` has the CPUs of each node as ranges; a socket has four CPUs."""
    write(root, "proc/cpuinfo", "processor\t: 0\nmodel name\t: A Processor @ 2.00GHz")
    write(root, "proc/meminfo", "MemTotal:       2147483648 kB")
    write(root, "proc/sys/kernel/hostname", "node-a")
    write(root, "sys/devices/system/cpu/online", f"0-{sockets * 4 - 1}")
    for cpu in range(sockets * 4):
        write(root, f"sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id", str(cpu // 4))
    for number, cpus in enumerate(nodes):
        write(root, f"sys/devices/system/node/node{number}/cpulist", cpus)
        write(root, f"sys/devices/system/node/node{number}/meminfo", f"Node {number} MemTotal:    1073741824 kB")


def pci(root: Path, chain: str, *, numa: int, speed: str = "32.0 GT/s PCIe", width: int = 16, **more: str) -> str:
    """Writes a PCIe device with its chain, and returns its bus id. `more` has further files with their texts."""
    bus_id = chain.rpartition("/")[2]
    folder = f"sys/devices/{chain}"
    write(root, f"{folder}/numa_node", str(numa))
    for when in ("current", "max"):
        write(root, f"{folder}/{when}_link_speed", speed)
        write(root, f"{folder}/{when}_link_width", str(width))
    write(root, f"{folder}/local_cpulist", "0-3" if numa == 0 else "4-7")
    for name, text in more.items():
        write(root, f"{folder}/{name}", text)
    link(root, f"sys/bus/pci/devices/{bus_id}", folder)
    return bus_id


def gpu(root: Path, chain: str, *, numa: int) -> str:
    bus_id = pci(root, chain, numa=numa, vendor="0x10de")
    write(root, f"sys/devices/{chain}/class", "0x030200")
    return bus_id


def rdma(
    root: Path,
    chain: str,
    name: str,
    *,
    numa: int,
    driver: str = "mlx5_core",
    layer: str = "InfiniBand",
    rate: str = "400 Gb/sec (4X NDR)",
    state: str = "4: ACTIVE",
    interface: str = "",
    node_type: str = "1: CA",
    vendor: str = "0x15b3",
) -> None:
    pci(root, chain, numa=numa)
    write(root, f"sys/devices/{chain}/vendor", vendor)
    folder = f"sys/devices/{chain}/infiniband/{name}"
    write(root, f"{folder}/node_type", node_type)
    write(root, f"{folder}/board_id", "MT_0000000838")
    for entry, text in {"state": state, "phys_state": "5: LinkUp", "rate": rate, "link_layer": layer}.items():
        write(root, f"{folder}/ports/1/{entry}", text)
    link(root, f"sys/class/infiniband/{name}", folder)
    link(root, f"{folder}/device", f"sys/devices/{chain}")
    bound(root, chain, driver)
    if interface:
        netdev(root, chain, interface, speed="400000", kind="32" if layer == "InfiniBand" else "1")


def bound(root: Path, chain: str, driver: str) -> None:
    (root / "sys/bus/pci/drivers" / driver).mkdir(parents=True, exist_ok=True)
    if not (root / "sys/devices" / chain / "driver").exists():
        link(root, f"sys/devices/{chain}/driver", f"sys/bus/pci/drivers/{driver}")


def netdev(root: Path, chain: str, name: str, *, speed: str, kind: str = "1", state: str = "up") -> None:
    folder = f"sys/devices/{chain}/net/{name}"
    for entry, text in {"operstate": state, "speed": speed, "type": kind}.items():
        write(root, f"{folder}/{entry}", text)
    link(root, f"sys/class/net/{name}", folder)
    link(root, f"{folder}/device", f"sys/devices/{chain}")


def virtual_netdev(root: Path, name: str, kind: str = "1") -> None:
    for entry, text in {"operstate": "up", "speed": "10000", "type": kind}.items():
        write(root, f"sys/devices/virtual/net/{name}/{entry}", text)
    link(root, f"sys/class/net/{name}", f"sys/devices/virtual/net/{name}")


@dataclass
class Link:
    """One NVLink of a fake GPU."""

    remote: str
    """Bus id of the remote device in NVML's format. Empty if the driver does not report it."""
    kind: int = TO_SWITCH
    version: int = 6
    megabytes: int = 26562
    """Line rate in MB/s."""
    active: bool = True


@dataclass
class FakeGpu:
    bus_id: str
    name: str = "NVIDIA H100 80GB HBM3"
    numa: int = 0
    links: list[Link] = field(default_factory=list)
    mig: int | None = 0
    generation: int = 5


@dataclass
class FakeNvml:
    """Answers like nvidia-ml-py, with its structures and errors. A handle is the index of a GPU."""

    gpus: list[FakeGpu]
    level: Callable[[int, int], int] = lambda _first, _second: 50
    """Returns nvmlDeviceGetTopologyCommonAncestor of two GPUs."""
    access: Callable[[int, int, int], int] = lambda _first, _second, _capability: 0
    """Returns nvmlDeviceGetP2PStatus of two GPUs."""
    broken: dict[str, Exception] = field(default_factory=dict)
    """Errors by the name of the function that raises them."""
    asked: list[str] = field(default_factory=list)
    """Names of the called functions."""
    NVMLError: type[Exception] = pynvml.NVMLError

    def __getattribute__(self, name: str) -> Any:
        """Wraps the nvml functions, so that they log their calls and fail if they are broken."""
        attribute = object.__getattribute__(self, name)
        if not name.startswith("nvml") or attribute is None:
            return attribute
        asked, broken = object.__getattribute__(self, "asked"), object.__getattribute__(self, "broken")

        def call(*arguments: Any) -> Any:
            asked.append(name)
            if name in broken:
                raise broken[name]
            return attribute(*arguments)

        call.__name__ = name
        return call

    def nvmlInit(self) -> None: ...
    def nvmlShutdown(self) -> None: ...

    def nvmlSystemGetDriverVersion(self) -> str:
        return "580.95.05"

    def nvmlSystemGetCudaDriverVersion(self) -> int:
        return 13000

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetName(self, handle: int) -> str:
        return self.gpus[handle].name

    def nvmlDeviceGetPciInfo(self, handle: int) -> Any:
        return SimpleNamespace(busId=f"0000{self.gpus[handle].bus_id.upper()}")

    def nvmlDeviceGetMemoryInfo(self, _handle: int) -> Any:
        return SimpleNamespace(total=80 * 2**30)

    def nvmlDeviceGetCurrPcieLinkGeneration(self, _handle: int) -> int:
        return 1

    def nvmlDeviceGetCurrPcieLinkWidth(self, _handle: int) -> int:
        return 16

    def nvmlDeviceGetMaxPcieLinkGeneration(self, handle: int) -> int:
        return self.gpus[handle].generation

    def nvmlDeviceGetMaxPcieLinkWidth(self, _handle: int) -> int:
        return 16

    def nvmlDeviceGetCpuAffinity(self, handle: int, words: int) -> Sequence[int]:
        return [0xF << 4 * self.gpus[handle].numa, *[0] * (words - 1)]

    def nvmlDeviceGetMemoryAffinity(self, handle: int, words: int, _scope: int) -> Sequence[int]:
        return [1 << self.gpus[handle].numa, *[0] * (words - 1)]

    def nvmlDeviceGetNumaNodeId(self, _handle: int) -> int:
        raise pynvml.NVMLError(NOT_SUPPORTED)

    def nvmlDeviceGetMigMode(self, handle: int) -> Sequence[int]:
        mode = self.gpus[handle].mig
        if mode is None:
            raise pynvml.NVMLError(NOT_SUPPORTED)
        return [mode, mode]

    def _link(self, handle: int, number: int) -> Link:
        links = self.gpus[handle].links
        if number >= len(links):
            raise pynvml.NVMLError(INVALID_ARGUMENT if links else NOT_SUPPORTED)
        return links[number]

    def nvmlDeviceGetNvLinkState(self, handle: int, number: int) -> int:
        return int(self._link(handle, number).active)

    def nvmlDeviceGetNvLinkVersion(self, handle: int, number: int) -> int:
        return self._link(handle, number).version

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, handle: int, number: int) -> int:
        return self._link(handle, number).kind

    def nvmlDeviceGetNvLinkRemotePciInfo(self, handle: int, number: int) -> Any:
        return SimpleNamespace(busId=self._link(handle, number).remote or "00000000:00:00.0")

    def nvmlDeviceGetFieldValues(self, handle: int, fields: Sequence[tuple[int, int]]) -> Sequence[Any]:
        ((number, scope),) = fields
        assert number == 164  # NVML_FI_DEV_NVLINK_GET_SPEED
        value = SimpleNamespace(uiVal=self._link(handle, scope).megabytes)
        return [SimpleNamespace(nvmlReturn=0, valueType=1, value=value)]

    def nvmlDeviceGetTopologyCommonAncestor(self, one: int, other: int) -> int:
        return self.level(one, other)

    def nvmlDeviceGetP2PStatus(self, one: int, other: int, index: int) -> int:
        return self.access(one, other, index)


def socket_level(first: int, second: int) -> int:
    """Returns the level of two of 8 GPUs on two sockets: NODE (40) or SYS (50)."""
    return 40 if (first < 4) == (second < 4) else 50


def hgx_h100(root: Path) -> FakeNvml:
    """8 GPUs with 4 NVSwitches. Each GPU shares a PCIe switch with a NIC. One card has two Ethernet ports, one down."""
    host(root, nodes=["0-3", "4-7"], sockets=2)
    gpus = []
    switches = [f"00000000:{bus}:00.0" for bus in ("07", "08", "09", "0A")]
    for number in range(8):
        numa, bus = number // 4, 0x10 + 0x10 * number
        switch = f"pci0000:{bus:02x}/0000:{bus:02x}:01.0/0000:{bus + 1:02x}:00.0"
        gpu_id = gpu(root, f"{switch}/0000:{bus + 2:02x}:00.0/0000:{bus + 3:02x}:00.0", numa=numa)
        rdma(
            root,
            f"{switch}/0000:{bus + 2:02x}:01.0/0000:{bus + 4:02x}:00.0",
            f"mlx5_{number}",
            numa=numa,
            interface=f"ib{number}",
        )
        links = [Link(switch_id) for switch_id, count in zip(switches, (5, 4, 4, 5), strict=True) for _ in range(count)]
        gpus.append(FakeGpu(gpu_id, numa=numa, links=links))
    for function, state in ((0, "up"), (1, "down")):
        chain = f"pci0000:00/0000:00:03.0/0000:05:00.{function}"
        pci(root, chain, numa=0, speed="8.0 GT/s PCIe", width=8)
        bound(root, chain, "ice")
        netdev(root, chain, f"ens{function}", speed="100000" if state == "up" else "-1", state=state)
    virtual_netdev(root, "lo", kind="772")
    virtual_netdev(root, "docker0")
    return FakeNvml(gpus, level=socket_level)


def a100_pcie(root: Path) -> FakeNvml:
    """4 GPUs, two at each of two PCIe switches. 12 NVLinks join each pair. A RoCE NIC is at the first switch."""
    host(root, nodes=["0-3", "4-7"], sockets=2)
    gpus = []
    for number in range(4):
        bus = 0x20 + 0x20 * (number // 2)
        switch = f"pci0000:{bus:02x}/0000:{bus:02x}:01.0/0000:{bus + 1:02x}:00.0"
        port = number % 2
        gpus.append(
            FakeGpu(
                gpu(root, f"{switch}/0000:{bus + 2:02x}:0{port}.0/0000:{bus + 3 + port:02x}:00.0", numa=number // 2),
                name="NVIDIA A100 80GB PCIe",
                numa=number // 2,
                generation=4,
            )
        )
    for number, one in enumerate(gpus):
        other = gpus[number ^ 1]
        one.links = [Link(f"0000{other.bus_id.upper()}", TO_GPU, version=5, megabytes=25781) for _ in range(12)]
    switch = "pci0000:20/0000:20:01.0/0000:21:00.0"
    rdma(
        root,
        f"{switch}/0000:22:02.0/0000:26:00.0",
        "mlx5_0",
        numa=0,
        layer="Ethernet",
        rate="200 Gb/sec (4X HDR)",
        interface="ens1np0",
    )
    return FakeNvml(
        gpus,
        level=lambda one, other: 10 if one // 2 == other // 2 else 50,
        access=lambda one, other, index: 0 if one // 2 == other // 2 else 3 if index == 2 else 1,
    )


def one_gpu(root: Path) -> FakeNvml:
    """A small cloud machine: one GPU and a NIC with an unknown rate, on a bus without bridges."""
    host(root, nodes=["0-3"], sockets=1)
    chain = "pci0000:00/0000:00:1e.0"
    bus_id = gpu(root, chain, numa=-1)
    nic = "pci0000:00/0000:00:05.0"
    pci(root, nic, numa=-1, speed="Unknown", width=0)
    bound(root, nic, "ena")
    netdev(root, nic, "ens5", speed="-1", state="up")
    return FakeNvml([FakeGpu(bus_id, name="NVIDIA L4", mig=None, generation=4)])


def no_gpu(root: Path) -> FakeNvml:
    """Two sockets and an InfiniBand NIC, without the driver's library."""
    host(root, nodes=["0-3", "4-7"], sockets=2)
    rdma(root, "pci0000:10/0000:10:01.0/0000:11:00.0", "mlx5_0", numa=0)
    return FakeNvml([], broken={"nvmlInit": pynvml.NVMLError(LIBRARY_NOT_FOUND)})


def volta_mesh(root: Path) -> FakeNvml:
    """8 GPUs with direct NVLinks: two, one or none per pair. 4 EFA devices are at each of four PCIe switches."""
    host(root, nodes=["0-3", "4-7"], sockets=2)
    ids = []
    for number in range(8):
        bus = 0x10 + 0x20 * (number // 2)
        switch = f"pci0000:{bus:02x}/0000:{bus:02x}:01.0/0000:{bus + 1:02x}:00.0"
        below = f"{switch}/0000:{bus + 2:02x}:0{number % 2}.0/0000:{bus + 3 + number % 2:02x}:00.0"
        ids.append(gpu(root, below, numa=number // 4))
        for port in (2, 3) if number % 2 else (4, 5):
            chain = f"{switch}/0000:{bus + 2:02x}:0{port}.0/0000:{bus + 3 + port:02x}:00.0"
            name = f"rdmap{bus + 3 + port}s0"
            rdma(
                root,
                chain,
                name,
                numa=number // 4,
                driver="efa",
                vendor="0x1d0f",
                layer="Unspecified",
                rate="100 Gb/sec (4X EDR)",
            )
    link_counts = {(0, 3): 2, (0, 4): 2, (0, 1): 1, (0, 2): 1, (1, 2): 2, (1, 5): 2, (1, 3): 1, (2, 3): 2, (2, 6): 1}
    link_counts |= {(3, 7): 1, (4, 7): 2, (4, 5): 1, (4, 6): 1, (5, 6): 2, (5, 7): 1, (6, 7): 2}
    fakes = [
        FakeGpu(bus_id, name="Tesla V100-SXM2-32GB", numa=index // 4, mig=None, generation=3)
        for index, bus_id in enumerate(ids)
    ]
    for (one, other), links in link_counts.items():
        for gpu_index, remote in ((one, other), (other, one)):
            fakes[gpu_index].links += [
                Link(f"0000{ids[remote]}", TO_GPU, version=2, megabytes=25781) for _ in range(links)
            ]
    return FakeNvml(fakes, level=lambda one, other: 10 if one // 2 == other // 2 else socket_level(one, other))


MACHINES = {
    "volta_mesh": volta_mesh,
    "hgx_h100": hgx_h100,
    "a100_pcie": a100_pcie,
    "one_gpu": one_gpu,
    "no_gpu": no_gpu,
}
