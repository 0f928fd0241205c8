"""EFA devices of an instance of AWS."""

from collections.abc import Iterator

from busbw.doctor.model.check import Check, Evidence, Finding, NotApplicable
from busbw.doctor.model.damage import Damage
from busbw.doctor.model.machine import Machine
from busbw.doctor.parts.nics import INFINIBAND
from busbw.doctor.parts.pci import AMAZON, rdma_devices

_PRODUCT = "sys/class/dmi/id/product_name"
_DEVICES = {
    "p4d.24xlarge": 4,
    "p4de.24xlarge": 4,
    "p5.48xlarge": 32,
    "p5e.48xlarge": 32,
    "p5en.48xlarge": 16,
    "p6-b200.48xlarge": 8,
    "p6-b300.48xlarge": 16,
}


def _examine(machine: Machine) -> Iterator[Finding]:
    instance = machine.optional(_PRODUCT) or ""
    if instance not in _DEVICES:
        raise NotApplicable("no instance of AWS with several EFA devices")
    expected = _DEVICES[instance]
    count = sum(device.vendor == AMAZON for device in rdma_devices(machine))
    if count < expected:
        yield Finding(
            severity="slow",
            problem=f"{count} EFA devices work; {instance} has {expected}",
            evidence=(machine.evidence(_PRODUCT), Evidence(source=f"/{INFINIBAND}", value=f"{count} EFA devices")),
            damage=Damage(nic_share=count / expected) if count else None,
        )


CHECK = Check(
    name="efa-present",
    area="nic",
    reads="/sys/class/infiniband, /sys/class/dmi/id/product_name",
    rule="All EFA devices that the type of the instance offers have a driver.",
    source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html",
    cost="Each missing device takes its share of the bandwidth; without any, NCCL uses TCP.",
    fix="lspci -d 1d0f: | grep -i efa; modprobe efa; otherwise launch the instance with an EFA interface for each card",
    examine=_examine,
)
