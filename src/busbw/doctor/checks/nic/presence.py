"""Missing NICs, and missing device files of NICs."""

from collections.abc import Iterator

from busbw.doctor.model import Damage, Evidence, Finding, Machine, check, require
from busbw.doctor.parts.job import is_container_without_gpu, is_in_container, is_in_slurm_job, nvidia_gpu_nodes
from busbw.doctor.parts.nics import compute_ports
from busbw.doctor.parts.pci import DEVICES, INFINIBAND, device_folders, is_kept_for_virtual_machine, rdma_devices
from busbw.launchers.machine_types.machine_type import built_in_types

_PRODUCT = "sys/class/dmi/id/product_name"
_EFA_RESOURCE = "vpc.amazonaws.com/efa"
EFA_COUNTS_WITHOUT_MACHINE_TYPE = {"p5e.48xlarge": 32, "p6-b300.48xlarge": 16}
"""EFA devices of instance types that are not in busbw.launchers.machine_types."""
_DEVICE_FILES = "dev/infiniband"


@check(
    reads="/sys/class/infiniband; vendor, device, class and driver in /sys/bus/pci/devices/BDF",
    rule="All NICs of the same model as the compute NICs have an RDMA device.",
    source="https://github.com/facebookresearch/gcm",
    cost="One of 8 NICs lost takes 1/8 of the bandwidth between nodes, or half if two GPUs then share a NIC.",
    fix="sudo dmesg | grep -e mlx5 -e bnxt; sudo mlxfwreset -d BDF reset; sudo reboot",
)
def nic_count(machine: Machine) -> Iterator[Finding]:
    compute_nics = [f"{DEVICES}/{port.bus_id}" for port in compute_ports(machine, "InfiniBand", "RoCE")]
    compute_kinds = {_kind(machine, folder) for folder in compute_nics}
    with_rdma = {f"{DEVICES}/{device.bus_id}" for device in rdma_devices(machine)}
    without_rdma = [folder for folder in device_folders(machine) if folder not in with_rdma]
    equal_nics = [folder for folder in without_rdma if _kind(machine, folder) in compute_kinds]
    missing = [folder for folder in equal_nics if not _has_other_purpose(machine, folder)]
    if len(missing) >= len(compute_nics):
        return  # At least half of the NICs have no RDMA device, which is probably intended.
    for folder in missing:
        bus_id = folder.rpartition("/")[2]
        yield Finding(
            "slow",
            f"the NIC at {bus_id} has no RDMA device; {len(compute_nics)} NICs of its model have one",
            (Evidence(f"/{folder}/infiniband", "does not exist"),),
            subject=bus_id,
            damage=Damage(nic_share=len(compute_nics) / (len(compute_nics) + len(missing))),
        )


def _kind(machine: Machine, folder: str) -> tuple[str | None, ...]:
    """Returns vendor, device, class and PCI function. Ports at the same place of equal cards have equal kinds."""
    function_number = folder[-1]
    return (*(machine.text_or_none(f"{folder}/{name}") for name in ("vendor", "device", "class")), function_number)


def _has_other_purpose(machine: Machine, folder: str) -> bool:
    """True if the NIC belongs to another network namespace or to a virtual machine, or is a virtual function."""
    # The driver of a NIC creates this folder in /sys, also if the RDMA device is in another network namespace.
    is_in_other_namespace = machine.has(f"{folder}/infiniband")
    is_virtual_function = machine.has(f"{folder}/physfn")
    return is_in_other_namespace or is_virtual_function or is_kept_for_virtual_machine(machine, folder)


@check(
    reads="/sys/class/infiniband, /sys/class/dmi/id/product_name",
    rule="All EFA devices that the instance type offers have a driver.",
    source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html",
    cost="Each missing device takes its share of the bandwidth; without any, NCCL uses TCP.",
    fix="sudo modprobe efa; if lspci -d 1d0f: shows too few, launch the instance with an EFA interface for each card",
)
def efa_present(machine: Machine) -> Iterator[Finding]:
    instance = machine.text_or_none(_PRODUCT) or ""
    expected = _efa_count(instance)
    require(expected, "no instance of AWS with several EFA devices")
    count = sum(device.is_efa for device in rdma_devices(machine))
    if count < expected:
        problem = f"{count} EFA devices work; {instance} has {expected}"
        evidence = (machine.evidence(_PRODUCT), Evidence(f"/{INFINIBAND}", f"{count} EFA devices"))
        yield Finding("slow", problem, evidence, damage=Damage(nic_share=count / expected) if count else None)


def _efa_count(instance: str) -> int:
    """Returns the number of EFA devices that an instance type offers. 0 if unknown."""
    machine_type = built_in_types().get(instance)
    counts = {resource.name: resource.count for resource in machine_type.resources} if machine_type else {}
    return counts.get(_EFA_RESOURCE) or EFA_COUNTS_WITHOUT_MACHINE_TYPE.get(instance, 0)


@check(
    reads="/dev/infiniband",
    rule="If the machine has compute NICs, /dev/infiniband has a uverbs device.",
    source="https://github.com/NVIDIA/NVSentinel/blob/main/docs/configuration/nic-health-monitor.md",
    cost='NCCL prints "NET/IB : No device found" and uses sockets.',
    fix="sudo modprobe ib_uverbs; container: --device=/dev/infiniband, or request the NICs from the device plugin",
)
def ib_verbs_char_devices(machine: Machine) -> Iterator[Finding]:
    ports = compute_ports(machine)
    if any(name.startswith("uverbs") for name in machine.names_or_empty(_DEVICE_FILES)):
        return
    require(not is_container_without_gpu(machine), "a container without a GPU")
    # A job that requests one GPU of a node often runs on one node only, so it has no NICs.
    has_one_gpu = len(nvidia_gpu_nodes(machine.names("dev"))) == 1
    may_be_share_of_node = is_in_container(machine) or is_in_slurm_job(machine)
    require(not (has_one_gpu and may_be_share_of_node), "a container or a job of Slurm with one GPU")
    problem = f"/{_DEVICE_FILES} has no uverbs device, but the machine has {len(ports)} compute NICs"
    yield Finding("slow", problem, (Evidence(f"/{_DEVICE_FILES}/uverbs*", "does not exist"),))
