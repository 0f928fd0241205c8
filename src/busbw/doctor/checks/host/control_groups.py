"""Limits of the control groups of this process, of both versions. The strictest of all groups above it applies."""

from collections.abc import Callable, Iterator

from busbw.doctor.facts.environment import Environment
from busbw.doctor.model import Evidence, Finding, Machine, Unreadable, check, shown
from busbw.doctor.parts.counters import growths
from busbw.doctor.parts.pci import gpus
from busbw.units import count_text

_ROOT = "sys/fs/cgroup"


def _folders(machine: Machine, controller: str) -> tuple[str, ...]:
    """Returns the folders of the groups, from the root to the process's own. Those above a container are absent."""
    is_unified = machine.has(f"{_ROOT}/cgroup.controllers")
    root = _ROOT if is_unified else f"{_ROOT}/{controller}"
    for line in machine.text("proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers if is_unified else controller in controllers.split(","):
            parts = [part for part in path.split("/") if part not in ("", "..")]
            return tuple("/".join([root, *parts[:depth]]) for depth in range(len(parts) + 1))
    raise Unreadable(f"control group of the process for {controller}")


def _number(machine: Machine, path: str) -> float | None:
    """Returns a limit: of cpu.max in CPUs. None without one."""
    words = (machine.optional(path) or "max").split()
    if path.endswith("cpu.cfs_quota_us"):
        words.append(machine.optional(path.replace("quota", "period")) or "100000")
    if not words[0].isdecimal():
        return None
    return int(words[0]) / (int(words[1]) if len(words) > 1 else 1)


def _examine(
    machine: Machine, controller: str, names: tuple[str, ...], min_per_gpu: float, text: Callable[[float], str]
) -> Iterator[Finding]:
    paths = [f"{folder}/{name}" for folder in _folders(machine, controller) for name in names]
    limits = [(number, path) for path in paths if (number := _number(machine, path)) is not None]
    used = machine.fact(Environment).variables.get("CUDA_VISIBLE_DEVICES")
    gpu_count = len(used.split(",")) if used else max(1, len(gpus(machine)))
    if limits and min(limits)[0] < min_per_gpu * gpu_count:
        yield Finding(
            # A rank has a thread for its network that never sleeps, so less than one CPU always stops it.
            severity="slow" if controller == "cpu" and min(limits)[0] < 1 else "risk",
            problem=f"the job may use {text(min(limits)[0])} for {count_text(gpu_count, 'rank')}; "
            f"it needs {text(min_per_gpu * gpu_count)}",
            evidence=(machine.evidence(min(limits)[1]),),
        )


@check(
    reads="cpu.max and cpu.stat of the process's control groups",
    rule="The quota allows at least 2 CPUs for each GPU, and stops no thread.",
    source="kubernetes/kubernetes#67577",
    cost="Proxy threads wait for a CPU, so bandwidth between nodes drops to a fraction, with a long tail.",
    fix="remove the CPU limit of the pod, or give it Guaranteed QoS with whole CPUs",
)
def cpu_cores_available(machine: Machine) -> Iterator[Finding]:
    yield from _examine(machine, "cpu", ("cpu.max", "cpu.cfs_quota_us"), 2, lambda cpus: f"{cpus:g} CPUs")
    paths = [f"{folder}/cpu.stat" for folder in _folders(machine, "cpu")]
    # A group without a quota has no such counter.
    paths = [path for path in paths if "nr_throttled" in (machine.optional(path) or "")]
    for path, growth in growths(machine, paths, r"^nr_throttled (\d+)").items():
        if growth > 0:
            problem = f"the CPU quota stopped the threads of this job in {growth} periods within a second"
            yield Finding("slow", problem, (Evidence(shown(path), f"nr_throttled +{growth}"),))
            break


@check(
    reads="memory.max of the process's control groups",
    rule="The limit allows at least 2 GiB for each GPU.",
    source="https://docs.kernel.org/admin-guide/cgroup-v2.html",
    cost="Pinned buffers and /dev/shm count as memory of the job, and the kernel ends it at the limit.",
    fix="raise or remove the memory limit of the pod, container or service; for Slurm, of --mem",
)
def cgroup_memory_limit(machine: Machine) -> Iterator[Finding]:
    names = ("memory.max", "memory.limit_in_bytes")
    yield from _examine(machine, "memory", names, 2 << 30, lambda size: f"{size / 2**30:g} GiB")
