"""Confidential computing, which encrypts the traffic between GPUs."""

from collections.abc import Iterator

from busbw.doctor.model.check import Check, Evidence, Finding, NotApplicable, Unreadable
from busbw.doctor.model.machine import Machine
from busbw.doctor.parts.gpus import read_nvml


def _examine(machine: Machine) -> Iterator[Finding]:
    nvml = read_nvml(machine)
    if nvml.conf_compute is None:
        if "conf_compute" in nvml.failures:
            raise Unreadable(f"the state of confidential computing: {nvml.failures['conf_compute']}")
        raise NotApplicable("the driver has no confidential computing")
    if nvml.conf_compute and not nvml.multi_gpu_mode and len(nvml.gpus) > 1:
        yield Finding(
            severity="slow",
            problem="confidential computing is on without a mode for several GPUs",
            evidence=(Evidence(source="nvidia-smi conf-compute -f", value="CC status: ON"),),
        )


CHECK = Check(
    name="gpu-conf-compute",
    area="gpu",
    reads="NVML: conf_compute, multi_gpu_mode",
    rule="With several GPUs, confidential computing is off, or has the mode protected PCIe or encrypted NVLink.",
    source="https://docs.nvidia.com/attestation/",
    cost="Traffic between GPUs is encrypted and takes copies through bounce buffers; NVLink multicast may be missing.",
    fix="decide with the owner of the site; the mode is set by nvidia-smi conf-compute, and applies after a reset",
    examine=_examine,
)
