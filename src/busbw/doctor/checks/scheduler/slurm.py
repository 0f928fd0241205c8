"""GPUs and cores that Slurm grants: on this node, and to a task of a job."""

import re
from collections import Counter
from collections.abc import Iterator

from busbw.doctor.facts.process import DeviceNodes
from busbw.doctor.model import Absent, Evidence, Finding, Machine, NotApplicable, check, require
from busbw.doctor.parts.job import (
    allowed_cpus,
    is_in_slurm_job,
    nvidia_gpu_nodes,
    tasks_on_node,
    variables_of_slurm_job,
)
from busbw.doctor.parts.pci import DRIVER_GPUS

_DAEMON = ("var/run/slurmd.pid", "sys/fs/cgroup/system.slice/slurmd.service")
_CPUS = "sys/devices/system/cpu"
_MIG_PROFILE = re.compile(r"\d+g\.\d+gb")
"""Name of a part of a GPU in Slurm's GRES, such as 1g.10gb."""
_MAX_CORE_THREADS = 2
"""Number of CPUs of one core with hyperthreads."""


@check(
    reads="scontrol show node (Gres), /proc/driver/nvidia/gpus",
    rule="Slurm's GRES of the node counts all GPUs of the driver, or all GPUs of the most frequent model.",
    source="https://slurm.schedmd.com/gres.conf.html",
    cost="Jobs never get the GPUs that are left out; too many drain the node at its next registration.",
    fix="compare slurmd -C and slurmd -G with Gres= in slurm.conf and gres.conf, then scontrol reconfigure",
)
def slurm_gres_count(machine: Machine) -> Iterator[Finding]:
    require(is_in_slurm_job(machine) or any(machine.has(path) for path in _DAEMON), "Slurm does not run here")
    name = machine.word("proc/sys/kernel/hostname").partition(".")[0]
    try:
        text = machine.output("scontrol", "show", "node", name)
    except Absent as error:
        raise NotApplicable("scontrol is not installed") from error
    line = re.search(r"^\s*Gres=(.*)$", text, re.MULTILINE)
    gres = line[1] if line else ""
    # Gres is such as gpu:h100:8(S:0-1),nvme:1 or gpu:8.
    granted = sum(map(int, re.findall(r"(?:^|,)gpu:(?:[^,:(]+:)?(\d{1,9})", gres)))
    gpus = machine.names_or_empty(DRIVER_GPUS)
    require(granted and gpus and not _MIG_PROFILE.search(gres), "Slurm does not manage whole NVIDIA GPUs here")
    models = Counter(machine.text(f"{DRIVER_GPUS}/{gpu}/information").partition("\n")[0] for gpu in gpus)
    # Sites may leave out the GPU for the display, which is of another model than the other GPUs.
    most_frequent_model_count = models.most_common(1)[0][1]
    if granted not in (len(gpus), most_frequent_model_count):
        yield Finding(
            "risk",
            f"Slurm may grant {granted} GPUs of this node, but the driver has {len(gpus)}",
            (
                Evidence(f"scontrol show node {name}", f"Gres={gres}"),
                Evidence(f"/{DRIVER_GPUS}", f"{len(gpus)} GPUs"),
            ),
        )


@check(
    reads="/dev/nvidia*, SLURM_GPUS_ON_NODE, SLURM_TASKS_PER_NODE",
    rule="Each task can open all GPUs of its step on the node. CUDA_VISIBLE_DEVICES may select one.",
    source="NVIDIA/nccl#1066",
    cost="Ranks cannot map the memory of hidden GPUs: NCCL fails, or uses host memory instead of NVLink.",
    fix="use --gpus-per-node=N instead of --gpus-per-task, or srun --gpu-bind=none; with Enroot also "
    "ENROOT_RESTRICT_DEV=n",
)
def slurm_gpu_bind(machine: Machine) -> Iterator[Finding]:
    variables = variables_of_slurm_job(machine)
    granted = int(variables.get("SLURM_GPUS_ON_NODE", "0"))
    usable = nvidia_gpu_nodes(machine.fact(DeviceNodes).usable)
    # Slurm counts each part of a GPU with MIG as a GPU, and MIG parts cannot access each other.
    has_parts = "MIG" in variables.get("CUDA_VISIBLE_DEVICES", "")
    shares_gpus = granted > 1 and tasks_on_node(variables) > 1 and usable and not has_parts
    require(shares_gpus, "no tasks that share several GPUs of a node")
    if len(usable) < granted:
        yield Finding(
            "slow",
            f"this task can open {len(usable)} of the {granted} GPUs that its step has on the node",
            (
                Evidence("device nodes that can be opened", " ".join(usable)),
                Evidence("SLURM_GPUS_ON_NODE", str(granted)),
            ),
        )


@check(
    reads="/proc/self/status (Cpus_allowed_list), SLURM_CPUS_PER_TASK, SRUN_CPUS_PER_TASK, SLURM_TASKS_PER_NODE",
    rule="A task of a job with GPUs may run on more than one core.",
    source="NVIDIA/nccl-tests#57",
    cost="All threads of a rank share one core, so NCCL's network threads wait; half the bandwidth and more.",
    fix="srun --cpus-per-task=N, with N = CPUs of the node / tasks on it, or srun --cpu-bind=none",
)
def slurm_cpuset(machine: Machine) -> Iterator[Finding]:
    variables = variables_of_slurm_job(machine)
    has_gpus = any(name in variables for name in ("SLURM_GPUS_ON_NODE", "SLURM_JOB_GPUS", "SLURM_STEP_GPUS"))
    require(has_gpus, "the job has no GPUs")
    cpus = allowed_cpus(machine)
    first_cpu = re.split("[,-]", cpus)[0]  # of a list such as 0-3,8
    core_cpus = machine.word(f"{_CPUS}/cpu{first_cpu}/topology/thread_siblings_list")
    # A task on one core is not limited if the node has no other core. The list of the node's CPUs can be unreadable, so
    # it is read only for a task on one core.
    is_limited_to_core = cpus in (first_cpu, core_cpus) and core_cpus != machine.word(f"{_CPUS}/online")
    requested = variables.get("SLURM_CPUS_PER_TASK", "not set")
    requests_several_cores = requested.isdecimal() and int(requested) > _MAX_CORE_THREADS
    # A single task on a node may be only this examination, and other steps of the job may have more cores.
    has_several_tasks = tasks_on_node(variables) > 1
    if is_limited_to_core and (requests_several_cores or has_several_tasks):
        is_request_ignored = requests_several_cores and "SRUN_CPUS_PER_TASK" not in variables
        wanted = f"{requested} CPUs (SLURM_CPUS_PER_TASK)" if requests_several_cores else "several cores"
        yield Finding(
            severity="slow" if has_several_tasks else "risk",
            problem=f"this task may run only on CPU {cpus}, one core, instead of {wanted}",
            evidence=(
                Evidence("/proc/self/status", f"Cpus_allowed_list: {cpus}"),
                Evidence("SLURM_CPUS_PER_TASK", requested),
            ),
            # srun of Slurm 22.05 and 23.02 ignores the number of CPUs that the job requested.
            fix="export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK before srun" if is_request_ignored else None,
        )
