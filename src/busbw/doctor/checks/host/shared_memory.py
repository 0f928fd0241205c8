"""Space in /dev/shm, through which the ranks of a node exchange data without peer-to-peer access."""

from collections.abc import Iterator

from busbw.doctor.facts.filesystems import Filesystems
from busbw.doctor.model import Evidence, Finding, Machine, NotApplicable, check
from busbw.doctor.parts.pci import gpus

_ENOUGH_BYTES = 128 << 20


@check(
    reads="size and free space of /dev/shm",
    rule="/dev/shm has at least 128 MiB free; 1 GiB or more is recommended.",
    source="NVIDIA/nccl#290",
    cost="NCCL ends with `failed to extend /dev/shm/nccl-...`; with more space it works.",
    fix="docker run --shm-size=1g or --ipc=host; in Kubernetes mount an emptyDir with medium Memory on /dev/shm",
)
def shm_size(machine: Machine) -> Iterator[Finding]:
    if len(gpus(machine)) < 2:
        raise NotApplicable("fewer than two GPUs")
    space = machine.fact(Filesystems)
    evidence = (Evidence("df -B1 /dev/shm", f"{space.shm_free_bytes} of {space.shm_total_bytes} free"),)
    if space.shm_total_bytes < _ENOUGH_BYTES:
        problem = f"/dev/shm has only {space.shm_total_bytes >> 20} MiB, as is the default of containers"
        yield Finding("broken", problem, evidence)
    elif space.shm_free_bytes < _ENOUGH_BYTES:
        yield Finding(
            "risk",
            f"/dev/shm has only {space.shm_free_bytes >> 20} MiB free, possibly because of ended jobs",
            evidence,
            fix="remove /dev/shm/nccl-* and /dev/shm/sem.* of ended jobs, and do so in the epilog of jobs",
        )
