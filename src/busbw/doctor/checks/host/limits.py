"""Limits of this process: locked memory, open files, shared memory, and the limits of its control groups."""

import math
import re
from collections.abc import Callable, Iterator
from contextlib import suppress

from busbw.doctor.facts.process import Environment, Filesystems, Limits
from busbw.doctor.model import Evidence, Finding, Machine, Unreadable, check, key_text, require
from busbw.doctor.parts.counters import growths
from busbw.doctor.parts.pci import gpus
from busbw.units import count_text

_MIN_LOCKED_BYTES = 64 << 30
_MIN_FILES = 65536
_IPC_LOCK = 14
"""Number of the capability CAP_IPC_LOCK, with which a process may ignore the limit of locked memory."""
_MIN_SHARED_BYTES = 128 << 20
_MIN_CPUS_PER_GPU = 2
_MIN_BYTES_PER_GPU = 2 << 30
_GROUPS = "sys/fs/cgroup"
"""Root of the control groups."""
_DEFAULT_PERIOD_US = "100000"
"""Default period of a CPU quota."""


@check(
    reads="limit of locked memory of this process (ulimit -l), CapEff in /proc/self/status; /dev/infiniband",
    rule="With RDMA devices, the limit is unlimited, or at least 64 GiB, or the process has CAP_IPC_LOCK.",
    source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
    cost="NCCL ends with `ibv_reg_mr failed` or `ibv_create_qp failed` when it registers buffers.",
    fix="add `* - memlock unlimited` to /etc/security/limits.conf; for Slurm set LimitMEMLOCK=infinity for slurmd",
)
def memlock(machine: Machine) -> Iterator[Finding]:
    limit_bytes = machine.fact(Limits).memlock_bytes
    has_rdma = any(name.startswith("uverbs") for name in machine.names_or_empty("dev/infiniband"))
    require(has_rdma, "no RDMA device that this process can open")
    if limit_bytes is not None and limit_bytes < _MIN_LOCKED_BYTES and not _may_ignore_limit(machine):
        yield Finding(
            # Without a GPU, the RDMA device may serve as an ordinary network interface only.
            severity="broken" if gpus(machine) else "risk",
            problem=f"locked memory is limited to {limit_bytes >> 10} KiB; RDMA needs it unlimited",
            evidence=(Evidence("ulimit -l", f"{limit_bytes >> 10}"),),
        )


def _may_ignore_limit(machine: Machine) -> bool:
    """True if the process has the capability in the first user namespace. In another one it has no effect."""
    capabilities = re.search(r"^CapEff: *([0-9a-f]{1,16})$", machine.text("proc/self/status"), re.MULTILINE)
    # The first namespace maps all 4294967295 user IDs to themselves, from 0 on.
    is_first_namespace = machine.text("proc/self/uid_map").split() == ["0", "0", "4294967295"]
    return bool(is_first_namespace and capabilities and int(capabilities[1], 16) & (1 << _IPC_LOCK))


@check(
    reads="hard limit of open files of this process (ulimit -Hn)",
    rule="The hard limit of open files is at least 65,536.",
    source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
    cost="Jobs of more than a hundred ranks can end with `Too many open files`.",
    fix="add `* - nofile 131072` to /etc/security/limits.conf; for Slurm set LimitNOFILE=131072 for slurmd",
)
def nofile(machine: Machine) -> Iterator[Finding]:
    require(gpus(machine), "no GPU")
    limit = machine.fact(Limits).max_open_files
    if limit is not None and limit < _MIN_FILES:
        problem = f"a process may open at most {limit} files and sockets"
        yield Finding("risk", problem, (Evidence("ulimit -Hn", str(limit)),))


@check(
    reads="size and free space of /dev/shm",
    rule="/dev/shm has at least 128 MiB free; 1 GiB or more is recommended.",
    source="NVIDIA/nccl#290",
    cost="NCCL ends with `failed to extend /dev/shm/nccl-...`; with more space it works.",
    fix="docker run --shm-size=1g or --ipc=host; in Kubernetes mount an emptyDir with medium Memory on /dev/shm",
)
def shm_size(machine: Machine) -> Iterator[Finding]:
    require(len(gpus(machine)) > 1, "fewer than two GPUs")
    space = machine.fact(Filesystems)
    evidence = (Evidence("df -B1 /dev/shm", f"{space.shm_free_bytes} of {space.shm_total_bytes} free"),)
    if space.shm_total_bytes < _MIN_SHARED_BYTES:
        problem = f"/dev/shm has only {space.shm_total_bytes >> 20} MiB, as is the default of containers"
        yield Finding("broken", problem, evidence)
    elif space.shm_free_bytes < _MIN_SHARED_BYTES:
        yield Finding(
            "risk",
            f"/dev/shm has only {space.shm_free_bytes >> 20} MiB free, possibly because of ended jobs",
            evidence,
            fix="remove /dev/shm/nccl-* and /dev/shm/sem.* of ended jobs, and do so in the epilog of jobs",
        )


def _group_folders(machine: Machine, controller: str) -> tuple[str, ...]:
    """Returns the folders of the control groups, from the root to the group of this process.

    A container does not show the groups above its own.
    """
    is_version_2 = machine.has(f"{_GROUPS}/cgroup.controllers")
    root = _GROUPS if is_version_2 else f"{_GROUPS}/{controller}"
    # In version 2, one line without a controller names the group: "0::/job". Version 1 has a line for each hierarchy,
    # such as "4:cpu,cpuacct:/job".
    wanted = "" if is_version_2 else controller
    for line in machine.text("proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if wanted in controllers.split(","):
            parts = [part for part in path.split("/") if part not in ("", "..")]
            return tuple("/".join([root, *parts[:depth]]) for depth in range(len(parts) + 1))
    raise Unreadable(f"control group of the process for {controller}")


def _group_limit(machine: Machine, path: str) -> float | None:
    """Returns a limit in bytes, or in CPUs if the file has a quota and a period: 1.5 for "150000 100000".

    None if there is no limit ("max", or "-1" in version 1).
    """
    limit, *period = (machine.text_or_none(path) or "max").split()
    if path.endswith("cpu.cfs_quota_us"):  # the period is in another file
        period = [machine.text_or_none(path.replace("quota", "period")) or _DEFAULT_PERIOD_US]
    if not limit.isdecimal():
        return None
    return int(limit) / int(period[0]) if period else int(limit)


def _used_gpu_count(machine: Machine) -> int:
    """Returns the number of GPUs in CUDA_VISIBLE_DEVICES, otherwise of all GPUs. 0 on a machine without GPUs."""
    selected = machine.fact(Environment).variables.get("CUDA_VISIBLE_DEVICES")
    if not selected:
        return len(gpus(machine))
    with suppress(Unreadable):  # the variable is enough if the PCI devices are unknown
        if not gpus(machine):
            return 0
    return len(selected.split(","))


def _group_findings(
    machine: Machine, controller: str, names: tuple[str, ...], min_per_gpu: float, text: Callable[[float], str]
) -> Iterator[Finding]:
    """Yields a finding if the strictest limit of the groups allows less than `min_per_gpu` for each used GPU.

    `names` are the files with the limit in versions 2 and 1 of control groups. `text` returns the text of a limit.
    """
    paths = [f"{folder}/{name}" for folder in _group_folders(machine, controller) for name in names]
    limits = [(number, path) for path in paths if (number := _group_limit(machine, path)) is not None]
    limit, limit_path = min(limits, default=(math.inf, ""))
    gpu_count = _used_gpu_count(machine)
    needed = min_per_gpu * gpu_count
    if limit < needed:
        yield Finding(
            # The network thread of a rank never sleeps, so a quota below one CPU always stops this thread.
            severity="slow" if controller == "cpu" and limit < 1 else "risk",
            problem=f"the job may use {text(limit)} for {count_text(gpu_count, 'GPU')}; it needs {text(needed)}",
            evidence=(machine.evidence(limit_path),),
        )


@check(
    reads="cpu.max and cpu.stat of the process's control groups",
    rule="The quota allows at least 2 CPUs for each GPU that the job uses, and stops no thread.",
    source="kubernetes/kubernetes#67577",
    cost="Proxy threads wait for a CPU, so bandwidth between nodes drops to a fraction, with a long tail.",
    fix="remove the CPU limit of the pod, or give it Guaranteed QoS with whole CPUs",
)
def cpu_cores_available(machine: Machine) -> Iterator[Finding]:
    names = ("cpu.max", "cpu.cfs_quota_us")
    yield from _group_findings(machine, "cpu", names, _MIN_CPUS_PER_GPU, lambda cpus: f"{cpus:g} CPUs")
    paths = [f"{folder}/cpu.stat" for folder in _group_folders(machine, "cpu")]
    with_quota = [path for path in paths if "nr_throttled" in (machine.text_or_none(path) or "")]
    for path, growth in growths(machine, with_quota, r"^nr_throttled (\d+)").items():
        if growth > 0:
            problem = f"the CPU quota stopped the threads of this job in {growth} periods within a second"
            yield Finding("slow", problem, (Evidence(key_text(path), f"nr_throttled +{growth}"),))
            break


@check(
    reads="memory.max of the process's control groups",
    rule="The limit allows at least 2 GiB for each GPU that the job uses.",
    source="https://docs.kernel.org/admin-guide/cgroup-v2.html",
    cost="Pinned buffers and /dev/shm count as memory of the job, and the kernel ends it at the limit.",
    fix="raise or remove the memory limit of the pod, container or service; for Slurm, of --mem",
)
def cgroup_memory_limit(machine: Machine) -> Iterator[Finding]:
    require(_used_gpu_count(machine), "no GPU")
    names = ("memory.max", "memory.limit_in_bytes")
    yield from _group_findings(machine, "memory", names, _MIN_BYTES_PER_GPU, lambda size: f"{size / 2**30:g} GiB")
