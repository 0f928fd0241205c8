"""Errors of GPU memory, and the reset or replacement that the driver requests."""

from collections.abc import Iterator, Sequence

from busbw.doctor.facts.gpus import Gpu
from busbw.doctor.model.check import Finding, Severity
from busbw.doctor.model.machine import Machine
from busbw.doctor.parts.gpus import gpu_finding, nvml_check

_ACTIONS: dict[int, tuple[Severity, str, str]] = {
    1: ("broken", "a GPU reset", "end its processes, then nvidia-smi --gpu-reset -i {index}"),
    2: ("broken", "a reboot of the node", "reboot"),
    3: ("broken", "the end of NVLink traffic (drain P2P)", "end all jobs on the node, then reset all GPUs"),
    4: ("risk", "a reset after the present jobs", "drain the node, then nvidia-smi --gpu-reset -i {index}"),
    5: ("broken", "recovery of the IMEX domain", "restart nvidia-imex on all nodes of the domain"),
    6: ("broken", "a bus reset", "reset the PCIe slot, or reboot"),
    7: ("broken", "a reboot of the system", "reboot"),
}


@nvml_check(
    "recovery_action",
    rule="The driver requests no recovery action.",
    source="https://docs.nvidia.com/deploy/gpu-debug-guidelines/",
    cost="Jobs on the GPU fail or hang; after `drain P2P` its NVLink peers are lost.",
    fix="the action that the driver names",
)
def gpu_recovery_action(_: Machine, gpus: Sequence[Gpu]) -> Iterator[Finding]:
    for gpu in gpus:
        if action := _ACTIONS.get(gpu.recovery_action or 0):
            severity, text, fix = action
            yield gpu_finding(gpu, severity, f"needs {text}", "recovery_action", fix=fix.format(index=gpu.index))


@nvml_check(
    "remap_pending",
    "remap_failure",
    rule="No row remapping is pending, and none has failed. The number of remapped rows does not matter.",
    source="https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/",
    cost="No bandwidth; a job ends if it uses the faulty row.",
    fix="drain the node, then nvidia-smi --gpu-reset -i INDEX",
)
def gpu_row_remap(_: Machine, gpus: Sequence[Gpu]) -> Iterator[Finding]:
    for gpu in gpus:
        if gpu.remap_failure:
            problem = "could not remap a faulty row of its memory"
            yield gpu_finding(gpu, "broken", problem, "remap_failure", fix="replace the GPU")
        elif gpu.remap_pending:
            yield gpu_finding(gpu, "risk", "needs a reset to remap a faulty row of its memory", "remap_pending")


@nvml_check(
    "ecc_uncorrected",
    rule="There was no uncorrectable memory error since the GPU was reset.",
    source="https://github.com/scitix/sichek",
    cost="No bandwidth; an uncorrectable error ends the job.",
    fix="drain the node, then nvidia-smi --gpu-reset -i INDEX; replace the GPU if errors return",
)
def gpu_ecc_uncorrected(_: Machine, gpus: Sequence[Gpu]) -> Iterator[Finding]:
    for gpu in gpus:
        if gpu.ecc_uncorrected:
            problem = f"had {gpu.ecc_uncorrected} uncorrectable memory errors since its last reset"
            yield gpu_finding(gpu, "risk", problem, "ecc_uncorrected")
