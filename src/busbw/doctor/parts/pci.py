"""PCI devices of a machine: GPUs, RDMA devices, the bridges above them, and their links."""

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from busbw.doctor.model import Absent, Machine
from busbw.doctor.parts.job import is_container_without_gpu
from busbw.topology.sources.link_rates import pcie_gbps, pcie_generation
from busbw.topology.sources.nics import EFA_VENDOR
from busbw.topology.sources.pci_paths import PciLocation, chain_of

DEVICES, DRIVER_GPUS = "sys/bus/pci/devices", "proc/driver/nvidia/gpus"
INFINIBAND = "sys/class/infiniband"
NVIDIA, AMD, MELLANOX = "0x10de", "0x1002", "0x15b3"
"""Vendor ids."""
CLASS_3D = "0x0302"
"""PCI class of GPUs without a display, such as NVIDIA's for servers. The file `class` has two more digits: 0x030200."""
_GPU_CLASSES = {NVIDIA: ("0x0300", CLASS_3D), AMD: (CLASS_3D, "0x0380", "0x1200")}
"""Classes of GPUs by vendor: 0300 display, 0302 3D, 0380 other display controllers, 1200 processing accelerators."""


class PciDevice(Struct, kw_only=True, frozen=True):
    """A GPU or an RDMA device."""

    bus_id: str
    label: str
    """GPU with its index in the order of bus ids, as NVML counts (GPU0), or name of the RDMA device (mlx5_0)."""
    model: str
    """Vendor and device id: "0x10de:0x2330"."""

    @property
    def vendor(self) -> str:
        """Vendor id."""
        return self.model.partition(":")[0]

    @property
    def is_efa(self) -> bool:
        """True for an RDMA device of Amazon."""
        return self.vendor == EFA_VENDOR


class PciLink(Struct, kw_only=True, frozen=True):
    """Link between a device and the port above it. Values that the kernel does not know are None."""

    lower: str
    """Bus id of the device or bridge at the lower end of the link."""
    width: float | None
    max_width: float | None
    """Smaller one of the widths that both ends support."""
    speed: float | None
    """Rate of a lane in GT/s."""
    max_speed: float | None

    @property
    def gbps(self) -> float | None:
        """GB/s of the link, one way."""
        return _gbps(self.speed, self.width)

    @property
    def max_gbps(self) -> float | None:
        """GB/s that both ends support, one way."""
        return _gbps(self.max_speed, self.max_width)


def device_folders(machine: Machine) -> tuple[str, ...]:
    """Returns the folders of all PCI devices, in the order of bus ids, which are hexadecimal."""
    return tuple(f"{DEVICES}/{bus_id}" for bus_id in sorted(machine.names(DEVICES)))


def is_kept_for_virtual_machine(machine: Machine, folder: str) -> bool:
    """True if a PCI device has a driver that keeps the device for a virtual machine."""
    with suppress(Absent):
        return machine.target(f"{folder}/driver").endswith(("/vfio-pci", "/pci-stub"))
    return False


def gpus(machine: Machine, *, of_host: bool = False) -> tuple[PciDevice, ...]:
    """Returns the GPUs of NVIDIA and AMD, in the order of bus ids. Empty in a container without a GPU.

    With `of_host`, also returns GPUs that this process cannot use, such as GPUs outside its container.
    """
    if not of_host and is_container_without_gpu(machine):
        return ()
    found: list[PciDevice] = []
    listed = machine.names_or_empty(DRIVER_GPUS)
    for folder in device_folders(machine):
        vendor = machine.word(f"{folder}/vendor")
        is_hidden_by_driver = vendor == NVIDIA and listed and folder.rpartition("/")[2] not in listed
        if is_hidden_by_driver and not of_host:
            continue
        is_gpu = machine.word(f"{folder}/class").startswith(_GPU_CLASSES.get(vendor, ()))
        if is_gpu and (of_host or vendor != AMD or _has_node(machine, folder)):
            found.append(_device(machine, folder, f"GPU{len(found)}"))
    return tuple(found)


def _has_node(machine: Machine, folder: str) -> bool:
    """True if /dev has the node of an AMD GPU, or if that is unknown. A container has only nodes of its own GPUs."""
    nodes = {name for name in machine.names_or_empty(f"{folder}/drm") if name.startswith("renderD")}
    present = machine.names_or_empty("dev/dri") if nodes else ()
    return not present or not nodes.isdisjoint(present)


def rdma_devices(machine: Machine) -> tuple[PciDevice, ...]:
    """Returns the RDMA devices on PCI, without software devices such as rxe0."""
    chains = {name: pci_chain(machine, f"{INFINIBAND}/{name}/device") for name in machine.names_or_empty(INFINIBAND)}
    return tuple(_device(machine, f"{DEVICES}/{chain[-1]}", name) for name, chain in chains.items() if chain)


def without_virtual_functions(machine: Machine, devices: Sequence[PciDevice]) -> Sequence[PciDevice]:
    """Returns the physical devices. If all devices are virtual functions, returns them."""
    return [device for device in devices if not machine.has(f"{DEVICES}/{device.bus_id}/physfn")] or devices


def pci_chain(machine: Machine, path: str) -> tuple[str, ...]:
    """Returns host bridge, bridges and device of a path with a PCI device. Empty for another path."""
    with suppress(Absent):
        return chain_of(Path(machine.target(path))) or ()
    return ()


def location(machine: Machine, bus_id: str) -> PciLocation | None:
    """Returns the position of a device in the PCIe tree, without its NUMA node. None if unknown."""
    chain = pci_chain(machine, f"{DEVICES}/{bus_id}")
    return PciLocation(chain=chain, numa_node=None) if chain else None


def bridges_above(machine: Machine, bus_id: str) -> tuple[str, ...]:
    """Returns the bus ids of the bridges above a device, from the root port down. Empty if the device has none."""
    return pci_chain(machine, f"{DEVICES}/{bus_id}")[1:-1]  # without the host bridge and the device itself


def links_above(machine: Machine, bus_id: str) -> tuple[PciLink, ...]:
    """Returns the links from a device up to the root port. Empty if the device has no port above it."""
    chain = (*bridges_above(machine, bus_id), bus_id)
    # Each link has two ends in the chain. With a switch: device - downstream port, upstream port - root port.
    lower_ends = chain[::-2]  # device, upstream port
    upper_ends = chain[-2::-2]  # downstream port, root port
    # In a chain of odd length, the last lower end has no upper end, for example a device without a port above it.
    return tuple(_link(machine, *ends) for ends in zip(lower_ends, upper_ends, strict=False))


def _device(machine: Machine, folder: str, label: str) -> PciDevice:
    model = f"{machine.word(f'{folder}/vendor')}:{machine.word(f'{folder}/device')}"
    return PciDevice(bus_id=folder.rpartition("/")[2], label=label, model=model)


def _link(machine: Machine, lower: str, upper: str) -> PciLink:
    return PciLink(
        lower=lower,
        width=_value(machine, lower, "current_link_width"),
        max_width=_common_value(machine, (lower, upper), "max_link_width"),
        speed=_value(machine, lower, "current_link_speed"),
        max_speed=_common_value(machine, (lower, upper), "max_link_speed"),
    )


def _gbps(speed: float | None, width: float | None) -> float | None:
    return None if speed is None or width is None else pcie_gbps(pcie_generation(speed), int(width))


def _common_value(machine: Machine, ends: tuple[str, str], name: str) -> float | None:
    """Returns the smaller number of both ends of a link. None if one is unknown."""
    values = [value for bus_id in ends if (value := _value(machine, bus_id, name)) is not None]
    return min(values) if len(values) == len(ends) else None


def _value(machine: Machine, bus_id: str, name: str) -> float | None:
    """Returns the number of a property. None if unknown: functions without a link of their own have 0, 63 or 255."""
    text = machine.text_or_none(f"{DEVICES}/{bus_id}/{name}") or ""
    number = re.match(r"\d{1,2}(\.\d+)?(?= |$)", text)  # 255 has too many digits
    value = float(number[0]) if number is not None else 0.0
    return value if value not in (0, 63) else None
