"""CPUs on which proxy threads run: frequency, load, and NUMA nodes."""

from collections import Counter
from collections.abc import Iterator

from busbw.doctor.model import Evidence, Finding, Machine, Unreadable, check, key_text, require
from busbw.doctor.parts.job import allowed_cpus
from busbw.doctor.parts.pci import DEVICES, gpus, rdma_devices
from busbw.topology.cpu_ranges import parse_ranges

_CPUS = "sys/devices/system/cpu"
_POLICIES = f"{_CPUS}/cpufreq"
_HARDWARE_DRIVERS = ("intel_pstate", "amd-pstate-epp")
"""With these drivers the hardware selects the frequency by a preference, and powersave is no limit."""
_NODES, _BALANCING = "sys/devices/system/node", "proc/sys/kernel/numa_balancing"


def _numbers(machine: Machine, path: str) -> set[int]:
    """Returns the numbers in a file of ranges, such as "0-3,8". Raises Unreadable for another form."""
    numbers = parse_ranges(machine.text(path))
    if numbers is None:
        raise Unreadable(f"CPUs or NUMA nodes in {key_text(path)}")
    return set(numbers)


@check(
    reads=f"/{_POLICIES}/policy*/{{scaling_governor,energy_performance_preference}}",
    rule="No CPU is held at a low frequency, and all CPUs have the same governor.",
    source="https://github.com/oracle-quickstart/oci-hpc",
    cost="Small sizes and transfers over sockets take longer, because the CPU issues every network operation.",
    fix="sudo cpupower frequency-set -g performance",
)
def cpu_governor(machine: Machine) -> Iterator[Finding]:
    require(gpus(machine) or rdma_devices(machine), "no GPU or RDMA device")
    counts: Counter[str] = Counter()  # policies by governor or preference
    online = _numbers(machine, f"{_CPUS}/online")
    for policy in machine.names_or_empty(_POLICIES):
        # The kernel keeps the folder of a CPU that is offline, but refuses to read it.
        number = policy.removeprefix("policy")
        if online and number.isdecimal() and int(number[:9]) not in online:
            continue
        uses_preference = machine.text_or_none(f"{_POLICIES}/{policy}/scaling_driver") in _HARDWARE_DRIVERS
        name = "energy_performance_preference" if uses_preference else "scaling_governor"
        if value := machine.text_or_none(f"{_POLICIES}/{policy}/{name}"):
            counts[value] += 1
    require(counts, "the system cannot select frequencies, as in a virtual machine")
    values = ", ".join(f"{value} on {count}" for value, count in sorted(counts.items()))
    evidence = (Evidence(f"/{_POLICIES}/policy*", values),)
    if "powersave" in counts or "power" in counts:
        yield Finding("slow", f"CPUs run at a low frequency: {values}", evidence)
    elif len(counts) > 1:
        yield Finding("risk", f"CPUs differ in their governor: {values}", evidence)


@check(
    reads=f"/proc/loadavg, /{_CPUS}/online",
    rule="At most one task per CPU runs or waits (average of a minute).",
    source="NVIDIA/nccl#374",
    cost="Proxy threads of a job share their CPUs with other processes, so transfers wait.",
    fix="find the processes with top -b -n 1 | head -20, and end them or wait",
)
def other_load(machine: Machine) -> Iterator[Finding]:
    tasks = float(machine.word("proc/loadavg").split()[0])
    cpus = len(_numbers(machine, f"{_CPUS}/online"))
    if tasks > cpus > 0:
        problem = f"{tasks:g} tasks run or wait on {cpus} CPUs"
        yield Finding("risk", problem, (machine.evidence("proc/loadavg"),))


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
    require(nodes, "no GPU with a known NUMA node")
    near = set[int]().union(*(_numbers(machine, f"{_NODES}/node{node}/cpulist") for node in nodes))
    allowed = allowed_cpus(machine)
    own = set(parse_ranges(allowed) or ())
    # A job may bind each process to the node of its own GPU, so only CPUs far from all GPUs are certainly wrong.
    if near and own and near.isdisjoint(own):
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
    require(gpus(machine) and len(_numbers(machine, f"{_NODES}/online")) > 1, "no GPU, or one NUMA node")
    if machine.number(_BALANCING) > 0:
        problem = "automatic NUMA balancing is on"
        yield Finding("risk", problem, (machine.evidence(_BALANCING),))
