"""GPUs on the bus that the driver or NVML does not show."""

import re
from collections.abc import Iterator
from contextlib import suppress

from busbw.doctor.facts.process import DeviceNodes, Environment
from busbw.doctor.model import Evidence, Finding, Machine, NotApplicable, Unreadable, check, key_text
from busbw.doctor.parts.gpus import pci_gpus, read_nvml, require_gpus
from busbw.doctor.parts.job import is_in_slurm_job, nvidia_gpu_nodes, variables_of_container
from busbw.doctor.parts.pci import DEVICES, DRIVER_GPUS

_DEAD_WIDTH = "63"
"""Link width of a device that answers all ones."""


@check(
    reads="/sys/bus/pci/devices, /proc/driver/nvidia/gpus, /dev/nvidia*, NVML: bus_id",
    rule="The driver and NVML report all GPUs of a model that are on the bus, except those hidden by a container.",
    source="https://github.com/Azure/azurehpc-health-checks",
    cost="Jobs do not start, or run with fewer GPUs.",
    fix="sudo dmesg | grep -E 'RmInitAdapter|Xid'; sudo reboot; reseat or replace the GPU if it stays missing",
)
def gpu_count(machine: Machine) -> Iterator[Finding]:
    require_gpus(machine)
    listed = machine.names_or_empty(DRIVER_GPUS)
    on_bus = pci_gpus(machine)
    used_models = {gpu.model for gpu in on_bus if gpu.bus_id in listed}
    for device in on_bus:
        driver = f"{DEVICES}/{device.bus_id}/driver"
        # A GPU with a driver gives no finding: it is outside this container, or left to another driver on purpose. A
        # model without a used GPU gives no finding: the driver may not support it.
        has_no_driver = device.bus_id not in listed and not machine.has(driver)
        if has_no_driver and device.model in used_models:
            evidence = Evidence(key_text(driver), "does not exist")
            problem = f"the driver does not use the GPU at {device.bus_id}"
            yield Finding("broken", problem, (evidence,), subject=device.bus_id)
    nvml = read_nvml(machine)
    for gpu in nvml.gpus:
        if gpu.bus_id is None and not gpu.lost:
            raise Unreadable(f"the bus id of {gpu.label}: {gpu.failures.get('bus_id', 'none')}")
    if any(gpu.lost for gpu in nvml.gpus) or nvml.hidden or _is_limited(machine, len(listed)):
        return  # gpu-off-bus reports lost GPUs, and GPUs that this process may not use are no finding
    reported = [gpu.bus_id for gpu in nvml.gpus]
    for bus_id in listed:
        information = machine.text(f"{DRIVER_GPUS}/{bus_id}/information")
        is_excluded = re.search(r"^GPU Excluded:\s*Yes", information, re.MULTILINE)
        if bus_id not in reported and not is_excluded:
            evidence = Evidence("nvidia-smi -L", f"{len(nvml.gpus)} GPUs")
            yield Finding("broken", f"NVML does not report the GPU at {bus_id}", (evidence,), subject=bus_id)


def _is_limited(machine: Machine, gpu_count: int) -> bool:
    """True if a container or a scheduler may have given this process only some of the node's GPUs."""
    with suppress(Unreadable):
        # The variables do not show this limit in a session that pam_slurm_adopt puts into a job.
        if nvidia_gpu_nodes(machine.fact(DeviceNodes).denied):
            return True
    if is_in_slurm_job(machine):
        return machine.fact(Environment).variables.get("SLURM_GPUS_ON_NODE") != str(gpu_count)
    with suppress(NotApplicable):
        variables_of_container(machine)  # raises outside of a container
        return True
    return False


@check(
    reads="current_link_width and power/runtime_status in /sys/bus/pci/devices, NVML",
    rule="Each GPU answers on the bus.",
    source="https://github.com/oracle-quickstart/oci-hpc",
    cost="Jobs hang or fail at their first use of CUDA.",
    fix="power the node off and on; reseat or replace the GPU if it happens again",
)
def gpu_off_bus(machine: Machine) -> Iterator[Finding]:
    require_gpus(machine)
    dead = []
    for bus_id in [gpu.bus_id for gpu in pci_gpus(machine)]:
        folder = f"{DEVICES}/{bus_id}"
        # A suspended GPU of a laptop answers nothing either.
        is_suspended = machine.text_or_none(f"{folder}/power/runtime_status") == "suspended"
        if machine.text_or_none(f"{folder}/current_link_width") == _DEAD_WIDTH and not is_suspended:
            dead.append(bus_id)
            evidence = machine.evidence(f"{folder}/current_link_width")
            yield Finding("broken", f"the GPU at {bus_id} has fallen off the bus", (evidence,), subject=bus_id)
    for gpu in read_nvml(machine).gpus:
        # NVML also loses a GPU that is dead on the bus. One finding is enough.
        if gpu.lost and not dead:
            evidence = Evidence(f"NVML, {gpu.label}", "GPU is lost")
            yield Finding("broken", f"{gpu.label} has fallen off the bus", (evidence,), subject=gpu.bus_id or gpu.label)
