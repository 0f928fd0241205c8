"""CPUs on which proxy threads run: their frequency, and their load."""

from collections import Counter
from collections.abc import Iterator

from busbw.doctor.model import Evidence, Finding, Machine, NotApplicable, check
from busbw.doctor.parts.pci import gpus, rdma_devices
from busbw.topology.cpu_ranges import parse_ranges

_CPUS = "sys/devices/system/cpu"
_POLICIES = f"{_CPUS}/cpufreq"
_HARDWARE_DRIVERS = ("intel_pstate", "amd-pstate-epp")
"""With these drivers the hardware selects the frequency by a preference, and powersave is no limit."""


@check(
    reads=f"/{_POLICIES}/policy*/{{scaling_governor,energy_performance_preference}}",
    rule="No CPU is held at a low frequency, and all CPUs have the same governor.",
    source="https://github.com/oracle-quickstart/oci-hpc",
    cost="Small sizes and transfers over sockets take longer, because the CPU issues every network operation.",
    fix="sudo cpupower frequency-set -g performance",
)
def cpu_governor(machine: Machine) -> Iterator[Finding]:
    if not gpus(machine) and not rdma_devices(machine):
        raise NotApplicable("no GPU or RDMA device")
    counts: Counter[str] = Counter()
    online = set(parse_ranges(machine.text(f"{_CPUS}/online")) or ())
    for policy in machine.names_or_empty(_POLICIES):
        # The kernel keeps the folder of a CPU that is offline, but refuses to read it.
        number = policy.removeprefix("policy")
        if number.isdecimal() and online and int(number[:9]) not in online:
            continue
        is_hardware = machine.optional(f"{_POLICIES}/{policy}/scaling_driver") in _HARDWARE_DRIVERS
        name = "energy_performance_preference" if is_hardware else "scaling_governor"
        counts[machine.optional(f"{_POLICIES}/{policy}/{name}") or "unknown"] += 1
    if not counts:
        raise NotApplicable("the system cannot select frequencies, as in a virtual machine")
    is_slow = bool({"powersave", "power"} & set(counts))
    if is_slow or len(counts) > 1:
        values = ", ".join(f"{value} on {count}" for value, count in sorted(counts.items()))
        problem = f"{'CPUs run at a low frequency' if is_slow else 'CPUs differ in their governor'}: {values}"
        yield Finding("slow" if is_slow else "risk", problem, (Evidence(f"/{_POLICIES}/policy*", values),))


@check(
    reads=f"/proc/loadavg, /{_CPUS}/online",
    rule="At most one task per CPU runs or waits (average of a minute).",
    source="NVIDIA/nccl#374",
    cost="Proxy threads of a job share their CPUs with other processes, so transfers wait.",
    fix="find the processes with top -b -n 1 | head -20, and end them or wait",
)
def other_load(machine: Machine) -> Iterator[Finding]:
    tasks = float(machine.word("proc/loadavg").split()[0])
    cpus = len(parse_ranges(machine.text(f"{_CPUS}/online")) or ())
    if tasks > cpus:
        problem = f"{tasks:g} tasks run or wait on {cpus} CPUs"
        yield Finding("risk", problem, (machine.evidence("proc/loadavg"),))
