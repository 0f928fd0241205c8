"""NUMA nodes: CPUs of this process against those near the GPUs, and pages that the kernel moves."""

from collections.abc import Iterator

from busbw.doctor.model import Evidence, Finding, Machine, NotApplicable, check
from busbw.doctor.parts.pci import DEVICES, gpus
from busbw.doctor.parts.platform import allowed_cpus
from busbw.topology.cpu_ranges import parse_ranges

_NODES, _BALANCING = "sys/devices/system/node", "proc/sys/kernel/numa_balancing"


@check(
    reads="allowed CPUs in /proc/self/status, NUMA nodes of GPUs, /sys/devices/system/node/node*/cpulist",
    rule="The process may use CPUs on the NUMA node of a GPU.",
    source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-ignore-cpu-affinity",
    cost="Proxy threads reach GPUs and NICs over the link between sockets: 15 to 44 GB/s in uccl-project/uccl#956.",
    fix="bind by NUMA node: srun --cpu-bind=none, mpirun --bind-to numa; or set NCCL_IGNORE_CPU_AFFINITY=1",
)
def numa_binding(machine: Machine) -> Iterator[Finding]:
    numbers = {machine.number(f"{DEVICES}/{gpu.bus_id}/numa_node") for gpu in gpus(machine)}
    nodes = sorted(number for number in numbers if number >= 0)
    if not nodes:
        raise NotApplicable("no GPU with a known NUMA node")
    near: set[int] = set()
    for node in nodes:
        near |= set(parse_ranges(machine.text(f"{_NODES}/node{node}/cpulist")) or ())
    allowed = allowed_cpus(machine)
    own = set(parse_ranges(allowed) or ())
    # A job may bind each process to the node of its own GPU, so only a distance from all GPUs is certain.
    if near and own and not near & own:
        yield Finding(
            "slow",
            f"this process may use only CPUs {allowed}, none of which is near a GPU",
            (
                Evidence("/proc/self/status", f"Cpus_allowed_list: {allowed}"),
                machine.evidence(f"{_NODES}/node{nodes[0]}/cpulist"),
            ),
        )


@check(
    reads=f"/{_BALANCING}",
    rule="Automatic NUMA balancing is off on machines with GPUs and several NUMA nodes.",
    source="deepseek-ai/DeepEP#644",
    cost="The kernel unmaps pages of host buffers at intervals, so ranks are late; NVLink is unaffected.",
    fix="sudo sysctl -w kernel.numa_balancing=0",
)
def numa_balancing(machine: Machine) -> Iterator[Finding]:
    if not gpus(machine) or len(parse_ranges(machine.text(f"{_NODES}/online")) or ()) < 2:
        raise NotApplicable("no GPU, or one NUMA node")
    if machine.number(_BALANCING) > 0:
        problem = "automatic NUMA balancing is on"
        yield Finding("risk", problem, (machine.evidence(_BALANCING),))
