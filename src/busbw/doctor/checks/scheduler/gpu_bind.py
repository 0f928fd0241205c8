"""GPUs that Slurm hides from the tasks of a job."""

import re
from collections.abc import Iterator

from busbw.doctor.facts.device_nodes import DeviceNodes
from busbw.doctor.model.check import Check, Evidence, Finding, NotApplicable
from busbw.doctor.model.machine import Machine
from busbw.doctor.parts.job import tasks_on_node, variables_of_slurm_job


def _examine(machine: Machine) -> Iterator[Finding]:
    variables = variables_of_slurm_job(machine)
    granted = int(variables.get("SLURM_GPUS_ON_NODE", "0"))
    usable = [name for name in machine.fact(DeviceNodes).usable if re.fullmatch(r"nvidia\d+", name)]
    # Slurm counts each part of a GPU with MIG, and parts have no peers.
    has_parts = "MIG" in variables.get("CUDA_VISIBLE_DEVICES", "")
    if granted < 2 or tasks_on_node(variables) < 2 or not usable or has_parts:
        raise NotApplicable("no tasks that share several GPUs of a node")
    if len(usable) < granted:
        yield Finding(
            severity="slow",
            problem=f"this task can open {len(usable)} of the {granted} GPUs that its step has on the node",
            evidence=(
                Evidence(source="device nodes that can be opened", value=" ".join(usable)),
                Evidence(source="SLURM_GPUS_ON_NODE", value=str(granted)),
            ),
        )


CHECK = Check(
    name="slurm-gpu-bind",
    area="scheduler",
    reads="/dev/nvidia*, SLURM_GPUS_ON_NODE, SLURM_TASKS_PER_NODE",
    rule="Each task can open all GPUs of its step on the node. CUDA_VISIBLE_DEVICES may select one.",
    source="NVIDIA/nccl#1066",
    cost="Ranks cannot map the memory of hidden GPUs: NCCL fails, or uses host memory instead of NVLink.",
    fix="use --gpus-per-node=N instead of --gpus-per-task, or srun --gpu-bind=none; with Enroot also "
    "ENROOT_RESTRICT_DEV=n",
    examine=_examine,
)
